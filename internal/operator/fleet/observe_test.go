// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// watched is what a watch found that began at one instant and lasts to another.
func watched(from, until time.Time, change func(*census.Evidence)) *audit.Result {
	r := &audit.Result{Evidence: census.Evidence{
		From: from, Until: until,
		Coverage: []census.Coverage{
			{Source: census.SourceMonitor, From: from, Until: until, Elapsed: until.Sub(from),
				Sighted: until},
		},
		Counted: true,
	}}
	if change != nil {
		change(&r.Evidence)
	}
	return r
}

// observe runs an observer to which the results come one after another.
func (f *fleet) observe(name string, results ...*audit.Result) {
	f.t.Helper()
	err := WatchClients(bg, f.w.Pool(),
		ObserverConfig{Name: name, watch: func(_ context.Context, _ *redis.Pool,
			c audit.Config) (*audit.Result, error) {
			for _, r := range results {
				c.Seen(r)
				f.w.Pass(time.Millisecond)
			}
			return nil, nil
		}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) seen() Sighting {
	f.t.Helper()
	text, err := f.w.Mini.Get(record.SeenKey(""))
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := parseSighting(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func TestWatcherKeepsEarlierFactsWithoutWindows(t *testing.T) {
	inBubble(t, func(f *fleet) {
		now := f.w.ServerNow()
		at := now.Add(-time.Hour)
		f.observe("first", watched(at, now, func(e *census.Evidence) {
			e.SmallestLease = census.Span{Value: 5 * time.Second, Basis: census.Measured}
			e.GreatestLease = census.Span{Value: 5 * time.Second, Basis: census.Default}
			e.Keys = []census.KeyEvidence{
				{Key: "k", Acts: census.Acts{LastFailed: &census.Act{
					At: at, What: census.ActLost, Addr: "10.0.0.1:7", Name: "till"}}}}
			e.GetsetFirst = []string{"10.0.0.2:1"}
		}))
		f.w.Pass(time.Minute)
		now = f.w.ServerNow()
		f.observe("second", watched(now, now.Add(time.Second), func(e *census.Evidence) {
			e.SmallestLease = census.Span{Value: time.Minute, Basis: census.Measured}
		}))
		s := f.seen()
		if s.Lease.Time != 5*time.Second || s.Greatest.Known() || len(s.GetsetFirst) != 1 {
			t.Errorf("%+v", s)
		}
		if len(s.Keys) != 1 || s.Keys[0].LastFailed.Who != "10.0.0.1:7 till" {
			t.Errorf("%+v", s.Keys)
		}
		if s.Quiet != time.Second || s.Observer != "second" {
			t.Errorf("%+v", s)
		}
	})
}

func TestSecondWatcherKeepsTheFirstOnesWindow(t *testing.T) {
	inBubble(t, func(f *fleet) {
		now := f.w.ServerNow()
		f.observe("first", watched(now.Add(-time.Hour), now, nil))
		f.observe("second", watched(now, now.Add(time.Second), nil))
		if s := f.seen(); s.Observer != "first" {
			t.Errorf("%s took over", s.Observer)
		}
		// It may be gone already, and an act that another sees cuts its window.
		f.observe("who saw one", watched(now, now.Add(2*time.Second), func(e *census.Evidence) {
			e.LastFailed = &census.Act{At: now.Add(time.Second), Key: "k", What: census.ActLost}
		}))
		if s := f.seen(); s.Observer != "who saw one" || s.Quiet != time.Second {
			t.Errorf("%s says quiet for %v, and somebody tried", s.Observer, s.Quiet)
		}
		f.observe("third", watched(now, now.Add(time.Minute), nil))
		if s := f.seen(); s.Observer != "third" {
			t.Errorf("%s is gone, and its word stands", s.Observer)
		}
	})
}

// TestWatcherByMonitorKeepsItsWindow alongside one that began earlier and
// watches by polls alone.
func TestWatcherByMonitorKeepsItsWindow(t *testing.T) {
	now := judged
	polls := sighted("polls", watched(now.Add(-time.Hour), now, func(e *census.Evidence) {
		e.Coverage[0] = census.Coverage{Source: census.SourceMonitor, Missing: notAsked}
	}))
	monitor := sighted("monitor", watched(now.Add(-time.Minute), now.Add(-time.Second), nil))
	later := sighted("later", watched(now.Add(-30*time.Second), now, nil))
	if !monitor.standsBefore(polls) || polls.standsBefore(monitor) || !monitor.standsBefore(later) ||
		later.standsBefore(monitor) {
		t.Errorf("%+v\n%+v\n%+v", polls, monitor, later)
	}
}

// TestWatcherThatSawLessOverwritesNothing lets one watcher keep its window
// while a second one sees a longer pause, a longer job and an act in clean. The
// first one writes again afterwards.
func TestWatcherThatSawLessOverwritesNothing(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Clean)
		f.w.Pass(time.Minute)
		now := f.w.ServerNow()
		results := map[string]func() *audit.Result{
			"first": func() *audit.Result {
				return watched(now.Add(-time.Hour), f.w.ServerNow(), func(e *census.Evidence) {
					e.LongestPause = census.Span{Value: time.Second, Basis: census.Measured, At: now}
				})
			},
			"second": func() *audit.Result {
				return watched(now.Add(-30*time.Second), f.w.ServerNow(), func(e *census.Evidence) {
					e.LongestPause = census.Span{Value: time.Hour, Basis: census.Measured, At: now}
					e.LongestHold = census.Span{Value: time.Minute, Basis: census.Measured, At: now}
					e.LastWrite = &census.Act{
						At: now.Add(-20 * time.Second), Key: "k", What: census.ActAcquired}
					e.Keys = []census.KeyEvidence{{Key: "k", Acts: e.Acts}}
				})
			},
		}
		// Both run at the same time, and take turns.
		turns := map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}
		wrote := make(chan struct{})
		for name := range turns {
			go func() {
				_ = WatchClients(bg, f.w.Pool(),
					ObserverConfig{Name: name,
						watch: func(_ context.Context, _ *redis.Pool, c audit.Config) (*audit.Result, error) {
							for range turns[name] {
								c.Seen(results[name]())
								f.w.Pass(time.Millisecond)
								wrote <- struct{}{}
							}
							return nil, nil
						}})
			}()
		}
		for i, name := range []string{"first", "second", "first", "second", "first"} {
			turns[name] <- struct{}{}
			<-wrote
			synctest.Wait()
			if i == 0 {
				continue
			}
			s := f.seen()
			if i == 1 && s.Observer != "first" || s.Pause.Time != time.Hour || s.Job.Time != time.Minute ||
				len(s.Keys) != 1 || s.Alarm == nil {
				t.Errorf("after %s wrote: %+v", name, s)
			}
			if quiet := s.Quiet; quiet > s.Until.Sub(now.Add(-20*time.Second)) {
				t.Errorf("quiet for %v, and an old client wrote %v ago", quiet,
					s.Until.Sub(now.Add(-20*time.Second)))
			}
		}
		close(turns["first"])
		close(turns["second"])
		synctest.Wait()
	})
}

// TestWatcherWritesAgainAfterAnother lets another watcher write between the
// read and the write of a first one.
func TestWatcherWritesAgainAfterAnother(t *testing.T) {
	inBubble(t, func(f *fleet) {
		now := f.w.ServerNow()
		other := Sighting{
			Format: sightingFormat, Observer: "other", From: now.Add(-time.Hour),
			Until: now.Add(-time.Minute),
			Facts: Facts{Pause: Fact{Time: time.Hour, Basis: string(census.Measured), At: now}},
		}
		text, err := other.text()
		if err != nil {
			t.Fatal(err)
		}
		o, err := newObserver(f.w.Pool(), ObserverConfig{Name: "o"})
		if err != nil {
			t.Fatal(err)
		}
		defer o.mux.Close()
		mine := sighted("o", watched(now.Add(-time.Second), now, nil))
		if err := o.replace(bg, "", text); err != nil {
			t.Fatal(err)
		}
		if err := o.replace(bg, "", "mine"); !errors.Is(err, errRaced) {
			t.Errorf("written over what was not read: %v", err)
		}
		if ttl := f.w.Mini.TTL(record.SeenKey("")); ttl != sightingTTL {
			t.Errorf("kept for %v", ttl)
		}
		s, err := o.keepOnce(bg, mine)
		if err != nil || s.Observer != "o" || s.Pause.Time != time.Hour {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestWatcherRefusesASightingItCannotRead: they may be of a newer version.
func TestWatcherRefusesASightingItCannotRead(t *testing.T) {
	inBubble(t, func(f *fleet) {
		now := f.w.ServerNow()
		newer := `{"format":"gsl-seen/99"}`
		err := WatchClients(bg, f.w.Pool(),
			ObserverConfig{Name: "o",
				watch: func(ctx context.Context, _ *redis.Pool, c audit.Config) (*audit.Result, error) {
					_ = f.w.Mini.Set(record.SeenKey(""), newer)
					c.Seen(watched(now, now.Add(time.Second), nil))
					<-ctx.Done()
					return nil, nil
				}})
		if text, _ := f.w.Mini.Get(record.SeenKey("")); text != newer || !errors.Is(err, record.ErrNewer) {
			t.Errorf("%v, and it says %s", err, text)
		}
	})
}

// What watches before found stays until the evidence is begun anew.
func TestDoubtOfALeaseIsKept(t *testing.T) {
	before := Sighting{Format: sightingFormat,
		Facts: Facts{LeaseLooks: Fact{Time: 30 * time.Second, Basis: "inferred"}}}
	if got := (Sighting{Format: sightingFormat}).with(before).LeaseLooks; got != before.LeaseLooks {
		t.Errorf("%+v", got)
	}
}

// TestAlarmIsKeptWhileNobodyReadsTheRecord: whether the fleet is in clean is
// then unknown.
func TestAlarmIsKeptWhileNobodyReadsTheRecord(t *testing.T) {
	inBubble(t, func(f *fleet) {
		now := f.w.ServerNow()
		before := Sighting{Format: sightingFormat, Observer: "other", Until: now.Add(-time.Hour),
			Alarm: &Touch{At: now.Add(-time.Hour), Key: "k", What: "acquired"}}
		if err := before.Keep(bg, f.w.Pool(), ""); err != nil {
			t.Fatal(err)
		}
		_ = f.w.Mini.Set(record.Key(""), "x")
		o, err := newObserver(f.w.Pool(), ObserverConfig{Name: "o"})
		if err != nil {
			t.Fatal(err)
		}
		defer o.mux.Close()
		if s, err := o.keepOnce(bg, sighted("o", watched(now, now, nil))); err != nil || s.Alarm == nil {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestSightingKeepsTheLastCountedCall, the latest of all watchers'.
func TestSightingKeepsTheLastCountedCall(t *testing.T) {
	s := sighted("o", watched(judged, judged, func(e *census.Evidence) { e.LastMoved = judged }))
	if got := (Sighting{Format: sightingFormat}).with(s); s.LastCalled != judged || got.LastCalled != judged {
		t.Errorf("%v, then %v", s.LastCalled, got.LastCalled)
	}
}

// A watch goes by what the record has as claimed, so that clocks can be
// measured.
func TestWatchGoesByTheClaimsOfTheRecord(t *testing.T) {
	claimed := func(d time.Duration) migrate.Known { return migrate.Known{Time: d, Source: migrate.Claimed} }
	for name, c := range map[string]struct {
		fleet       migrate.Fleet
		given, want ObserverConfig
	}{
		"nothing": {},
		"all": {
			migrate.Fleet{Lease: claimed(time.Minute), Greatest: claimed(time.Hour),
				Gap: claimed(time.Second)}, ObserverConfig{},
			ObserverConfig{Lease: time.Minute, Greatest: time.Hour, Gap: time.Second},
		},
		"zero": {migrate.Fleet{Lease: claimed(time.Minute), Gap: claimed(0)}, ObserverConfig{},
			ObserverConfig{Lease: time.Minute, Gap: dialect.Zero}},
		"flags first": {
			migrate.Fleet{Lease: claimed(time.Minute), Gap: claimed(time.Second)},
			ObserverConfig{Lease: time.Hour, Gap: time.Millisecond},
			ObserverConfig{Lease: time.Hour, Gap: time.Millisecond},
		},
		"a smaller greatest": {migrate.Fleet{Greatest: claimed(time.Minute)},
			ObserverConfig{Lease: time.Hour}, ObserverConfig{Lease: time.Hour}},
		"no claims": {
			migrate.Fleet{Lease: migrate.Known{Time: time.Minute, Source: migrate.Default},
				Gap: migrate.Known{Time: time.Second, Source: migrate.Default}},
			ObserverConfig{}, ObserverConfig{},
		},
	} {
		got := c.given.claimed(c.fleet)
		if got.Lease != c.want.Lease || got.Greatest != c.want.Greatest || got.Gap != c.want.Gap {
			t.Errorf("%s: lease %v, greatest %v, gap %d", name, got.Lease, got.Greatest, got.Gap)
		}
		o := &observer{cfg: got}
		if a := o.auditConfig(nil); a.Lease != got.Lease || a.Greatest != got.Greatest || a.Gap != got.Gap {
			t.Errorf("%s: the watch is told %+v", name, a.Config)
		}
	}
}

// TestWatchTakesUpTheClaimsOfAStep that comes after the watch began, as in
// docs/guide/migration.md. Else it would go by a guessed lease for ever, and
// never prove that a clock is behind. What it had seen is written first.
func TestWatchTakesUpTheClaimsOfAStep(t *testing.T) {
	inBubble(t, func(f *fleet) {
		o := f.options(Options{})
		o.Claims = Claims{}
		if r, err := Init(bg, f.w.Pool(), o); err != nil || !r.Moved {
			t.Fatal(r, err)
		}
		now := f.w.ServerNow()
		var told [][2]time.Duration // leases and gaps
		watch := func(ctx context.Context, _ *redis.Pool, c audit.Config) (*audit.Result, error) {
			if told = append(told, [2]time.Duration{c.Lease, c.Gap}); len(told) > 1 {
				return nil, nil
			}
			c.Seen(watched(now, now, nil))
			f.w.Pass(time.Second)
			r := f.at(migrate.Observe)
			r.Fleet = migrate.Fleet{Lease: migrate.Known{Time: time.Minute, Source: migrate.Claimed},
				Gap: migrate.Known{Time: second, Source: migrate.Claimed}}
			f.recorded(r)
			c.Seen(watched(now, now, func(e *census.Evidence) { e.Ahead.AtLeast = second }))
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("the watch goes on without the claims")
			}
			return nil, nil
		}
		if err := WatchClients(bg, f.w.Pool(), ObserverConfig{Name: "o", watch: watch}); err != nil {
			t.Fatal(err)
		}
		if r := f.at(migrate.Observe); !slices.Equal(told, [][2]time.Duration{{}, {time.Minute, second}}) ||
			r.SawAhead != second || f.seen().AheadProved.Time != second {
			t.Errorf("told %v, record %v", told, r)
		}
	})
}

func TestSightingTakesWhatWasSeenOfTheClocks(t *testing.T) {
	const behind, ahead = 2 * time.Minute, 3 * time.Second
	for name, c := range map[string]struct {
		behind, ahead census.Bound
		want          [2]time.Duration // behind and ahead, at least; 0 is unknown
	}{
		"nothing": {behind: census.Bound{AtLeast: offset.NoLow},
			ahead: census.Bound{AtLeast: offset.NoLow}},
		"both": {behind: census.Bound{AtLeast: behind}, ahead: census.Bound{AtLeast: ahead},
			want: [2]time.Duration{behind, ahead}},
		"on one side": {behind: census.Bound{AtLeast: behind}, ahead: census.Bound{AtLeast: -behind},
			want: [2]time.Duration{behind, 0}},
		"guessed": {behind: census.Bound{AtLeast: behind, Guessed: true},
			ahead: census.Bound{AtLeast: ahead, Guessed: true}},
	} {
		s := sighted("o", watched(judged, judged,
			func(e *census.Evidence) { e.Behind, e.Ahead = c.behind, c.ahead }))
		if got := [2]time.Duration{s.BehindProved.Time, s.AheadProved.Time}; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestWatcherTellsMembersWhatItSawOfClocks by the record, and keeps the
// greatest bound. ForgetEvidence is final while the watcher runs: that watch
// ends, and the next one knows nothing of before.
func TestWatcherTellsMembersWhatItSawOfClocks(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		now := f.w.ServerNow()
		saw := func(behind, ahead time.Duration) *audit.Result {
			return watched(now, now,
				func(e *census.Evidence) { e.Behind.AtLeast, e.Ahead.AtLeast = behind, ahead })
		}
		says := func(behind, ahead time.Duration) {
			t.Helper()
			f.w.Pass(time.Second)
			if r := f.at(migrate.Observe); r.Epoch != 1 || r.SawBehind != behind || r.SawAhead != ahead {
				t.Errorf("the record says %v", r)
			}
		}
		watches := 0
		watch := func(ctx context.Context, _ *redis.Pool, c audit.Config) (*audit.Result, error) {
			if watches++; watches > 1 {
				c.Seen(saw(0, second))
				says(0, second)
				return nil, nil
			}
			c.Seen(saw(2*second, 0))
			says(2*second, 0)
			c.Seen(saw(second, 3*second))
			says(2*second, 3*second)
			if _, err := ForgetEvidence(bg, f.w.Pool(), f.options(Options{})); err != nil {
				t.Error(err)
			}
			says(0, 0)
			c.Seen(saw(2*second, 3*second))
			<-ctx.Done()
			says(0, 0)
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		if err := WatchClients(ctx, f.w.Pool(), ObserverConfig{Name: "o", watch: watch}); err != nil {
			t.Fatal(err)
		}
		if s := f.seen(); watches != 2 || s.BehindProved.Known() || s.AheadProved.Time != second {
			t.Errorf("after %d watches: %+v", watches, s)
		}
	})
}

// TestAlarmInCleanCountsAttemptsInVain: a failed one that MONITOR saw, and a
// call that the server counted where nobody saw one.
func TestAlarmInCleanCountsAttemptsInVain(t *testing.T) {
	before, after := judged.Add(-time.Hour), judged.Add(time.Minute)
	for name, c := range map[string]struct {
		s    Sighting
		what string // of the alarm; empty: none
	}{
		"nothing": {},
		"before": {Sighting{LastFailed: &Touch{At: before, What: "lost"}, LastCalled: before},
			""},
		"in vain": {Sighting{LastFailed: &Touch{At: after, What: "lost"}}, "lost"},
		"counted": {Sighting{LastFailed: &Touch{At: before, What: "lost"}, LastCalled: after},
			"counted"},
		"counted and seen": {Sighting{LastWrite: &Touch{At: after, What: "acquired"}, LastCalled: after},
			"acquired"},
		"counted, none seen": {Sighting{LastCalled: after}, "counted"},
	} {
		c.s.alarmed(migrate.Record{Phase: migrate.Clean, Since: judged})
		if a := c.s.Alarm; (a == nil) != (c.what == "") || a != nil && !strings.Contains(a.What, c.what) {
			t.Errorf("%s: %+v", name, a)
		}
		c.s.alarmed(migrate.Record{Phase: migrate.Modern, Since: judged})
		if c.s.Alarm != nil {
			t.Errorf("%s: an alarm in modern", name)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package audit

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/redisconn"
)

// jedisLoop takes and releases a lock as an old client does, until ctx ends.
func jedisLoop(ctx context.Context, t *testing.T, pool *redis.Pool, key, name string, hold time.Duration) {
	c := pool.Get()
	defer c.Close()
	if name != "" {
		if err := setName(c, name); err != nil {
			t.Error(err)
		}
	}
	jedisLoopOn(ctx, t, c, key, hold)
}

func setName(c redis.Conn, name string) error {
	_, err := c.Do("CLIENT", "SETNAME", name)
	return err
}

// jedisLoopOn is jedisLoop on the caller's connection.
func jedisLoopOn(ctx context.Context, t *testing.T, c redis.Conn, key string, hold time.Duration) {
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for ctx.Err() == nil {
		won, err := redis.Int(c.Do("SETNX", key, jedisStamp(time.Now())))
		if err != nil {
			t.Error(err)
			return
		}
		if won == 0 {
			_, _ = c.Do("GET", key)
			if !pause(20 * time.Millisecond) {
				return
			}
			continue
		}
		pause(hold)
		if _, err := c.Do("DEL", key); err != nil {
			t.Error(err)
		}
		if !pause(15 * time.Millisecond) {
			return
		}
	}
}

// until lets a watch end once it has seen enough.
func until(t *testing.T, cfg *Config, enough func(*Result) bool) (ctx context.Context) {
	ctx, stop := context.WithTimeout(t.Context(), redistest.Patience)
	t.Cleanup(stop)
	cfg.SeenEvery = 50 * time.Millisecond
	cfg.Seen = func(r *Result) {
		if enough(r) {
			stop()
		}
	}
	return ctx
}

// watchSeen watches locks until it has seen enough.
func watchSeen(t *testing.T, s *redistest.Server, cfg Config, enough func(*Result) bool) *Result {
	t.Helper()
	pool := s.Pool()
	defer pool.Close()
	cfg.Match = "lock:*"
	r, err := Watch(until(t, &cfg, enough), pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// besideSeen is beside until the watch has seen enough.
func besideSeen(t *testing.T, s *redistest.Server, pool *redis.Pool, cfg Config,
	enough func(*Result) bool) (*Result, error) {
	t.Helper()
	return beside(until(t, &cfg, enough), t, s, pool, cfg)
}

// beside runs two old clients on one key during a watch.
func beside(ctx context.Context, t *testing.T, s *redistest.Server, pool *redis.Pool,
	cfg Config) (*Result, error) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	work := s.Pool()
	defer work.Close()
	ended := make(chan struct{})
	// Both clients set their names before the watch begins. The watch asks
	// CLIENT LIST only now and then, and might miss a name that is set late.
	for i := range 2 {
		c := work.Get()
		if err := setName(c, fmt.Sprint("client-", i)); err != nil {
			t.Fatal(err)
		}
		go func() {
			defer c.Close()
			jedisLoopOn(ctx, t, c, "lock:stock", 30*time.Millisecond)
			ended <- struct{}{}
		}()
	}
	r, err := Watch(ctx, pool, cfg)
	stop()
	<-ended
	<-ended
	return r, err
}

var short = MonitorConfig{On: true, Burst: 600 * time.Millisecond, Every: 1200 * time.Millisecond,
	Slower: 1000, Least: time.Second}

func TestEverySourceWorksOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			pool := s.Pool()
			defer pool.Close()
			var record bytes.Buffer
			cfg := Config{
				Config: census.Config{
					Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}, Lease: time.Minute,
					Gap: 5 * time.Second},
				Monitor: short,
				Record:  &record,
			}
			r, err := besideSeen(t, s, pool, cfg, func(r *Result) bool {
				e, bursts := r.Evidence, r.Cost.Monitor
				return e.Counts.Acquisitions >= 5 && e.Counts.Failed >= 5 && named(e) == 2 &&
					!e.LastMoved.IsZero() && bursts != nil && bursts.Bursts >= 2
			})
			if err != nil {
				t.Fatal(err)
			}
			e := r.Evidence
			for _, c := range e.Coverage {
				t.Logf("%s: %v…%v, %d events, missing %q, holes %+v", c.Source, c.From, c.Until, c.Events,
					c.Missing, c.Holes)
				if c.Missing != "" && (b.Tracking || c.Source != census.SourceTracking) {
					t.Errorf("%s: %s", c.Source, c.Missing)
				}
			}
			t.Logf("%+v\ncost %+v %+v\nfindings %+v", e.Counts, r.Cost, r.Cost.Monitor, r.Findings)
			if e.Counts.Acquisitions < 5 || e.Counts.Failed < 5 ||
				e.Counts.Overruns+e.Counts.Clobbers+e.Counts.Ghosts+e.Counts.Overlaps > 0 {
				t.Errorf("counted %+v", e.Counts)
			}
			for _, w := range e.Writers {
				if strings.HasPrefix(w.Name, "client-") &&
					(!w.Offset.Contains(0) || !w.Offset.Bounded() || len(w.Steps) > 0) {
					t.Errorf("%s: %v, %v", w.Name, w.Offset.Interval, w.Steps)
				}
			}
			if named(e) != 2 {
				t.Errorf("writers with names are not two: %+v", e.Writers)
			}
			if e.LastMoved.IsZero() {
				t.Error("no call was counted")
			}
			again, err := Replay(&record, cfg)
			if err != nil || !reflect.DeepEqual(again.Evidence, e) {
				t.Errorf("replayed: %v\n%+v\nlive\n%+v", err, again.Evidence, e)
			}
		})
	}
}

// named counts the writers that have the name of one of beside's clients.
func named(e census.Evidence) (n int) {
	for _, w := range e.Writers {
		if strings.HasPrefix(w.Name, "client-") {
			n++
		}
	}
	return n
}

// Keys of the same name in another database belong to other programs.
func TestWatchAndReplayKeepToTheirDatabase(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	pool := poolAt(t, s.URL()+"/3")
	defer pool.Close()
	var record bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		jedisLoop(ctx, t, pool, "lock:stock", "", 30*time.Millisecond)
		close(ended)
	}()
	r, err := besideSeen(t, s, pool, Config{
		Config: census.Config{Match: "lock:*", DB: 3}, Monitor: short, Record: &record},
		func(r *Result) bool { return r.Evidence.Counts.Acquisitions > 0 })
	stop()
	<-ended
	if err != nil || r.Evidence.Counts.Acquisitions == 0 || len(r.Evidence.Keys) != 1 ||
		r.Evidence.Keys[0].DB != 3 {
		t.Fatalf("%+v, %v", r.Evidence.Keys, err)
	}
	if again, err := Replay(&record, Config{}); err != nil || !reflect.DeepEqual(again.Evidence, r.Evidence) {
		t.Errorf("replayed %+v, %v", again.Evidence, err)
	}
}

// sends are the commands that a watch may send: all of them read, or set
// properties of the connection.
var sends = []string{"client", "config|get", "eval", "evalsha", "get", "getrange", "hello", "info", "monitor",
	"ping", "pttl", "scan", "script|load", "select", "subscribe", "time", "command", "object"}

func TestWatchSendsNothingThatChangesTheServer(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	s.Do("SET", "lock:dead", "1770000000000")
	s.Do("CONFIG", "RESETSTAT")
	before := fmt.Sprint(s.Do("CONFIG", "GET", "*"))
	pool := s.Pool()
	if _, err := Watch(t.Context(), pool, Config{For: 1500 * time.Millisecond, Monitor: short}); err != nil {
		t.Fatal(err)
	}
	pool.Close()
	text, _ := redis.String(s.Do("INFO", "commandstats"), nil)
	for row := range strings.SplitSeq(strings.TrimSpace(text), "\r\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "cmdstat_"), ":")
		whole, _, _ := strings.Cut(name, "|")
		if row == "" || strings.HasPrefix(row, "#") || slices.Contains(sends, name) ||
			slices.Contains(sends, whole) || name == "config|resetstat" {
			continue
		}
		t.Errorf("it sent %s", row)
	}
	if after := fmt.Sprint(s.Do("CONFIG", "GET", "*")); after != before {
		t.Error("a setting changed")
	}
	if text, _ := redis.String(s.Do("CLIENT", "LIST"), nil); strings.Contains(text, keys.ConnectionName) {
		t.Errorf("a connection is left:\n%s", text)
	}
	if got, _ := redis.String(s.Do("GET", "lock:dead"), nil); got != "1770000000000" {
		t.Errorf("the key is %q", got)
	}
}

func TestWatchNamesMissingRightsAndGoesOn(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	for _, c := range []struct {
		without []string
		source  census.Source
		says    string
		works   census.Source
	}{
		{[]string{"-monitor"}, census.SourceMonitor, "no right to MONITOR", census.SourcePoll},
		{[]string{"-info"}, census.SourceStats, "no right to INFO", census.SourcePoll},
		{[]string{"-client|list"}, census.SourceClients, "no right to CLIENT LIST", census.SourcePoll},
		{[]string{"-client|tracking"}, census.SourceTracking, "CLIENT TRACKING", census.SourcePoll},
		{[]string{"-eval", "-evalsha", "-getrange"}, census.SourcePoll, "no right to GETRANGE",
			census.SourceMonitor},
	} {
		t.Run(c.without[0], func(t *testing.T) {
			url := s.User("app", "pw", append([]string{"~*", "&*", "+@all"}, c.without...)...)
			pool := poolAt(t, url)
			defer pool.Close()
			r, err := besideSeen(t, s, pool,
				Config{Config: census.Config{Match: "lock:*"}, Monitor: short},
				func(r *Result) bool {
					return strings.Contains(r.Evidence.Covered(c.source).Missing, c.says) &&
						r.Evidence.Counts.Acquisitions > 0 &&
						r.Evidence.Covered(c.works).Events > 0
				})
			if err != nil {
				t.Fatal(err)
			}
			got := r.Evidence.Covered(c.source)
			if !strings.Contains(got.Missing, c.says) || !strings.Contains(got.Missing, ";") {
				t.Errorf("%s says %q", c.source, got.Missing)
			}
			if other := r.Evidence.Covered(c.works); other.Missing != "" || other.Events == 0 ||
				r.Evidence.Counts.Acquisitions == 0 {
				t.Errorf("%s: %+v, %+v", c.works, other, r.Evidence.Counts)
			}
		})
	}
	t.Run("no scripts", func(t *testing.T) {
		pool := poolAt(t, s.User("app", "pw", "~*", "&*", "+@all", "-@scripting"))
		defer pool.Close()
		r, err := besideSeen(t, s, pool, Config{Config: census.Config{Match: "lock:*"}},
			func(r *Result) bool {
				return r.Evidence.Counts.Acquisitions > 0 && r.Evidence.Covered(census.SourcePoll).Note != ""
			})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Evidence.Covered(census.SourcePoll); got.Missing != "" || got.Note == "" ||
			r.Evidence.Counts.Acquisitions == 0 {
			t.Errorf("%+v, %+v", got, r.Evidence.Counts)
		}
	})
}

func poolAt(t *testing.T, url string) *redis.Pool {
	t.Helper()
	target, err := redisconn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := target.Pool(redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func TestBurstStopsByItself(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	for name, c := range map[string]struct {
		cfg    MonitorConfig
		reason census.HoleReason
		says   string
	}{
		"latency": {MonitorConfig{On: true, Burst: time.Minute, Every: 2 * time.Minute, Slower: 1e-9,
			Least: time.Nanosecond}, census.HoleSlow, "round trip"},
		"bytes": {MonitorConfig{On: true, Burst: time.Minute, Every: 2 * time.Minute, Bytes: 2000,
			Slower: 1000, Least: time.Second}, census.HoleBudget, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := s.Pool()
			defer pool.Close()
			stopped := func(r *Result, reason census.HoleReason, says string) bool {
				return slices.ContainsFunc(r.Evidence.Covered(census.SourceMonitor).Holes,
					func(h census.Hole) bool {
						return h.Reason == reason && strings.Contains(h.Detail, says)
					})
			}
			for {
				seen, on := 0, time.Duration(0)
				r, err := besideSeen(t, s, pool,
					Config{Config: census.Config{Match: "lock:*"}, Monitor: c.cfg},
					func(r *Result) bool {
						if stopped(r, c.reason, c.says) {
							if seen++; seen == 1 {
								on = r.Cost.Monitor.Time
							}
						}
						return seen > 10 || stopped(r, census.HoleSlow, "")
					})
				if err != nil {
					t.Fatal(err)
				}
				if c.reason != census.HoleSlow && stopped(r, census.HoleSlow, "") {
					continue // the machine stood still, which ends a burst too
				}
				if !stopped(r, c.reason, c.says) || r.Cost.Monitor.Bursts != 1 ||
					seen > 1 && r.Cost.Monitor.Time != on {
					t.Errorf("holes %+v, cost %+v, on for %v at first",
						r.Evidence.Covered(census.SourceMonitor).Holes, r.Cost.Monitor, on)
				}
				return
			}
		})
	}
}

func TestWatchReadsOneKilobyteOfLargeValues(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	big := strings.Repeat("\x00\xff\"\\", 2<<20)
	s.Do("SET", "lock:big", big)
	s.Do("HSET", "lock:hash", "f", "v")
	pool := s.Pool()
	defer pool.Close()
	var record bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	cfg := Config{Config: census.Config{Match: "lock:*"},
		For: time.Minute, Monitor: short, Record: &record, SeenEvery: 100 * time.Millisecond}
	cfg.Seen = func(r *Result) {
		if r.Evidence.Counts.Acquisitions > 0 { // a burst of lines this long may take a while
			stop()
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work := s.Pool()
		defer work.Close()
		c := work.Get()
		defer c.Close()
		for ctx.Err() == nil {
			_, _ = c.Do("SETNX", "lock:stock", big)
			_, _ = c.Do("SET", "lock:big", big)
			_, _ = c.Do("DEL", "lock:stock") // without this DEL, only the first round would win
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	r, err := beside(ctx, t, s, pool, cfg)
	stop()
	<-done
	if err != nil || r.Evidence.Counts.Acquisitions == 0 {
		t.Fatalf("%+v, %v", r.Evidence.Counts, err)
	}
	for row := range strings.SplitSeq(record.String(), "\n") {
		if len(row) > 16<<10 {
			t.Fatalf("a line of %d bytes", len(row))
		}
	}
}

// The server goes away twice, and the second time it does not return.
func TestServerThatGoesAwayLeavesAHole(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	pool := s.Pool()
	defer pool.Close()
	const every, away = 500 * time.Millisecond, 6 // calls of Seen, longer than mostAbsent
	step, calls, answers := 0, 0, int64(0)
	var gone []time.Time
	var back time.Time
	s.Do("SET", "lock:a", "1")
	cfg := Config{Config: census.Config{Match: "lock:*"}, Monitor: short}
	ctx := until(t, &cfg, func(r *Result) bool {
		calls++
		answered := r.Evidence.Covered(census.SourcePoll).Events > answers
		switch {
		case step == 0 && answered && !r.Evidence.Covered(census.SourceMonitor).From.IsZero(),
			step == 2 && answered: // for good, so no later reply can end this hole
			s.Kill()
			gone = append(gone, time.Now())
			step, calls = step+1, 0
		case step == 1 && calls == away:
			back = time.Now()
			s.Start()
			s.Do("SET", "lock:a", "1")
			step, answers = step+1, r.Evidence.Covered(census.SourcePoll).Events
		}
		return step == 3 && calls == away
	})
	cfg.SeenEvery = every
	r, err := Watch(ctx, pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Evidence.Covered(census.SourcePoll)
	hole := func(from, until time.Time) bool {
		return slices.ContainsFunc(p.Holes, func(h census.Hole) bool {
			return h.Reason == census.HoleAbsent && !h.From.After(from) && !h.Until.Before(until)
		})
	}
	if len(gone) != 2 || !hole(gone[0], back) || !hole(gone[1], gone[1].Add(mostAbsent)) {
		t.Errorf("away at %v until %v; polls: %+v", gone, back, p)
	}
	if c := r.Evidence.Covered(census.SourceMonitor); len(c.Holes) == 0 || c.Missing != "" {
		t.Errorf("%+v", c)
	}
}

// The server reports each change, although the watch asks it only once per
// change.
func TestWatchAsksForEachChangeOnce(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	const changes = 10
	made, before := int64(0), int64(0)
	s.Do("SET", "lock:a", jedisStamp(time.Now()))
	looks := func(r *Result) int64 { return r.Evidence.Covered(census.SourcePoll).Events }
	r := watchSeen(t, s, Config{NoStats: true}, func(r *Result) bool {
		told := r.Evidence.Covered(census.SourceTracking).Events
		if told < made || looks(r) < before+3 { // wait until the key was looked at several times
			return false
		}
		if made < changes {
			before = looks(r)
			s.Do("SET", "lock:a", jedisStamp(time.Now()))
			made++
			return false
		}
		return true
	})
	if told := r.Evidence.Covered(census.SourceTracking).Events; told != changes || made != changes {
		t.Errorf("%d of %d changes were reported", told, made)
	}
	text, _ := redis.String(s.Do("INFO", "commandstats"), nil)
	asked, _, _ := callsIn(text, "client|caching")
	// The watch asks about the key at first, after each change, and now and
	// then.
	if most := changes + 2 + int64(r.Cost.Elapsed/trackAgain); asked == 0 || asked > most {
		t.Errorf("asked %d times for reports of changes, more than %d", asked, most)
	}
}

// The watch does not read an unchanged value again if the server reports
// changes. Setting a TTL is a change.
func TestWatchSeesATTLSetLaterOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			s.Do("SET", "lock:a", jedisStamp(time.Now()))
			set := false
			r := watchSeen(t, s, Config{}, func(r *Result) bool {
				keys := r.Evidence.Keys
				if len(keys) == 0 {
					return false
				}
				if set {
					return !keys[0].NoTTL
				}
				if set = keys[0].NoTTL && r.Evidence.Covered(census.SourcePoll).Events > 5; set {
					s.Do("PEXPIRE", "lock:a", 3_600_000)
				}
				return false
			})
			if !set || r.Evidence.Keys[0].NoTTL || r.Evidence.Counts.Acquisitions != 1 {
				t.Errorf("set %v: %+v", set, r.Evidence.Keys)
			}
		})
	}
}

func TestUnchangedValueIsRarelyAskedForItsTTL(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	s.Do("SET", "lock:a", jedisStamp(time.Now()))
	r := watchSeen(t, s, Config{}, func(r *Result) bool { return r.Cost.Looks > 20 })
	if len(r.Evidence.Keys) != 1 {
		t.Fatal(r)
	}
	text, err := redis.String(s.Do("INFO", "commandstats"), nil)
	if err != nil {
		t.Fatal(err)
	}
	reads, _, _ := callsIn(text, "getrange")
	if asked, _, _ := callsIn(text, "pttl"); reads < 20 || asked > reads/2 {
		t.Errorf("%d looks asked %d times for the TTL", reads, asked)
	}
}

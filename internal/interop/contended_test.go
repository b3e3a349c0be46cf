//go:build real

package interop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

// fleet is four Java clients and four processes of ours at work on one counter.
type fleet struct {
	server  *redistest.Server
	java    []*Loop
	ours    []*worker
	started time.Time
}

func startFleet(t *testing.T, ctx context.Context, s *redistest.Server, politeness time.Duration) *fleet {
	t.Helper()
	f := &fleet{server: s, started: time.Now()}
	for range 4 {
		c := SharedClient(t, s.Addr())
		check(t, c.Lock(ctx, Jar, key, 2*time.Minute, time.Minute))
		f.java = append(f.java, must[*Loop](t)(c.StartLoop(ctx, counter, time.Millisecond, 0)))
		f.ours = append(f.ours, startWorker(t, task{Addr: s.Addr(), Politeness: politeness}))
	}
	return f
}

// await returns when each of the eight has had so many acquisitions, and all of them so many together.
func (f *fleet) await(t *testing.T, ctx context.Context, each, all int) {
	t.Helper()
	for least := each; ; least++ {
		sum := 0
		for i := range f.java {
			sum += must[int](t)(f.java[i].Reach(ctx, least)) + f.ours[i].reach(t, ctx, each)
		}
		if sum >= all {
			return
		}
	}
}

// awaitOurs returns when each process of ours has had so many: without politeness Java's hundreds take an hour.
func (f *fleet) awaitOurs(t *testing.T, ctx context.Context, each int) {
	t.Helper()
	for _, w := range f.ours {
		w.reach(t, ctx, each)
	}
}

// tally is what came of it.
type tally struct {
	java, ours [4][]Span
	counted    int
	took       time.Duration
}

func (f *fleet) stop(t *testing.T, ctx context.Context) (s tally) {
	t.Helper()
	s.took = time.Since(f.started)
	for _, l := range f.java {
		check(t, l.Stop(ctx))
	}
	for i, w := range f.ours {
		s.ours[i] = w.stop(t)
	}
	for i, l := range f.java {
		if r := must[Report](t)(l.Wait(ctx)); r.Refused != 0 {
			t.Errorf("Java client %d was refused %d times", i, r.Refused)
		}
		s.java[i] = must[[]Span](t)(l.Spans(ctx))
	}
	s.counted = must[int](t)(redis.Int(f.server.Do("GET", counter), nil))
	return s
}

func flatten(sides ...[4][]Span) (all []Span) {
	for _, side := range sides {
		for _, spans := range side {
			all = append(all, spans...)
		}
	}
	return all
}

// check fails the test on a lost update, and on two who believed at the same time that they held. The clock is one
// machine's; what each believes is narrower than what the server saw.
func (s tally) check(t *testing.T) {
	t.Helper()
	all := flatten(s.java, s.ours)
	if s.counted != len(all) {
		t.Errorf("%d acquisitions, and the counter says %d: updates were lost", len(all), s.counted)
	}
	slices.SortFunc(all, func(a, b Span) int { return int(a.Held - b.Held) })
	for i := 1; i < len(all); i++ {
		if all[i].Held < all[i-1].Released {
			t.Errorf("one held from %d to %d, another from %d", all[i-1].Held, all[i-1].Released, all[i].Held)
		}
	}
}

// share is the part of all acquisitions that the jar's side had.
func (s tally) share() float64 {
	return float64(len(flatten(s.java))) / float64(len(flatten(s.java, s.ours)))
}

func (s tally) log(t *testing.T, name string) {
	t.Helper()
	t.Logf("%-16s %8s %8s %6s %12s %12s", name, "had", "a second", "share", "wait p50", "wait p99")
	for _, side := range []struct {
		name  string
		spans [4][]Span
	}{{"  the jar's", s.java}, {"  ours", s.ours}} {
		spans := flatten(side.spans)
		if len(spans) == 0 {
			continue
		}
		waits := make([]int64, len(spans))
		for i, sp := range spans {
			waits[i] = sp.Held - sp.Asked
		}
		slices.Sort(waits)
		share := float64(len(spans)) / float64(len(flatten(s.java, s.ours)))
		t.Logf("%-16s %8d %8.0f %5.1f%% %9d µs %9d µs", side.name, len(spans), float64(len(spans))/s.took.Seconds(), 100*share,
			waits[len(waits)/2], waits[len(waits)*99/100])
	}
}

// The jar polls, so a woken process of ours would have the key again before it looks: politeness gives it its turn. With
// it on, every one of the eight gets its thousand.
func TestNoUpdateIsLostBetweenFourJavaClientsAndFourProcessesOfOurs(t *testing.T) {
	ctx := patientContext(t)
	f := startFleet(t, ctx, redistest.Real(t, redistest.Options{}), 0)
	f.await(t, ctx, 1_000, 20_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.log(t, "politeness on")
	if s.share() < 0.25 {
		t.Errorf("the jar's side had %.1f%% of the acquisitions, not a quarter", 100*s.share())
	}
}

func TestNoUpdateIsLostWithoutPoliteness(t *testing.T) {
	ctx := patientContext(t)
	f := startFleet(t, ctx, redistest.Real(t, redistest.Options{}), -1)
	f.awaitOurs(t, ctx, 1_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.log(t, "politeness off")
}

func TestNoUpdateIsLostOnTheOldestAndTheNewestServer(t *testing.T) {
	all := redistest.Servers(t)
	for _, b := range []redistest.Binary{all[0], all[len(all)-1]} {
		t.Run(b.Name, func(t *testing.T) {
			ctx := patientContext(t)
			f := startFleet(t, ctx, b.Start(t, redistest.Options{}), 0)
			f.await(t, ctx, 8, 300)
			s := f.stop(t, ctx)
			s.check(t)
			s.log(t, b.Name)
		})
	}
}

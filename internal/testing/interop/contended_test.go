// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// team says who works on one counter: size Java clients with locks of one kind,
// and as many getsetlock processes.
type team struct {
	size              int
	kind              Kind
	hold, wait, lease time.Duration // of the Java clients
	task              task          // of the getsetlock processes
}

// fleet is a team at work.
type fleet struct {
	team
	server  *redistest.Server
	jvm     skewed
	java    []*Loop
	ours    []*worker
	retired [][]Span // acquisitions of getsetlock processes that were replaced
	// holds of killed clients of either kind, until the kill; they did not
	// change the counter
	dead    []Span
	started time.Time
}

func startFleet(t *testing.T, ctx context.Context, j skewed, s *redistest.Server, of team) *fleet {
	t.Helper()
	of.task.Addr = s.Addr()
	f := &fleet{team: of, server: s, jvm: j, started: time.Now()}
	for range of.size {
		c := NewClient(t, j.JVM, s.Addr())
		check(t, c.Lock(ctx, of.kind, key, of.wait, of.lease))
		f.java = append(f.java, must[*Loop](t)(c.StartLoop(ctx, counter, of.hold, 0)))
		f.ours = append(f.ours, startWorker(t, of.task))
	}
	return f
}

// hardenedTeam is four Java clients with the jar's own lease and four
// getsetlock processes that write stamps.
func hardenedTeam(politeness time.Duration) team {
	return team{
		size: 4, kind: Jar, hold: time.Millisecond, wait: 2 * time.Minute, lease: time.Minute,
		task: task{Politeness: politeness, Job: time.Millisecond},
	}
}

// await returns when each member of the team has made that many acquisitions,
// and all together that many.
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

// awaitOurs returns when each getsetlock process has made that many
// acquisitions, and all together that many.
func (f *fleet) awaitOurs(t *testing.T, ctx context.Context, each, all int) {
	t.Helper()
	for least := each; ; least++ {
		sum := 0
		for _, w := range f.ours {
			sum += w.reach(t, ctx, least)
		}
		if sum >= all {
			return
		}
	}
}

// tally is the result of a fleet's work, in instants of this machine's clock.
type tally struct {
	java, ours, retired [][]Span
	dead                []Span
	refusals            [][]Refusal
	counted             int
	took                time.Duration
}

func (f *fleet) stop(t *testing.T, ctx context.Context) (s tally) {
	t.Helper()
	s.took, s.retired, s.dead = time.Since(f.started), f.retired, f.dead
	for _, l := range f.java {
		check(t, l.Stop(ctx))
	}
	for _, w := range f.ours {
		s.ours = append(s.ours, w.stop(t))
	}
	for _, l := range f.java {
		must[Report](t)(l.Wait(ctx))
		s.java = append(s.java, f.jvm.spans(must[[]Span](t)(l.Spans(ctx))...))
		s.refusals = append(s.refusals, f.jvm.refusals(must[[]Refusal](t)(l.Refusals(ctx))))
	}
	s.counted = must[int](t)(redis.Int(f.server.Do("GET", counter), nil))
	return s
}

// all returns every acquisition that changed the counter.
func (s tally) all() []Span {
	return slices.Concat(slices.Concat(s.java...), slices.Concat(s.ours...), slices.Concat(s.retired...))
}

func (s tally) lost() int { return len(s.all()) - s.counted }

// overlaps returns the clients that believed they held while another client
// did. The instants are comparable, since the JVM's clock is off by a known
// time. What each client believes is narrower than what the server saw.
func (s tally) overlaps() (found []string) {
	all := append(s.all(), s.dead...)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.Held, b.Held) })
	last := Span{}
	for _, sp := range all {
		if sp.Held < last.Released {
			found = append(found, fmt.Sprintf("one client held from %d to %d, another from %d", last.Held,
				last.Released, sp.Held))
		}
		if sp.Released > last.Released {
			last = sp
		}
	}
	return found
}

// check fails the test on a lost update, and if two clients held at once.
func (s tally) check(t *testing.T) {
	t.Helper()
	if n := s.lost(); n != 0 {
		t.Errorf("%d acquisitions, and the counter says %d", len(s.all()), s.counted)
	}
	if found := s.overlaps(); len(found) > 0 {
		t.Errorf("%d overlaps; the first: %s", len(found), found[0])
	}
}

// checkGranted fails the test if a Java client gave up.
func (s tally) checkGranted(t *testing.T) {
	t.Helper()
	for i, r := range s.refusals {
		if len(r) != 0 {
			t.Errorf("Java client %d was refused %d times", i, len(r))
		}
	}
}

// share returns the Java clients' share of all acquisitions.
func (s tally) share() float64 {
	return float64(len(slices.Concat(s.java...))) / float64(len(s.all()))
}

func (s tally) log(t *testing.T, name string) {
	t.Helper()
	t.Logf("%-26s %8s %8s %6s %12s %12s", name, "had", "a second", "share", "wait p50", "wait p99")
	for _, side := range []struct {
		name  string
		spans [][]Span
	}{{"  the jar's", s.java}, {"  ours", append(s.retired, s.ours...)}} {
		spans := slices.Concat(side.spans...)
		if len(spans) == 0 {
			continue
		}
		waits := make([]int64, len(spans))
		for i, sp := range spans {
			waits[i] = sp.Held - sp.Asked
		}
		slices.Sort(waits)
		share := float64(len(spans)) / float64(len(s.all()))
		t.Logf("%-26s %8d %8.0f %5.1f%% %9d µs %9d µs", side.name, len(spans),
			float64(len(spans))/s.took.Seconds(), 100*share,
			waits[len(waits)/2], waits[len(waits)*99/100])
	}
}

// somePoliteness is a sixth of the default. With a whole gap after each
// release, four getsetlock processes need a minute for their thousands. The
// shorter gap is less polite, so it does not make the jar's quarter easier to
// reach.
const somePoliteness = 25 * time.Millisecond

// The jar polls, so without politeness a woken getsetlock process would have
// the key again before the jar looks. With politeness each of the eight clients
// gets its hundreds of acquisitions.
func TestJavaAndGetsetlockClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	ctx := patientContext(t)
	f := startFleet(t, ctx, sharedJVM(t), redistest.Real(t, redistest.Options{}),
		hardenedTeam(somePoliteness))
	f.await(t, ctx, 300, 6_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.checkGranted(t)
	s.log(t, "politeness on")
	if s.share() < 0.25 {
		t.Errorf("the Java clients had %.1f%% of the acquisitions, less than a quarter", 100*s.share())
	}
}

// The jar polls and getsetlock clients are woken. By default, a getsetlock
// process that has seen an old client leaves the key to old clients for a gap,
// which ends when an old client takes the key. So each of the eight clients
// gets its turns; the test would wait forever for a starving side. Shares are
// measured by make bench.
func TestNeitherSideStarvesAtDefaults(t *testing.T) {
	t.Parallel()
	ctx := patientContext(t)
	for _, phase := range []string{"", "observe", "dual"} {
		of := hardenedTeam(0)
		of.task.Phase = phase
		f := startFleet(t, ctx, sharedJVM(t), redistest.Real(t, redistest.Options{}), of)
		f.await(t, ctx, 20, 200)
		s := f.stop(t, ctx)
		s.check(t)
		s.checkGranted(t)
		s.log(t, "at its defaults, phase "+cmp.Or(phase, "none"))
	}
}

// Without politeness the Java clients need an hour for hundreds of
// acquisitions, so only the getsetlock processes are awaited.
func TestNoUpdateIsLostWithoutPoliteness(t *testing.T) {
	t.Parallel()
	ctx := patientContext(t)
	f := startFleet(t, ctx, sharedJVM(t), redistest.Real(t, redistest.Options{}), hardenedTeam(-1))
	f.awaitOurs(t, ctx, 1_000, 4_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.checkGranted(t)
	s.log(t, "politeness off")
}

func TestOldestAndNewestServerLoseNoUpdate(t *testing.T) {
	t.Parallel()
	all := redistest.Servers(t)
	for _, b := range []redistest.Binary{all[0], all[len(all)-1]} {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			ctx := patientContext(t)
			f := startFleet(t, ctx, sharedJVM(t), b.Start(t, redistest.Options{}), hardenedTeam(0))
			f.await(t, ctx, 8, 300)
			s := f.stop(t, ctx)
			s.check(t)
			s.checkGranted(t)
			s.log(t, b.Name)
		})
	}
}

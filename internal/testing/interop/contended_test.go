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
	dead []Span
}

func startFleet(t *testing.T, ctx context.Context, j skewed, s *redistest.Server, of team) *fleet {
	t.Helper()
	of.task.Addr = s.Addr()
	f := &fleet{team: of, server: s, jvm: j}
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
}

func (f *fleet) stop(t *testing.T, ctx context.Context) (s tally) {
	t.Helper()
	s.retired, s.dead = f.retired, f.dead
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

// somePoliteness is a sixth of the default. With a whole gap after each
// release, four getsetlock processes need a minute for their thousands. The
// shorter gap is less polite, so it does not make the jar's quarter easier to
// reach.
const somePoliteness = 25 * time.Millisecond

// Eight clients share a key: on a server of today, with politeness and without
// it, and on the oldest and the newest server. The jar polls, so without
// politeness a woken getsetlock process has the key again before the jar looks.
// Then the Java clients would need an hour for hundreds of acquisitions, and
// are not awaited. With politeness each client gets its hundreds.
func TestJavaAndGetsetlockClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	real := func(t *testing.T) *redistest.Server { return redistest.Real(t, redistest.Options{}) }
	servers := redistest.Servers(t)
	start := func(b redistest.Binary) func(*testing.T) *redistest.Server {
		return func(t *testing.T) *redistest.Server { return b.Start(t, redistest.Options{}) }
	}
	for _, c := range []struct {
		name       string
		server     func(*testing.T) *redistest.Server
		politeness time.Duration
		each, all  int
	}{
		{"politeness on", real, somePoliteness, 300, 6_000},
		{"politeness off", real, -1, 1_000, 4_000},
		{"oldest server", start(servers[0]), 0, 8, 300},
		{"newest server", start(servers[len(servers)-1]), 0, 8, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := patientContext(t)
			f := startFleet(t, ctx, sharedJVM(t), c.server(t), hardenedTeam(c.politeness))
			if c.politeness < 0 {
				f.awaitOurs(t, ctx, c.each, c.all)
			} else {
				f.await(t, ctx, c.each, c.all)
			}
			s := f.stop(t, ctx)
			s.check(t)
			s.checkGranted(t)
			if share := s.share(); c.politeness == somePoliteness && share < 0.25 {
				t.Errorf("the Java clients had %.1f%% of the acquisitions, less than a quarter", 100*share)
			}
		})
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
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
)

// dualLease is the jar's lease in tests of the bridge: long compared with
// pauses of a busy machine, since only honest clients are promised anything,
// and short enough to await the end of a dead holder's lease.
const dualLease = 8 * time.Second

// halfPoliteness is long enough that the server does not wake four getsetlock
// processes at each release of the jar's clients. It is short enough that
// getsetlock clients get the key at all, although the jar's clients ask again
// at once.
const halfPoliteness = 50 * time.Millisecond

// bridgeTeam is four clients of the jar, which ask again at once, and four
// bridges. If the JVM's clock is off, the bridges judge by unchanged bytes.
func bridgeTeam(j skewed, phase string, wait time.Duration) team {
	return team{
		size: 4, kind: Jar, wait: wait, lease: dualLease,
		task: task{Phase: phase, Lease: dualLease, Unchanged: j.ahead != 0, Politeness: halfPoliteness,
			Job: time.Millisecond, DeadStamp: true},
	}
}

// killJava starts another JVM with such a clock and kills it while a client in
// it holds; its stamp stays on the key.
func (f *fleet) killJava(t *testing.T, ctx context.Context) {
	t.Helper()
	j := startSkewed(t, ctx, f.jvm.ahead)
	c := NewClient(t, j.JVM, f.server.Addr())
	check(t, c.Lock(ctx, Jar, key, 2*time.Minute, f.lease))
	if !must[Acquired](t)(c.Acquire(ctx)).Won {
		t.Fatal("the client of the JVM that is to be killed never held")
	}
	calls := must[[]Call](t)(c.Trace(ctx))
	won := calls[len(calls)-1]
	f.dead = append(f.dead, Span{Held: j.instant(won.RepliedMicros), Released: time.Now().UnixMicro()})
	check(t, j.Kill())
	if left := must[string](t)(redis.String(f.server.Do("GET", key), nil)); left != won.Value {
		t.Fatalf("the JVM died with %q on the key, and %q is there", won.Value, left)
	}
}

// killOurs starts another getsetlock process and kills it while it holds.
func (f *fleet) killOurs(t *testing.T, ctx context.Context) {
	t.Helper()
	to := f.task
	to.Keep = true
	w := startWorker(t, to)
	w.reach(t, ctx, 1)
	f.dead = append(f.dead, Span{Held: w.spans[0].Held, Released: time.Now().UnixMicro()})
	if left := must[int](t)(redis.Int(f.server.Do("PTTL", legacy.MarkKey(key)), nil)); left <= 0 {
		t.Fatalf("the getsetlock process that is to be killed does not hold: PTTL %d", left)
	}
	w.kill(t)
}

// roll restarts the getsetlock processes one after the other, as a deployment
// does.
func (f *fleet) roll(t *testing.T, to task) {
	t.Helper()
	to.Addr = f.server.Addr()
	f.task = to
	for i, w := range f.ours {
		f.retired = append(f.retired, w.stop(t))
		f.ours[i] = startWorker(t, to)
	}
}

func TestJarAndBridgesLoseNoUpdate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ahead time.Duration
	}{{"clocks agree", 0}, {"the JVM's an hour ahead", time.Hour}, {"the JVM's an hour behind", -time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := patientContext(t)
			j := startSkewed(t, ctx, c.ahead)
			t.Run("no lock", func(t *testing.T) { noLock(t, ctx, j) })
			t.Run("dual", func(t *testing.T) { besideDual(t, ctx, j) })
			t.Run("sealed", func(t *testing.T) { besideSealed(t, ctx, j) })
		})
	}
}

// noLock shows that the other tests can fail: without a lock, a Java client and
// a getsetlock process lose updates, and their overlaps are seen, however far
// apart their clocks are.
func noLock(t *testing.T, ctx context.Context, j skewed) {
	of := bridgeTeam(j, "dual", 0)
	of.size, of.kind, of.hold = 1, None, time.Millisecond
	f := startFleet(t, ctx, j, redistest.Real(t, redistest.Options{}), of)
	f.await(t, ctx, 20, 100)
	s := f.stop(t, ctx)
	if s.lost() <= 0 || len(s.overlaps()) == 0 {
		t.Errorf("of %d acquisitions without a lock %d updates were lost, and %d overlaps were seen",
			len(s.all()), s.lost(), len(s.overlaps()))
	}
}

func besideDual(t *testing.T, ctx context.Context, j skewed) {
	f := startFleet(t, ctx, j, redistest.Real(t, redistest.Options{}), bridgeTeam(j, "dual", 2*time.Minute))
	f.await(t, ctx, 20, 2_000)
	f.killJava(t, ctx)
	f.killOurs(t, ctx)
	f.await(t, ctx, 200, 5_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.checkGranted(t)
}

// shortWait is the jar's wait in tests in which it must give up: the first
// attempt and three polls.
const shortWait = 300 * time.Millisecond

// besideSealed goes from phase dual to sealed. The team works in dual, and a
// JVM dies with the key. Meanwhile the processes are restarted in phase sealed.
// After the dead JVM's lease, a getsetlock process leaves the first tombstone.
// From then on only getsetlock processes hold, even if one of them dies.
func besideSealed(t *testing.T, ctx context.Context, j skewed) {
	f := startFleet(t, ctx, j, redistest.Real(t, redistest.Options{}), bridgeTeam(j, "dual", shortWait))
	f.await(t, ctx, 20, 500)
	f.killJava(t, ctx)
	to := bridgeTeam(j, "sealed", 0).task
	to.Job = 0
	f.roll(t, to)
	f.awaitOurs(t, ctx, 1, 4)
	f.killOurs(t, ctx)
	for _, l := range f.java {
		// The first refused acquire may have begun before the tombstone was
		// written.
		must[int](t)(l.Refused(ctx, 4+must[int](t)(l.Refused(ctx, 0))))
	}
	tombed := time.Now().UnixMicro() // by now every attempt that had read the dead stamp has ended
	f.awaitOurs(t, ctx, 200, 5_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.checkSealed(t)
	if late := s.struck(tombed); len(late) > 0 {
		t.Errorf("with a tombstone on the key since %d: %q", tombed, late)
	}
	f.endSealed(t, ctx)
}

// checkSealed fails the test if the jar held the key after a sealed getsetlock
// process did, or if it gave up before its wait had passed.
func (s tally) checkSealed(t *testing.T) {
	t.Helper()
	sealed := s.ours[0][0].Held
	for _, spans := range s.ours {
		sealed = min(sealed, spans[0].Held)
	}
	for i, spans := range s.java {
		if last := spans[len(spans)-1]; last.Held >= sealed {
			t.Errorf("Java client %d held at %d, the first sealed process at %d", i, last.Held, sealed)
		}
		waited := 0
		for _, r := range s.refusals[i] {
			if r.Asked < sealed {
				continue
			}
			waited++
			if took := time.Duration(r.GaveUp-r.Asked) * time.Microsecond; took < shortWait {
				t.Errorf("Java client %d gave up after %v, its wait is %v", i, took, shortWait)
			}
		}
		if waited < 3 {
			t.Errorf("Java client %d gave up %d times at a tombstone, fewer than three", i, waited)
		}
	}
}

// struck returns the overwritten acquisitions that a getsetlock process asked
// for since the given instant.
func (s tally) struck(since int64) (found []string) {
	for i, spans := range s.ours {
		for _, span := range spans {
			if span.Overwritten && span.Asked >= since {
				found = append(found,
					fmt.Sprintf("getsetlock process %d asked at %d, held at %d and was overwritten", i,
						span.Asked, span.Held))
			}
		}
	}
	return found
}

func TestLossIsFoundOnceTombstonesAreThere(t *testing.T) {
	s := tally{ours: [][]Span{{{Asked: 5, Overwritten: true}, {Asked: 7}},
		{{Asked: 6}, {Asked: 8, Overwritten: true}}}}
	if all, late := s.struck(0), s.struck(6); len(all) != 2 || len(late) != 1 ||
		!strings.Contains(late[0], "getsetlock process 1 asked at 8") {
		t.Errorf("%q and %q", all, late)
	}
}

// endSealed checks what is left when all clients have ended: only the
// tombstone. With it on the key, one attempt of the jar takes as long as its
// wait, and a JVM killed while it waits changes nothing.
func (f *fleet) endSealed(t *testing.T, ctx context.Context) {
	t.Helper()
	c := NewClient(t, f.jvm.JVM, f.server.Addr())
	check(t, c.Lock(ctx, Jar, key, time.Second, f.lease))
	if got := must[Acquired](t)(c.Acquire(ctx)); got.Won || got.Sleeps != 11 {
		t.Errorf("%+v, want a refusal after eleven sleeps", got)
	}
	check(t, c.Step(ctx, true))
	must[*Acquiring](t)(c.BeginAcquire())
	must[Call](t)(c.Pass(ctx, "setnx"))
	check(t, f.jvm.Kill())
	if left := must[string](t)(redis.String(f.server.Do("GET", key),
		nil)); left != dialect.Jedis().Tombstone() {
		t.Errorf("%q is left on the old key", left)
	}
	if m, err := redis.String(f.server.Do("GET", legacy.MarkKey(key)), nil); err != redis.ErrNil {
		t.Errorf("M is %q, %v", m, err)
	}
}

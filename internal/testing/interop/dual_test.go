//go:build real

package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// dualLease is the jar's lease beside the bridge: long against the pauses of a busy machine, since only
// honest clients are promised anything, and short enough to wait for the end of one whose holder died.
const dualLease = 8 * time.Second

// halfPoliteness lets ours have the key at all beside clients that ask again at once, and does not let the
// server wake four processes for every release of theirs.
const halfPoliteness = 50 * time.Millisecond

// bridgeTeam is four clients of the jar, which ask again at once, and four bridges of ours. Beside a
// JVM whose clock is off these judge by unchanged bytes.
func bridgeTeam(j skewed, phase string, wait time.Duration) team {
	return team{
		size: 4, kind: Jar, wait: wait, lease: dualLease,
		task: task{Phase: phase, Lease: dualLease, Unchanged: j.ahead != 0, Politeness: halfPoliteness, Job: time.Millisecond, DeadStamp: true},
	}
}

// killJava starts one more JVM with such a clock, and kills it while a client in it holds: its stamp stays.
func (f *fleet) killJava(t *testing.T, ctx context.Context) {
	t.Helper()
	j := startSkewed(t, ctx, f.jvm.ahead)
	c := NewClient(t, j.JVM, f.server.Addr())
	check(t, c.Lock(ctx, Jar, key, 2*time.Minute, f.lease))
	if !must[Acquired](t)(c.Acquire(ctx)).Won {
		t.Fatal("the JVM that is to die never held")
	}
	calls := must[[]Call](t)(c.Trace(ctx))
	won := calls[len(calls)-1]
	f.dead = append(f.dead, Span{Held: j.instant(won.RepliedMicros), Released: time.Now().UnixMicro()})
	check(t, j.Kill())
	if left := must[string](t)(redis.String(f.server.Do("GET", key), nil)); left != won.Value {
		t.Fatalf("the JVM died with %q on the key, and %q is there", won.Value, left)
	}
}

// killOurs starts one more process of ours, and kills it while it holds.
func (f *fleet) killOurs(t *testing.T, ctx context.Context) {
	t.Helper()
	to := f.task
	to.Keep = true
	w := startWorker(t, to)
	w.reach(t, ctx, 1)
	f.dead = append(f.dead, Span{Held: w.spans[0].Held, Released: time.Now().UnixMicro()})
	if left := must[int](t)(redis.Int(f.server.Do("PTTL", legacy.MarkKey(key)), nil)); left <= 0 {
		t.Fatalf("the process of ours that is to die does not hold: PTTL %d", left)
	}
	w.kill(t)
}

// roll restarts the processes of ours one after the other, as a deployment does.
func (f *fleet) roll(t *testing.T, to task) {
	t.Helper()
	to.Addr = f.server.Addr()
	f.task = to
	for i, w := range f.ours {
		f.retired = append(f.retired, w.stop(t))
		f.ours[i] = startWorker(t, to)
	}
}

func TestNoUpdateIsLostBetweenTheJarAndBridges(t *testing.T) {
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

// noLock is why the others can fail: one Java client that asks nobody and one process of ours lose
// updates, and are seen to overlap, however far apart their clocks are.
func noLock(t *testing.T, ctx context.Context, j skewed) {
	of := bridgeTeam(j, "dual", 0)
	of.size, of.kind, of.hold = 1, None, time.Millisecond
	f := startFleet(t, ctx, j, redistest.Real(t, redistest.Options{}), of)
	f.await(t, ctx, 20, 100)
	s := f.stop(t, ctx)
	if s.lost() <= 0 || len(s.overlaps()) == 0 {
		t.Errorf("of %d acquisitions without a lock %d updates were lost, and %d overlaps were seen", len(s.all()), s.lost(), len(s.overlaps()))
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
	s.log(t, "dual")
}

// shortWait is the jar's where it is to give up: three polls and the first.
const shortWait = 300 * time.Millisecond

// besideSealed is the way there. The team is at work in dual; a JVM dies with the key; behind its lease the
// processes that have been restarted meanwhile leave the first tombstone, and from then on nobody but ours
// holds, also when one of them dies.
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
		// The first of them may have been asked before the tombstone stood.
		must[int](t)(l.Refused(ctx, 4+must[int](t)(l.Refused(ctx, 0))))
	}
	tombed := time.Now().UnixMicro() // every attempt that had read the dead stamp has ended
	f.awaitOurs(t, ctx, 200, 5_000)
	s := f.stop(t, ctx)
	s.check(t)
	s.checkSealed(t)
	if late := s.struck(tombed); len(late) > 0 {
		t.Errorf("beside a tombstone that stood at %d: %q", tombed, late)
	}
	s.log(t, "sealed")
	f.endSealed(t, ctx)
}

// checkSealed fails the test where the jar had the key once a sealed process of ours had had it, or did not wait
// before it gave up.
func (s tally) checkSealed(t *testing.T) {
	t.Helper()
	sealed := s.ours[0][0].Held
	for _, spans := range s.ours {
		sealed = min(sealed, spans[0].Held)
	}
	for i, spans := range s.java {
		if last := spans[len(spans)-1]; last.Held >= sealed {
			t.Errorf("Java client %d held at %d, the first that was sealed at %d", i, last.Held, sealed)
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
			t.Errorf("Java client %d gave up %d times beside a tombstone, not thrice", i, waited)
		}
	}
}

// struck names the acquisitions that a process of ours asked for since, and that were overwritten.
func (s tally) struck(since int64) (found []string) {
	for i, spans := range s.ours {
		for _, span := range spans {
			if span.Overwritten && span.Asked >= since {
				found = append(found, fmt.Sprintf("process %d of ours asked at %d, held at %d and was overwritten", i, span.Asked, span.Held))
			}
		}
	}
	return found
}

func TestLossIsFoundOnceTombstonesAreThere(t *testing.T) {
	s := tally{ours: [][]Span{{{Asked: 5, Overwritten: true}, {Asked: 7}}, {{Asked: 6}, {Asked: 8, Overwritten: true}}}}
	if all, late := s.struck(0), s.struck(6); len(all) != 2 || len(late) != 1 || !strings.Contains(late[0], "process 1 of ours asked at 8") {
		t.Errorf("%q and %q", all, late)
	}
}

// endSealed looks at what is left when nobody works any more: the tombstone alone. Beside it one attempt of the
// jar takes as long as the jar takes, and a JVM that is killed while it waits changes nothing.
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
	if left := must[string](t)(redis.String(f.server.Do("GET", key), nil)); left != dialect.Jedis().Tombstone() {
		t.Errorf("%q is left on the old key", left)
	}
	if m, err := redis.String(f.server.Do("GET", legacy.MarkKey(key)), nil); err != redis.ErrNil {
		t.Errorf("M is %q, %v", m, err)
	}
}

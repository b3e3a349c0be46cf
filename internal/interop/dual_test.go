//go:build real

package interop

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// dualLease is the jar's lease beside the bridge: long against the pauses of a busy machine, since only
// honest clients are promised anything, and short enough to wait for the end of one whose holder died.
const dualLease = 8 * time.Second

// shifted gives a JVM a wall clock that runs, and is off by d.
func shifted(d string) Options {
	o := Pinned(time.Now())
	o.Prefix = []string{"faketime", "--exclude-monotonic", "-f", d}
	return o
}

// startDual is four clients of the jar on j and four bridges of ours, on one counter.
func startDual(t *testing.T, ctx context.Context, j *JVM, to task) *fleet {
	t.Helper()
	s := redistest.Real(t, redistest.Options{})
	f := &fleet{server: s, started: time.Now()}
	to.Addr, to.Lease = s.Addr(), dualLease
	for range 4 {
		c := NewClient(t, j, s.Addr())
		check(t, c.Lock(ctx, Jar, key, 2*time.Minute, dualLease))
		f.java = append(f.java, must[*Loop](t)(c.StartLoop(ctx, counter, 0, 0)))
		f.ours = append(f.ours, startWorker(t, to))
	}
	return f
}

// kill lets one holder of either kind die while it holds, beside those that go on.
func (f *fleet) kill(t *testing.T, ctx context.Context, j *JVM, to task) {
	t.Helper()
	java := NewClient(t, j, f.server.Addr())
	check(t, java.Lock(ctx, Jar, key, time.Minute, dualLease))
	if !must[Acquired](t)(java.Acquire(ctx)).Won {
		t.Fatal("the client of the jar that is to die never held")
	}
	check(t, java.Die(ctx))
	to.Addr, to.Lease, to.Keep = f.server.Addr(), dualLease, true
	ours := startWorker(t, to)
	ours.reach(t, ctx, 1)
	ours.kill(t)
}

func TestNoUpdateIsLostBetweenTheJarAndBridgesInPhaseDual(t *testing.T) {
	for _, c := range []struct {
		name, clock string
	}{{"clocks agree", ""}, {"the JVM's an hour ahead", "+3600s"}, {"the JVM's an hour behind", "-3600s"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx := patientContext(t)
			o := Options{}
			if c.clock != "" {
				o = shifted(c.clock)
			}
			j := must[*JVM](t)(Start(ctx, o))
			t.Cleanup(func() { check(t, j.Close()) })
			to := task{Phase: "dual", Unchanged: c.clock != ""}
			f := startDual(t, ctx, j, to)
			f.await(t, ctx, 20, 2_000)
			f.kill(t, ctx, j, to)
			f.await(t, ctx, 200, 20_000)
			s := f.stop(t, ctx)
			s.check(t)
			s.log(t, c.name)
		})
	}
}

func TestTheJarWaitsAndGivesUpBesideATombstone(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	ours := startWorker(t, task{Addr: s.Addr(), Lease: dualLease, Phase: "sealed"})
	ours.reach(t, ctx, 3)
	java := SharedClient(t, s.Addr())
	check(t, java.Lock(ctx, Jar, key, time.Second, dualLease))
	got := must[Acquired](t)(java.Acquire(ctx))
	if got.Won || got.Sleeps != 11 {
		t.Errorf("%+v, want a refusal after eleven sleeps", got)
	}
	ours.stop(t)
	if left := must[string](t)(redis.String(s.Do("GET", key), nil)); left != dialect.Jedis().Tombstone() {
		t.Errorf("ours left %q", left)
	}
	if m, err := redis.String(s.Do("GET", legacy.MarkKey(key)), nil); err != redis.ErrNil {
		t.Errorf("M is %q, %v", m, err)
	}
	if got := must[Acquired](t)(java.Acquire(ctx)); got.Won {
		t.Error("the jar holds beside a tombstone that nobody holds by")
	}
}

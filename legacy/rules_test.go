package legacy_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Rule 5: settle.

func TestSettleFindsOldClientThatOverwroteL(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(-time.Minute))
	other := r.stamp(59 * time.Second)
	_, err := r.tryIn(bg, "k", func() {
		r.set("k", other)
		r.w.Tick()
	})
	held := r.wantHeld(err)
	if held.Protocol != "Jedis" {
		t.Errorf("%v", held)
	}
	r.wantLeft(other)
	if n := r.b.Stats().Clobbered; n != 1 {
		t.Errorf("%d clobbers counted", n)
	}
}

func TestSettleFindsThatTheTokenIsGone(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(-time.Minute))
	_, err := r.tryIn(bg, "k", func() {
		r.w.Mini.Del(keyM)
		r.w.Tick()
	})
	r.wantHeld(err)
}

func TestEndedContextInSettleIsUndone(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(-time.Minute))
	ctx, cancel := context.WithCancel(bg)
	g, err := r.tryIn(ctx, "k", cancel)
	var unsure *backend.UnsureError
	if g != nil || !errors.As(err, &unsure) || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v", g, err)
	}
	if err := unsure.Grant.Release(bg); err != nil {
		t.Error(err)
	}
	r.wantLeft("")
}

// The takeover happened before the wait ended, so its settle may end after it.
func TestTakeoverSettlesBeyondEndOfWait(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(-time.Minute))
	tries := &noting{Backend: r.b.Contract()}
	client, err := lock.New(backend.Of(tries), lock.Config{TTL: ttl, Wait: time.Millisecond, Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		lease *lock.Lease
		err   error
	}
	asked := r.clock.AskedTimes(r.clock.Asked() + 1)
	done := make(chan result, 1)
	go func() { l, err := client.Acquire(bg, "k"); done <- result{l, err} }()
	<-asked
	<-tries.ctx.Done() // the wait has ended, in real time, and the settle has not
	r.w.Pass(r.b.Terms().Settle())
	if got := <-done; got.err != nil {
		t.Error(got.err)
	} else if err := got.lease.Release(); err != nil {
		t.Error(err)
	}
	if err := client.Close(bg); err != nil {
		t.Error(err)
	}
}

// noting is a backend that remembers the context of the last attempt.
type noting struct {
	backend.Backend
	ctx context.Context
}

func (b *noting) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	b.ctx = ctx
	return b.Backend.Try(ctx, key, ttl)
}

func TestFreeKeySettlesOnlyWithSettleAlways(t *testing.T) {
	for _, always := range []bool{false, true} {
		r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.PageNil(), SettleAlways: always})
		before := r.w.Now()
		r.take("k")
		if settled := r.w.Now().After(before); settled != always {
			t.Errorf("SettleAlways %v: settled %v", always, settled)
		}
	}
}

// Rule 6: or-mine dialects.

func TestOrMineDialectSettlesEveryAcquisition(t *testing.T) {
	r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.JedisUUID(),
		Terms: dialect.Terms{Gap: 3 * time.Second}})
	before := r.w.Now()
	r.take("k")
	if settled := r.w.Now().Sub(before); settled <= 3*time.Second {
		t.Errorf("settled for %v", settled)
	}
}

// Rules 7 and 8: looking at L, and what follows when it is lost.

func TestLostLIsReportedAndMStaysUntilRelease(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(r *rig)
		says string
	}{
		{"overwritten", func(r *rig) { r.set("k", r.stamp(time.Minute)) }, "overwritten"},
		{"overwritten under a TTL", func(r *rig) {
			r.set("k", r.stamp(time.Minute))
			r.w.Mini.SetTTL("k", time.Hour)
		}, "overwritten"},
		{"deleted", func(r *rig) { r.w.Mini.Del("k") }, "deleted"},
		{"another type", func(r *rig) { r.w.Mini.Del("k"); r.w.Mini.Lpush("k", "x") }, "list"},
		{"the same bytes without a TTL", func(r *rig) { r.set("k", r.get("k")) }, "removed or changed"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, jedis())
			g := r.take("k")
			c.do(r)
			left := r.get("k")
			r.w.Pass(time.Second)
			m := r.ttlOf(keyM)
			for range 2 {
				_, err := g.Extend(bg, ttl)
				lost := r.wantLost(err)
				if lost.Mark || !strings.Contains(lost.Error(), c.says) {
					t.Errorf("%v", lost)
				}
			}
			if r.get("k") != left || r.ttlOf(keyM) != m {
				t.Errorf("L is %q, M's TTL %d, before %d", r.get("k"), r.ttlOf(keyM), m)
			}
			if c.what == "deleted" {
				// The next getsetlock client must wait for the job that is
				// still being stopped.
				_, err := r.try("k")
				held := r.wantHeld(err)
				if held.Owner != g.Token() ||
					!strings.Contains(held.Protocol, "another client removed or replaced") {
					t.Errorf("%v", held)
				}
			}
			r.wantLost(g.Release(bg))
			if r.exists(keyM) || r.get("k") != left {
				t.Errorf("after the release: M %q, L %q", r.get(keyM), r.get("k"))
			}
			if n := r.b.Stats().Lost; n != 1 {
				t.Errorf("%d losses counted", n)
			}
		})
	}
}

func TestLostGrantIsNotRenewedWhenBytesReturn(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	mark, left := r.get("k"), r.w.Mini.TTL("k")
	r.set("k", "1")
	_, err := g.Extend(bg, ttl)
	r.wantLost(err)
	r.set("k", mark)
	r.w.Mini.SetTTL("k", left)
	r.tap.take()
	_, err = g.Extend(bg, ttl)
	r.wantLost(err)
	if words := r.tap.take(); len(words) > 0 {
		t.Errorf("asked again: %v", words)
	}
}

func TestGrantWhoseTokenEndedLeavesEverythingAlone(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	r.w.Pass(ttl)
	if r.exists("k") || r.exists(keyM) {
		t.Fatal("both keys should end with the lease")
	}
	other := r.stamp(time.Minute)
	r.set("k", other)
	_, err := g.Extend(bg, ttl)
	if lost := r.wantLost(err); !lost.Mark {
		t.Errorf("%v", lost)
	}
	r.wantLost(g.Release(bg))
	r.wantLeft(other)
}

func TestServerFreesTheKeyOfACrashedHolder(t *testing.T) {
	r := newRig(t, jedis())
	r.take("k") // and its process dies
	r.w.Pass(ttl - time.Millisecond)
	_, err := r.try("k")
	if held := r.wantHeld(err); held.Left != time.Millisecond {
		t.Errorf("%v", held)
	}
	r.w.Pass(held(err).Left)
	r.take("k")
	if r.b.Stats().Takeovers != 0 {
		t.Error("by a takeover")
	}
}

// The stamp lies a day beyond the lease. L ends with M. Where old clients set a
// TTL too, L ends later than M, which tells it from an old client's value.
func TestStampOutlivesItsKeyByADay(t *testing.T) {
	inclusive := dialect.Page() // whose stamps end a second before lease and clock say
	inclusive.Name, inclusive.Slack, inclusive.Inclusive = "inclusive", 0, true
	for _, d := range append(dialect.Presets(), inclusive) {
		if !d.HasStamp() {
			continue
		}
		r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: d})
		r.w.StepServer(999 * time.Millisecond) // the worst moment within a second
		r.take("k")
		o, err := r.b.Observe(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		if !d.NeedsSettleEvery() && o.MarkPTTL != ttl {
			t.Errorf("%s: M has %v", d.Name, o.MarkPTTL)
		}
		// Even a client nearly a day ahead of the server reads the stamp as
		// live while M exists.
		end := o.ServerNow().Add(o.MarkPTTL)
		if last := end.Add(day - 2*d.Unit.Step() - time.Millisecond); d.LegacyExpired(dialect.Text(o.Value),
			"", last) {
			t.Errorf("%s: %q has expired at %v, a day after M ends at %v", d.Name, o.Value, last, end)
		}
		beyond := time.Duration(0)
		if d.ServerExpires() {
			beyond = r.b.Terms().Gap + 200*time.Millisecond
		}
		if o.PTTL != o.MarkPTTL+beyond {
			t.Errorf("%s: L has %v, M %v", d.Name, o.PTTL, o.MarkPTTL)
		}
	}
}

// Rule 9: an EXPIRE by another client.

func TestRenewalRepairsAndCountsForeignEXPIRE(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	r.w.Pass(time.Second)
	r.w.Mini.SetTTL("k", 3*time.Second)
	term, err := g.Extend(bg, ttl)
	if err != nil || term.TTL != ttl {
		t.Fatal(term, err)
	}
	if r.ttlOf("k") != ttl.Milliseconds() || r.ttlOf(keyM) != ttl.Milliseconds() {
		t.Errorf("TTLs after the renewal: L %d, M %d", r.ttlOf("k"), r.ttlOf(keyM))
	}
	if n := r.b.Stats().Shortened; n != 1 {
		t.Errorf("%d counted", n)
	}
	if _, err = g.Extend(bg, ttl); err != nil || r.b.Stats().Shortened != 1 {
		t.Errorf("a healthy renewal was counted too: %v %+v", err, r.b.Stats())
	}
}

func TestSettleLimitsTrustToTTLThatItRead(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(-time.Minute))
	g, err := r.tryIn(bg, "k", func() {
		r.w.Mini.SetTTL("k", 5*time.Second)
		r.w.Tick()
	})
	if err != nil {
		t.Fatal(err)
	}
	// Five seconds were left at the takeover. backend.ReadClock uses the
	// machine's elapsed time here, not the world's, so only the TTL is
	// compared.
	if got := g.Term().TTL; got > 5*time.Second {
		t.Errorf("trusted for %v", got)
	}
	if r.b.Stats().Shortened != 1 {
		t.Error("not counted")
	}
}

// Rule 10: release.

func TestReleaseWithoutItsTokenDeletesNothing(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	r.set(keyM, "somebody-elses-token "+r.get("k"))
	mark := r.get("k")
	r.wantLost(g.Release(bg))
	if r.get("k") != mark || !r.exists(keyM) {
		t.Error("without its token on M the release may delete nothing")
	}
}

func TestTokenIsComparedWhole(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	r.set(keyM, g.Token()+"x "+r.get("k"))
	_, err := g.Extend(bg, ttl)
	r.wantLost(err)
	r.wantLost(g.Release(bg))
	if !r.exists(keyM) {
		t.Error("M of a longer token was deleted")
	}
}

func TestSameBytesUnderAnotherTTLCountAsLost(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Gorlock(), dialect.Machinery()} {
		r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: d})
		g := r.take("k")
		mark := r.get("k")
		r.w.Mini.SetTTL("k", ttl)
		_, err := g.Extend(bg, ttl)
		r.wantLost(err)
		r.wantLost(g.Release(bg))
		r.wantLeft(mark)
	}
}

func TestFinishWithoutItsTokenLeavesLAlone(t *testing.T) {
	r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Machinery(),
		Terms: dialect.Terms{Lease: lease}})
	g := r.take("k")
	mark := r.get("k")
	r.set(keyM, "another "+mark)
	r.wantLost(g.Release(bg))
	if r.get("k") != mark || r.get(keyM) != "another "+mark {
		t.Errorf("L %q, M %q", r.get("k"), r.get(keyM))
	}
}

func TestReleaseWritesOldStampWhereKeyMeansDone(t *testing.T) {
	r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Machinery(),
		Terms: dialect.Terms{Lease: lease}})
	began := r.w.ServerNow()
	g := r.take("k")
	r.w.Pass(10 * time.Second)
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	want := strconv.FormatInt(began.Add(lease).UnixNano(), 10)
	if r.get("k") != want || r.exists(keyM) || r.ttlOf("k") != 50_000 {
		t.Errorf("L %q for %d ms, want %q; M %q", r.get("k"), r.ttlOf("k"), want, r.get(keyM))
	}
	_, err := r.try("k")
	r.wantHeld(err)
	r.w.Pass(50 * time.Second)
	g = r.take("k")
	for range 7 { // a job that outlives the old client's lease
		r.w.Pass(10 * time.Second)
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Release(bg); err != nil {
		t.Fatal(err)
	}
	r.wantLeft("")
}

// Where old clients set TTLs too, one that is as late as it can be may write
// exactly this holder's bytes. Its EXPIRE must not end them where this holder's
// end: only the different end shows the loss.
func TestLOutlivesMWhereOldClientsSetTTLs(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.Gorlock(), dialect.Machinery()} {
		terms := dialect.Terms{Lease: lease, Spread: 50 * time.Millisecond, Gap: 2 * time.Second}
		r := newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: d, Terms: terms})
		g := r.take("k")
		for _, when := range []string{"taken", "renewed"} {
			beyond := time.Duration(r.ttlOf("k")-r.ttlOf(keyM)) * time.Millisecond
			if least := terms.Spread + terms.Gap + 100*time.Millisecond; beyond <= least {
				t.Errorf("%s, %s: L ends %v after M, want more than %v", d, when, beyond, least)
			}
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An old client that deletes or overwrites L is inside before the holder can
// learn of it: the lease still counts as held. The embedded server has no
// tracking, so the next renewal reports the loss, at most a third of the TTL
// later.
func TestOldClientEntersBeforeHolderLearnsOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		b := open(t, w, legacy.Config{Mode: legacy.Hardened, Clock: clock})
		client, err := lock.New(b, lock.Config{TTL: 30 * time.Second, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(bg)
		held, err := client.Acquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		robbed := w.Now()
		w.Mini.Del("k")      // an old client's late DEL …
		w.Mini.Set("k", "1") // … and the next old client's SETNX
		synctest.Wait()
		if err := held.Err(); err != nil {
			t.Errorf("lost before the holder could know: %v", err)
		}
		select {
		case <-held.Done():
		case <-clock.After(time.Minute):
		}
		took := w.Now().Sub(robbed)
		if err := held.Err(); !errors.Is(err, lock.ErrLost) || took <= 0 || took > 10*time.Second {
			t.Errorf("ended after %v by %v", took, err)
		}
	})
}

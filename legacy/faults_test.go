package legacy_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// faulty is a rig whose connection breaks where a test says so.
func faulty(t *testing.T, cfg legacy.Config) (*rig, *redistest.Wire) {
	t.Helper()
	w := redistest.New(t)
	r := &rig{T: t, w: w, clock: w.Clock(redistest.Skew{}), tap: newTap(w)}
	wire := w.Wire()
	cfg.Clock = r.clock
	if cfg.Terms.Lease == 0 {
		cfg.Terms.Lease = lease
	}
	b, err := legacy.New(wire.Pool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	r.b = b
	if cfg.Mode == legacy.Hardened {
		r.warm()
	}
	return r, wire
}

func hardened(d dialect.Dialect) legacy.Config {
	return legacy.Config{Mode: legacy.Hardened, Dialect: d, Terms: dialect.Terms{Behind: time.Second}}
}

func wantUnsure(t *testing.T, err error) backend.Grant {
	t.Helper()
	var unsure *backend.UnsureError
	if !errors.As(err, &unsure) || unsure.Grant == nil {
		t.Fatalf("%v (%T), want an UnsureError", err, err)
	}
	return unsure.Grant
}

// undo releases until the answer is certain, as a Client does.
func undo(t *testing.T, g backend.Grant) {
	t.Helper()
	var err error
	for range 100 {
		if err = g.Release(bg); err == nil {
			return
		}
	}
	t.Fatalf("never certain: %v", err)
}

func TestReleaseUndoesAttemptWithLostReply(t *testing.T) {
	for _, c := range []struct {
		what string
		do   redistest.Action
		runs bool
	}{
		{"cut before", redistest.CutBefore, false},
		{"cut after", redistest.CutAfter, true},
		{"cut within the reply", redistest.CutWithin, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, wire := faulty(t, hardened(dialect.Jedis()))
			wire.Fault(redistest.Rule{Command: "EVALSHA", Do: c.do})
			_, err := r.b.Contract().Try(bg, "k", ttl)
			g := wantUnsure(t, err)
			if r.exists("k") != c.runs {
				t.Fatalf("L stands: %v", r.exists("k"))
			}
			err = g.Release(bg)
			if c.runs && err != nil {
				t.Errorf("what was found and deleted is certain: %v", err)
			}
			if !c.runs && (err == nil || errors.Is(err, lock.ErrLost)) {
				t.Errorf("what was not found may still come: %v", err)
			}
			r.wantLeft("")
			if g := r.take("k"); g.Release(bg) != nil {
				t.Error("the key cannot be used any more")
			}
		})
	}
}

func TestReleaseUndoesTakeoverWithLostReply(t *testing.T) {
	r, wire := faulty(t, hardened(dialect.Jedis()))
	r.set("k", r.stamp(-time.Minute))
	wire.Fault(redistest.Rule{Command: "EVALSHA", Nth: 2, Do: redistest.CutAfter})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	undo(t, wantUnsure(t, err))
	r.wantLeft("")
}

func TestSecondReleaseUndoesLateAttempt(t *testing.T) {
	cfg := hardened(dialect.Jedis())
	// then the backend gives the connection up while the command is still on
	// its way
	cfg.Timeout = 100 * time.Millisecond
	r, wire := faulty(t, cfg)
	gate := redistest.NewGate()
	wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
	ctx, cancel := context.WithCancel(bg)
	go func() { <-gate.Reached(); cancel() }()
	_, err := r.b.Contract().Try(ctx, "k", ttl)
	g := wantUnsure(t, err)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("Release said %v while the command was on its way", err)
	}
	gate.Open()
	if !r.exists(keyM) {
		t.Fatal("the late command should have arrived")
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
	r.wantLeft("")
}

func TestReleaseWaitsForLateReply(t *testing.T) {
	for _, free := range []bool{true, false} {
		r, wire := faulty(t, hardened(dialect.Jedis()))
		other := r.stamp(time.Minute)
		if !free {
			r.set("k", other)
		}
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldRequest(gate)})
		ctx, cancel := context.WithCancel(bg)
		go func() { <-gate.Reached(); cancel() }()
		_, err := r.b.Contract().Try(ctx, "k", ttl)
		g := wantUnsure(t, err)
		done := make(chan error)
		go func() { done <- g.Release(bg) }()
		gate.Open()
		if err := <-done; err != nil {
			t.Errorf("free %v: %v", free, err)
		}
		if free {
			other = ""
		}
		r.wantLeft(other)
	}
}

func TestRenewalWithLostReplyLosesNothing(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		r, wire := faulty(t, hardened(dialect.Jedis()))
		g := r.take("k")
		r.w.Pass(time.Second)
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do})
		if _, err := g.Extend(bg, ttl); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("%v", err)
		}
		r.w.Pass(time.Second)
		// M says which bytes are the grant's, whether the renewal ran or not.
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Error(err)
		}
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do})
		if _, err := g.Extend(bg, ttl); err == nil {
			t.Error("no error")
		}
		if err := g.Release(bg); err != nil {
			t.Error(err)
		}
		r.wantLeft("")
	}
}

func TestReleaseWithLostReplyCanBeRepeated(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		r, wire := faulty(t, hardened(dialect.Jedis()))
		g := r.take("k")
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do})
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("%v", err)
		}
		if err := g.Release(bg); err != nil {
			t.Error(err)
		}
		r.wantLeft("")
	}
}

func TestReleaseUndoesSettleWithLostReply(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		r, wire := faulty(t, hardened(dialect.Jedis()))
		r.set("k", r.stamp(-time.Minute))
		_, err := r.tryIn(bg, "k", func() {
			wire.Fault(redistest.Rule{Command: "EVALSHA", Do: do})
			r.w.Tick()
		})
		undo(t, wantUnsure(t, err))
		r.wantLeft("")
	}
}

func TestServerErrorLeavesNoUncertainty(t *testing.T) {
	for _, reply := range []string{redistest.Loading, redistest.ReadOnly, redistest.OOM, redistest.NoPerm} {
		r, wire := faulty(t, hardened(dialect.Jedis()))
		wire.Fault(redistest.Rule{Command: "EVALSHA", Times: -1, Do: redistest.Answer(reply)})
		_, err := r.b.Contract().Try(bg, "k", ttl)
		var unsure *backend.UnsureError
		if err == nil || errors.As(err, &unsure) || errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: %v", reply, err)
		}
		for _, part := range []string{`"k"`, strings.Fields(reply)[0]} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %s", err, part)
			}
		}
		r.wantLeft("")
	}
}

func TestScriptsAreSentAgainAfterNOSCRIPT(t *testing.T) {
	r, wire := faulty(t, hardened(dialect.Jedis()))
	wire.Fault(redistest.Rule{Command: "EVALSHA", Times: -1, Do: redistest.Answer(redistest.NoScript)})
	g := r.take("k")
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Error(err)
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

func TestRefusedConnectionIsNoUnsureError(t *testing.T) {
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
		b, err := legacy.New(pool, legacy.Config{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Contract().Try(bg, "k", ttl)
		var unsure *backend.UnsureError
		if err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

func TestSilentServerEndsTryByTimeout(t *testing.T) {
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Times: -1, Do: redistest.Silence})
		b, err := legacy.New(pool, legacy.Config{Mode: mode, Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Contract().Try(bg, "k", ttl)
		g := wantUnsure(t, err)
		if err := g.Release(bg); err == nil {
			t.Errorf("%v: a release without a reply succeeded", mode)
		}
	}
}

func TestPoolLimitsDoNotAffectLocks(t *testing.T) {
	w := redistest.New(t)
	pool := w.Pool()
	pool.MaxActive, pool.Wait = 1, false
	user := pool.Get()
	defer user.Close()
	b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	g := try(t, b, "k", ttl)
	pool.Close()
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
	if _, err := legacy.New(nil, legacy.Config{Mode: legacy.Verbatim}); err == nil {
		t.Error("a nil pool was accepted")
	}
}

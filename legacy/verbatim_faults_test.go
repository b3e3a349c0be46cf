// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// Verbatim, when an outcome is unknown.

func verbatim(t *testing.T, d dialect.Dialect) *rig {
	return newRig(t, legacy.Config{Mode: legacy.Verbatim, Dialect: d})
}

func TestVerbatimUndoesASETNXThatMayHaveRun(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter} {
		r := verbatim(t, dialect.Jedis())
		r.wire.Fault(redistest.Rule{Command: "SETNX", Do: do})
		_, err := r.b.Contract().Try(bg, "k", ttl)
		g := wantUnsure(t, err)
		ran := r.exists("k")
		err = g.Release(bg)
		if ran && err != nil || !ran && err == nil {
			t.Errorf("ran %v: %v", ran, err)
		}
		r.wantLeft("")
	}
}

func TestVerbatimUndoSparesAnotherValue(t *testing.T) {
	r := verbatim(t, dialect.Jedis())
	r.wire.Fault(redistest.Rule{Command: "SETNX", Do: redistest.CutBefore})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	other := r.stamp(time.Hour)
	r.set("k", other)
	if err := wantUnsure(t, err).Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("%v", err)
	}
	r.wantLeft(other)
}

func TestVerbatimLeavesAGETSETOfUnknownOutcomeToRunOut(t *testing.T) {
	r := verbatim(t, dialect.Jedis())
	r.set("k", r.stamp(-time.Minute))
	r.wire.Fault(redistest.Rule{Command: "GETSET", Do: redistest.CutAfter})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	g := wantUnsure(t, err)
	own := r.get("k")
	if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("%v", err)
	}
	r.wantLeft(own) // it may have overwritten the value of a client that won before
}

func TestVerbatimJudgesALateGETSETReply(t *testing.T) {
	for _, won := range []bool{true, false} {
		r := verbatim(t, dialect.Jedis())
		r.set("k", r.stamp(-time.Minute))
		gate := redistest.NewGate()
		r.wire.Fault(redistest.Rule{Command: "GETSET", Do: redistest.HoldRequest(gate)})
		ctx, cancel := context.WithCancel(bg)
		go func() { <-gate.Reached(); cancel() }()
		_, err := r.b.Contract().Try(ctx, "k", ttl)
		g := wantUnsure(t, err)
		if !won {
			r.set("k", r.stamp(time.Minute))
		}
		gate.Open()
		if err := g.Release(bg); err != nil {
			t.Errorf("won %v: %v", won, err)
		}
		if r.exists("k") == won {
			t.Errorf("won %v: L is %q", won, r.get("k"))
		}
	}
}

func TestVerbatimUndoSparesConstantValue(t *testing.T) {
	r := verbatim(t, dialect.Bare())
	r.wire.Fault(redistest.Rule{Command: "SETNX", Do: redistest.CutBefore})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	r.set("k", "lock")
	if err := wantUnsure(t, err).Release(bg); err == nil {
		t.Error("certain about a value that every client writes")
	}
	r.wantLeft("lock")
}

func TestVerbatimSendsNoSecondDELByFlag(t *testing.T) {
	r := verbatim(t, dialect.Jedis())
	g := r.take("k")
	r.wire.Fault(redistest.Rule{Command: "DEL", Do: redistest.CutAfter})
	if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
		t.Errorf("%v", err)
	}
	other := r.stamp(time.Hour)
	r.set("k", other)
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
	r.wantLeft(other)
}

func TestVerbatimGivesBackAWinWhoseEXPIREFailed(t *testing.T) {
	r := verbatim(t, dialect.Gorlock())
	r.wire.Fault(redistest.Rule{Command: "EXPIRE", Do: redistest.Answer(redistest.NoPerm)})
	_, err := r.b.Contract().Try(bg, "k", ttl)
	undo(t, wantUnsure(t, err))
	r.wantLeft("")
}

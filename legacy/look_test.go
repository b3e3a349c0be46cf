// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// While Behind is unknown, a stamp that has passed by the server's clock is not
// enough for a takeover. An old enough look must have shown the same bytes.

const (
	keyLook = "{k}:gsl:look"
	lookAge = lease + 2*time.Millisecond // greatest lease, c and a unit
)

// machine is a process on the named machine.
func (r *rig) machine(name string, cfg legacy.Config) *rig {
	r.Helper()
	other := &rig{T: r.T, w: r.w, clock: r.w.Clock(redistest.Skew{}).On(name), wire: r.w.Wire()}
	other.b = other.backend(cfg)
	return other
}

// crashed is a world with an old client's stamp that ended a minute ago.
func crashed(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, unknown())
	r.w.Run("run-1")
	r.set("k", r.stamp(-time.Minute))
	return r
}

func TestSecondLookOfAnotherProcessTakesOver(t *testing.T) {
	first := crashed(t)
	_, err := first.machine("a", unknown()).try("k")
	first.wantHeld(err)
	first.w.Pass(lookAge)
	second := first.machine("a", unknown())
	_, err = second.try("k")
	if held := first.wantHeld(err); held.Left != time.Microsecond {
		t.Errorf("at the bound: %v left", held.Left)
	}
	first.w.Pass(time.Millisecond)
	second.take("k")
	if second.b.Stats().Takeovers != 1 || first.exists(keyLook) {
		t.Errorf("%+v, look %v", second.b.Stats(), first.exists(keyLook))
	}
}

func TestLookOfAnotherMachineCountsNineTenths(t *testing.T) {
	r := crashed(t)
	_, err := r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	// The age is also reduced by a tenth of the TTL, the trust margin.
	enough := (lookAge+ttl/10)*10/9 + time.Millisecond
	r.w.Pass(enough - 2*time.Millisecond)
	_, err = r.machine("b", unknown()).try("k")
	r.wantHeld(err)
	r.w.Pass(2 * time.Millisecond)
	r.machine("b", unknown()).take("k")
}

func TestLookBeginsAnew(t *testing.T) {
	for name, meanwhile := range map[string]func(*rig){
		"another run of the server": func(r *rig) { r.w.Run("run-2") },
		"clocks that disagree":      func(r *rig) { r.w.StepServer(2 * time.Second) },
		"a server that was set back": func(r *rig) {
			r.w.StepServer(-time.Hour)
			r.set("k", r.stamp(-time.Minute))
		},
		"other bytes": func(r *rig) { r.set("k", r.stamp(-2*time.Minute)) },
		"a fail-over to another time": func(r *rig) {
			r.w.Run("run-2")
			r.w.StepServer(2 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := crashed(t)
			_, err := r.machine("a", unknown()).try("k")
			r.wantHeld(err)
			r.w.Pass(2 * lookAge)
			meanwhile(r)
			_, err = r.machine("a", unknown()).try("k")
			if held := r.wantHeld(err); held.Left != lookAge+time.Microsecond {
				t.Errorf("%v left", held.Left)
			}
			r.w.Pass(lookAge + time.Millisecond)
			r.machine("a", unknown()).take("k")
		})
	}
}

func TestLookOfAnotherMachineNeedsTheRun(t *testing.T) {
	for _, run := range []string{"", "run-2"} {
		r := crashed(t)
		r.w.Run(run)
		_, err := r.machine("a", unknown()).try("k")
		r.wantHeld(err)
		if run != "" {
			r.w.Run("run-3")
		}
		r.w.Pass(10 * lookAge)
		_, err = r.machine("b", unknown()).try("k")
		says := "in 1m0.002s"
		if run == "" {
			says = "names no run id"
		}
		if held := r.wantHeld(err); !strings.Contains(held.Error(), says) {
			t.Errorf("run %q: %v", run, held)
		}
	}
}

// Of the two machines' clocks, the slower one counts.
func TestServerThatRunsFastAgesNoLook(t *testing.T) {
	r := crashed(t)
	_, err := r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	r.w.Pass(lookAge - 500*time.Millisecond)
	r.w.StepServer(900 * time.Millisecond) // within what two clocks may differ
	_, err = r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	r.w.Pass(501 * time.Millisecond)
	r.machine("a", unknown()).take("k")
}

func TestLookIsWrittenOnceAndForPastStamps(t *testing.T) {
	r := newRig(t, unknown())
	r.w.Run("run-1")
	r.set("k", r.stamp(time.Minute))
	_, err := r.try("k")
	r.wantHeld(err)
	if r.exists(keyLook) {
		t.Error("a look at a live stamp is remembered")
	}
	r.w.Pass(lease + 2*time.Second)
	_, err = r.try("k")
	r.wantHeld(err)
	first := r.w.Mini.HGet(keyLook, "sec") + "." + r.w.Mini.HGet(keyLook, "usec")
	if left := r.w.Mini.TTL(keyLook); left != 30*day {
		t.Errorf("remembered for %v", left)
	}
	r.w.Pass(time.Second)
	_, err = r.try("k")
	r.wantHeld(err)
	if again := r.w.Mini.HGet(keyLook, "sec") + "." + r.w.Mini.HGet(keyLook, "usec"); again != first {
		t.Errorf("the look was moved from %s to %s", first, again)
	}
}

func TestTakingAFreeKeyForgetsTheLook(t *testing.T) {
	r := crashed(t)
	_, err := r.try("k")
	r.wantHeld(err)
	r.w.Mini.Del("k")
	g := r.take("k")
	if r.exists(keyLook) {
		t.Error("the look is left")
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

// The clock reading that begins a look is taken after the reply that showed the
// bytes.
func TestSlowReplyDoesNotAgeLook(t *testing.T) {
	r := crashed(t)
	p := r.machine("a", unknown())
	p.between(2, func() { r.w.Pass(time.Minute) }) // the attempt's reply is slow
	_, err := p.try("k")
	r.wantHeld(err)
	r.w.Pass(lookAge)
	_, err = r.machine("a", unknown()).try("k")
	r.wantHeld(err)
}

// A value that changed between the attempt and its look is not remembered.
func TestLookRemembersOnlyUnchangedValue(t *testing.T) {
	r := crashed(t)
	p := r.machine("a", unknown())
	other := r.stamp(time.Minute)
	p.between(2, func() { r.set("k", other) })
	_, err := p.try("k")
	r.wantHeld(err)
	if r.exists(keyLook) {
		t.Error("remembered")
	}
}

func TestDenseLooksNeedNoMemory(t *testing.T) {
	r := newRig(t, unknown())
	r.w.Run("run-1")
	r.set("k", r.stamp(-time.Minute))
	refuse := func(c redistest.Command) bool { return len(c) > 4 && c[4] == keyLook }
	for _, name := range []string{"EVALSHA", "EVAL"} {
		r.wire.Fault(redistest.Rule{Command: name, When: refuse, Times: -1,
			Do: redistest.Answer(redistest.NoPerm)})
	}
	for began := r.w.Now(); ; r.w.Pass(200 * time.Millisecond) {
		g, err := r.try("k")
		passed := r.w.Now().Sub(began)
		if g != nil {
			if passed <= lookAge {
				t.Errorf("taken after %v", passed)
			}
			break
		}
		held := r.wantHeld(err)
		if !strings.Contains(held.Error(), "could not be remembered") ||
			!strings.Contains(held.Error(), keyM) || held.Again <= 0 {
			t.Fatalf("%+v: %v", held, held)
		}
		if passed > 2*lookAge {
			t.Fatal("never taken")
		}
	}
	if r.b.Stats().Unremembered == 0 {
		t.Error("not counted")
	}
}

func TestLookReplacesKeyOfAnotherType(t *testing.T) {
	r := crashed(t)
	r.w.Mini.Lpush(keyLook, "x")
	_, err := r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	r.w.Pass(lookAge + time.Millisecond)
	r.machine("a", unknown()).take("k")
}

func TestLookOnOldServerAsksTIME(t *testing.T) {
	r := newRig(t, unknown())
	r.w.Run("run-1")
	r.clock.On("a")
	r.wire.Fault(oldServer(always)...)
	r.set("k", r.stamp(-time.Minute))
	_, err := r.try("k")
	r.wantHeld(err)
	r.w.Pass(lookAge + time.Millisecond)
	r.take("k")
}

// What TIME loses puts the fleet further ahead of it.
func TestStepBackMovesLaterStamps(t *testing.T) {
	r := newRig(t, unknown())
	g := r.take("k")
	r.w.Pass(time.Second)
	r.w.StepServer(-48 * time.Hour)
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Extend(bg, ttl); err != nil { // the first renewal has seen the step
		t.Fatal(err)
	}
	fleet := r.w.ServerNow().Add(48 * time.Hour)
	if d := dialect.Jedis(); d.LegacyExpired(dialect.Text(r.get("k")), "", fleet.Add(23*time.Hour)) {
		t.Errorf("%s has expired for a fleet whose clocks did not step", r.get("k"))
	}
}

// A claim of Behind was true before the server's clock was set forward. What an
// old client writes after that has passed by the server's clock at once.
func TestStepForwardIsAddedToTheClaim(t *testing.T) {
	r := newRig(t, jedis())
	r.w.Run("run-1")
	r.set("k", r.stamp(time.Minute))
	_, err := r.try("k") // sees the clock before the step
	r.wantHeld(err)
	r.w.StepServer(10 * time.Minute)
	for range 5 {
		r.w.Pass(lease)
		r.set("k", r.stamp(lease-10*time.Minute)) // taken now by an old client whose clock did not step
		_, err = r.try("k")
		r.wantHeld(err)
	}
}

// Between two machines, the age of a look is reduced by the trust margin that a
// Client really has.
func TestLookOfAnotherMachineHasTheClientsMargin(t *testing.T) {
	r := crashed(t)
	_, err := r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	other := r.machine("b", unknown())
	const margin = 10 * time.Second
	if err := other.b.Contract().(backend.Advisor).Fits(ttl, ttl/4, margin); err != nil {
		t.Fatal(err)
	}
	r.w.Pass((lookAge+ttl/10)*10/9 + time.Second) // enough with the default
	_, err = other.try("k")
	r.wantHeld(err)
	r.w.Pass(margin * 10 / 9)
	other.take("k")
}

// A process that saw the server's clock set forward does not count that step as
// age of another machine's look.
func TestStepThatWasSeenAgesNoLookOfAnotherMachine(t *testing.T) {
	r := newRig(t, unknown())
	r.w.Run("run-1")
	b := r.machine("b", unknown())
	// a fleet 40 s behind; its client holds the key for a whole lease
	r.set("k", r.stamp(lease-40*time.Second))
	_, err := b.try("k")
	r.wantHeld(err)
	r.w.Pass(22 * time.Second)
	_, err = r.machine("a", unknown()).try("k")
	r.wantHeld(err)
	r.w.StepServer(80 * time.Second)
	r.w.Pass(time.Second)
	_, err = b.try("k")
	r.wantHeld(err)
}

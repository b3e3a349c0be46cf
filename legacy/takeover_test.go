// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Rule 2: what is a stamp.

func TestValueThatIsNoStampIsHeldAndNamed(t *testing.T) {
	for _, c := range []struct{ value, says string }{
		{"", "empty"},
		{"1", "plausible"},
		{"0", "plausible"},
		{"lock", "constant"},
		{"-1", "no stamp"},
		{"+1772452000000", "no stamp"},
		{" 1772452000000", "no stamp"},
		{"1772452000000 ", "no stamp"},
		{"01772452000000", "no stamp"},
		{"1.772452e12", "no stamp"},
		{"0x19c", "no stamp"},
		{"1772452000", "in s"},
		{"1772452000.5", "in float_s"},
		{"1772452000000000000", "in ns"},
		{"0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a", "uuid"},
		{"0f9d5a3c-8d0e-4c57-9a7b-2d1e6f3c4b5a:1772452000000", "JedisUUID"},
		{dialect.Tombstone63, "tombstone"},
		{"4000000000000000001", "guard"},
		{"9223372036854775808", "no stamp"},
		{"1672452000000", "plausible"}, // more than a year ago
		{"2100000000000", "plausible"}, // more than ten years ahead
		{"\xac\xed\x00\x05t\x00\x0d1772452000000", "jdk"},
		{strings.Repeat("9", 5000), "no stamp"},
		{"\xff\xfe", "binary"},
	} {
		r := newRig(t, jedis())
		r.set("k", c.value)
		_, err := r.try("k")
		held := r.wantHeld(err)
		if !strings.Contains(held.Error(), c.says) {
			t.Errorf("%.40q: %q does not say %q", c.value, held.Error(), c.says)
		}
		r.wantLeft(c.value)
		if r.b.Stats().Foreign != 1 {
			t.Errorf("%.40q: counted %d times", c.value, r.b.Stats().Foreign)
		}
	}
}

func TestKeyOfAnotherTypeReturnsTypeError(t *testing.T) {
	r := newRig(t, jedis())
	r.w.Mini.Lpush("k", "x")
	_, err := r.try("k")
	var wrong *legacy.TypeError
	if !errors.As(err, &wrong) || wrong.Type != "list" || errors.Is(err, lock.ErrHeld) ||
		!errors.Is(err, backend.ErrNoRetry) {
		t.Errorf("%v", err)
	}
	if r.exists(keyM) {
		t.Error("M is left")
	}
}

// Rule 3: which clock judges.

func TestServerClockTakesOverPastTheMarginAndNotAtIt(t *testing.T) {
	for _, past := range []time.Duration{-time.Hour, 0, time.Second, time.Second + time.Millisecond} {
		r := newRig(t, jedis())
		r.clock.Step(24 * time.Hour) // the local clock must not matter
		r.set("k", r.stamp(-past))
		_, err := r.try("k")
		if past <= time.Second {
			held := r.wantHeld(err)
			if want := time.Second - past + time.Millisecond; held.Left != want {
				t.Errorf("past by %v: %v left, want %v", past, held.Left, want)
			}
		} else if err != nil {
			t.Errorf("past by %v: %v", past, err)
		}
	}
}

func TestLocalClockJudgesByTheLocalClock(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.LocalClock(time.Second)
	r := newRig(t, cfg)
	r.set("k", r.stamp(time.Minute))
	_, err := r.try("k")
	if held := r.wantHeld(err); held.Left != time.Minute+time.Second+time.Millisecond {
		t.Error(held.Left)
	}
	r.clock.Step(time.Minute + time.Second + time.Millisecond)
	r.take("k")
}

// What TIME gains is added to Behind. A stamp that was live before the step
// stays live for as long as it would have been, or until the look after the
// step is old enough.
func TestStepOfTheServerCountsAsBehind(t *testing.T) {
	for _, c := range []struct {
		step, left time.Duration
	}{
		{time.Hour, lookAge + time.Microsecond},
		// Here the step itself would allow a takeover sooner than the look's
		// age, but not before a greatest lease has passed.
		{61500 * time.Millisecond, lookAge + time.Microsecond},
	} {
		r := newRig(t, jedis())
		r.w.Run("run-1")
		r.clock.On("a")
		r.set("k", r.stamp(time.Minute))
		_, err := r.try("k")
		r.wantHeld(err)
		r.w.StepServer(c.step)
		_, err = r.try("k")
		if held := r.wantHeld(err); held.Left > c.left || held.Left < lease {
			t.Errorf("step %v: %v left, want %v", c.step, held.Left, c.left)
		}
		if n := r.b.Stats().Steps; n != 1 {
			t.Errorf("%d steps seen", n)
		}
		r.w.Pass(lease - time.Millisecond)
		_, err = r.try("k")
		r.wantHeld(err)
		r.w.Pass(4 * time.Millisecond)
		r.take("k")
	}
}

func TestStepBackIsCountedAndDriftIsNot(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", r.stamp(time.Minute))
	for range 10 {
		_, err := r.try("k")
		r.wantHeld(err)
		r.w.Pass(5 * time.Second)
		r.w.StepServer(time.Millisecond) // 200 ppm
	}
	if n := r.b.Stats().Steps; n != 0 {
		t.Errorf("drift counted as %d steps", n)
	}
	r.w.StepServer(-time.Second)
	_, err := r.try("k")
	r.wantHeld(err)
	if n := r.b.Stats().Steps; n != 1 {
		t.Errorf("%d steps seen", n)
	}
}

func TestUnchangedNeedsTheWholeLeaseInDenseLooks(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.Unchanged(lease)
	r := newRig(t, cfg)
	r.set("k", r.stamp(24*time.Hour)) // its writer's clock is a day ahead, and the writer has died
	began := r.w.Now()
	for {
		g, err := r.try("k")
		waited := r.w.Now().Sub(began)
		if err == nil {
			if waited < lease {
				t.Errorf("taken after %v", waited)
			}
			_ = g
			return
		}
		held := r.wantHeld(err)
		if held.Again != 100*time.Millisecond {
			t.Fatalf("wants to be asked again within %v", held.Again)
		}
		if waited > lease+time.Second {
			t.Fatalf("held after %v: %v", waited, held)
		}
		r.w.Pass(300 * time.Millisecond)
	}
}

func TestSparseLooksNeverTakeOver(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.Unchanged(lease)
	r := newRig(t, cfg)
	r.set("k", r.stamp(24*time.Hour))
	for i := range 10 {
		_, err := r.try("k")
		held := r.wantHeld(err)
		if told := strings.Contains(held.Error(), "too seldom"); told != (i > 0) {
			t.Errorf("look %d: %v", i, held)
		}
		r.w.Pass(30 * time.Second)
	}
	if n := r.b.Stats().Sparse; n != 9 {
		t.Errorf("%d sparse looks", n)
	}
}

func TestUnchangedStartsAnewWhenTheBytesChange(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.Unchanged(lease)
	r := newRig(t, cfg)
	r.set("k", r.stamp(time.Hour))
	for i := range 3 * 60 * 5 {
		if i%250 == 249 { // every 50 s
			r.set("k", r.stamp(time.Hour))
		}
		_, err := r.try("k")
		r.wantHeld(err)
		r.w.Pass(200 * time.Millisecond)
	}
}

func TestUnchangedUsesClientRetryEvery(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.Unchanged(lease)
	r := newRig(t, cfg)
	r.b.Contract().(backend.Advisor).Advise(backend.Settings{RetryEvery: 10 * time.Second})
	r.set("k", r.stamp(24*time.Hour))
	for range 3 {
		_, err := r.try("k")
		if held := r.wantHeld(err); held.Again != 10*time.Second {
			t.Error(held.Again)
		}
		r.w.Pass(29 * time.Second)
	}
	r.take("k")
}

func TestAllRequiresEveryPolicy(t *testing.T) {
	cfg := jedis()
	cfg.Takeover = legacy.All(legacy.ServerClock(time.Second), legacy.Unchanged(lease))
	r := newRig(t, cfg)
	r.set("k", r.stamp(-time.Hour)) // expired long ago by the server's clock
	_, err := r.try("k")
	if held := r.wantHeld(err); held.Left < lease {
		t.Errorf("%v left", held.Left)
	}
	for range 60*5 + 1 {
		r.w.Pass(200 * time.Millisecond)
		if _, err = r.try("k"); err == nil {
			return
		}
	}
	t.Errorf("never taken over: %v", err)
}

func TestAllWithoutPoliciesNeverExpires(t *testing.T) {
	if legacy.All().Expired(legacy.Observation{}) {
		t.Error("All() of nothing reports expired")
	}
}

func TestBareKeyIsNeverTakenOver(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Bare(), dialect.BareExpire(), dialect.SetDel(), dialect.SetGetDel(), dialect.SetPexpire()} {
		r := newRig(t, legacy.Config{Dialect: d})
		r.set("k", "1599999999999")
		for range 3 {
			_, err := r.try("k")
			r.wantHeld(err)
			r.w.Pass(24 * time.Hour)
		}
		r.wantLeft("1599999999999")
	}
}

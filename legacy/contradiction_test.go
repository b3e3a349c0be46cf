// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
)

// behindBy is a fleet of which the operator claims that no clock is further
// behind.
func behindBy(d time.Duration) legacy.Config {
	cfg := unknown()
	cfg.Terms = dialect.Terms{Lease: lease, Behind: dialect.Claim(d)}
	return cfg
}

// A value that has just been written and has passed shows a clock that is
// further behind than claimed. From then on only the age of a look counts, on
// every key.
func TestValueJustWrittenRefutesBehind(t *testing.T) {
	r := newRig(t, behindBy(time.Second))
	r.w.Run("run-1")
	r.set("k", r.stamp(time.Second))
	_, err := r.try("k")
	r.wantHeld(err)
	r.set("k", r.stamp(-30*time.Second))
	for _, key := range []string{"k", "other"} {
		r.set(key, r.stamp(-30*time.Second))
		_, err = r.try(key)
		if held := r.wantHeld(err); !strings.Contains(held.Why, "Behind 1s does not count") ||
			!strings.Contains(held.Why, "at least 1m29s behind") || !held.Passed {
			t.Errorf("%s: %+v", key, held)
		}
	}
	r.w.Pass(2 * lookAge)
	r.take("k")
}

// The server's clock stepped, and the fleet's clocks did not. The step is added
// to Behind, so it refutes nothing.
func TestStepOfTheServerRefutesNoBehind(t *testing.T) {
	r := newRig(t, behindBy(time.Second))
	r.set("k", r.stamp(time.Second))
	_, err := r.try("k")
	r.wantHeld(err)
	r.w.StepServer(2 * time.Minute)
	r.set("k", r.stamp(lease-2*time.Minute))
	_, err = r.try("k")
	if held := r.wantHeld(err); held.Why != "" {
		t.Errorf("%+v", held)
	}
}

func TestLongerLeaseSeenIsWaitedFor(t *testing.T) {
	cfg := unknown()
	cfg.Terms = dialect.Terms{Lease: lease}
	r := newRig(t, cfg)
	r.w.Run("run-1")
	r.set("k", r.stamp(90*time.Second))
	_, err := r.try("k")
	held := r.wantHeld(err)
	if !strings.Contains(held.Why, "a lease of 1m29.999s was seen, so Greatest 1m0s") {
		t.Errorf("%+v", held)
	}
	r.set("k", r.stamp(-time.Minute))
	_, err = r.try("k")
	if held := r.wantHeld(err); held.Left != lookAge+30*time.Second-time.Millisecond+time.Microsecond {
		t.Errorf("%v left", held.Left)
	}
}

func TestUnstatedLeaseIsNeverOld(t *testing.T) {
	r := newRig(t, unknown())
	r.w.Run("run-1")
	cfg := unknown()
	cfg.Terms = dialect.Terms{Lease: lease, Greatest: dialect.Unstated}
	r.b = r.backend(cfg)
	r.set("k", r.stamp(-time.Hour))
	for range 3 {
		_, err := r.try("k")
		held := r.wantHeld(err)
		if held.Passed || held.Left != 0 || !strings.Contains(held.Why, "set Lease or Greatest") {
			t.Errorf("%+v", held)
		}
		r.w.Pass(24 * time.Hour)
	}
	if r.exists(keyLook) {
		t.Error("a look is remembered that nobody will use")
	}
}

// A named dialect of start times is judged by their ends.
func TestStartTimesAreJudgedByTheirEnds(t *testing.T) {
	cfg := behindBy(time.Second)
	cfg.Dialect.Name, cfg.Dialect.StartTime, cfg.Dialect.Lease = "starts", true, lease
	r := newRig(t, cfg)
	r.set("k", r.stamp(1-lease/2)) // half a lease ago
	_, err := r.try("k")
	r.wantHeld(err)
	r = newRig(t, cfg)
	r.set("k", r.stamp(-lease-2*time.Second))
	r.take("k")
	// Old clients take the stamp of a getsetlock client for live.
	if step := cfg.Dialect.LegacyNext(dialect.Text(r.get("k")), "", r.w.ServerNow().Add(lease)); step !=
		dialect.StepWait {
		t.Errorf("an old client answers %q with %s", r.get("k"), step)
	}
}

package lock

import (
	"testing"
	"time"
)

func TestARingRingsWhenItsTimeHasComeAndNotBefore(t *testing.T) {
	for _, d := range []time.Duration{time.Nanosecond, 300 * time.Microsecond, 3 * time.Millisecond} {
		began := machineKeeper.now().Elapsed
		r := newRing(d)
		if r == nil {
			t.Fatal("there is none")
		}
		<-r.rings
		if passed := machineKeeper.now().Elapsed - began; passed < d {
			t.Errorf("after %v it rang for %v", passed, d)
		}
		r.stop()
	}
}

// TestThereAreFewRingsAtOnce: a waiter that gets none sleeps as others do. One that stops gives its own back
// at once, however long it was to run.
func TestThereAreFewRingsAtOnce(t *testing.T) {
	for range 3 {
		var all []*ring
		for {
			r := newRing(time.Hour)
			if r == nil {
				break
			}
			all = append(all, r)
		}
		if len(all) != mostRings {
			t.Errorf("%d at once", len(all))
		}
		for _, r := range all {
			r.stop()
		}
	}
	if n := rings.Load(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

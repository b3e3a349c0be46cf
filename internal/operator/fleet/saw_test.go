package fleet

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

// TestStepKeepsWhatWasSeenOfClocks: a claim that was contradicted stays void
// after a step, although no watcher runs.
func TestStepKeepsWhatWasSeenOfClocks(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		r := f.at(migrate.Observe)
		r.SawBehind, r.SawAhead = 2*time.Minute, time.Minute
		f.writes(r)
		if r := f.advance(Options{Go: true, Wait: time.Minute}); !r.Moved {
			t.Fatalf("%+v", r.Gate)
		}
		if got := f.at(migrate.Dual); got.SawBehind != r.SawBehind || got.SawAhead != r.SawAhead {
			t.Errorf("after the step the record has %v and %v", got.SawBehind, got.SawAhead)
		}
	})
}

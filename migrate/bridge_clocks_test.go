// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// A fleet that is behind the server writes stamps that have passed. In no phase
// is its holder robbed, while nothing is known of Behind, and in each a dead
// one is replaced after the second look.
func TestFleetBehindTheServerIsRobbedInNoPhase(t *testing.T) {
	for _, c := range []struct{ behind, lease time.Duration }{
		{3 * time.Second, 5 * time.Second}, {2 * time.Minute, time.Minute}, {10 * time.Minute, time.Minute},
		{10 * time.Minute, 5 * time.Second},
	} {
		for _, claimed := range []time.Duration{0, c.behind} {
			each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
				if p == migrate.Clean {
					return // looks at M alone
				}
				b := r.bridge(p, func(cfg *migrate.Config) {
					cfg.Terms = dialect.Terms{Lease: c.lease, Behind: claimed}
					cfg.Clock = r.w.Clock(redistest.Skew{}).On("machine")
				})
				old := r.stamp(c.lease - c.behind)
				r.set("k", old) // taken now, for a job as long as the lease
				for range 10 {
					if _, err := b.Contract().Try(background, "k", c.lease/4); !errors.Is(err, lock.ErrHeld) {
						r.Fatalf("%v, claimed %v: %v", c, claimed, err)
					}
					r.w.Pass(c.lease / 10)
				}
				if got := r.get("k"); got != old {
					r.Errorf("%v, claimed %v: L is %q", c, claimed, got)
				}
				r.w.Pass(c.lease) // of the look, which began when the stamp had passed
				if g, err := b.Contract().Try(background, "k", c.lease/4); err != nil {
					r.Errorf("%v, claimed %v: a dead holder's key: %v", c, claimed, err)
				} else {
					r.release(g)
				}
				r.del("k")
			})
		}
	}
}

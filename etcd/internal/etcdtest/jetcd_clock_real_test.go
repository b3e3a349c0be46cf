//go:build real

package etcdtest

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/lock"
)

// jetcd counts its renewals by the wall clock of its machine. A step back of
// that clock ends them, and then the lease, since etcd's clock did not step. So
// others get the lock, whatever jetcd's process believes.
func TestStepBackOfJetcdsClockEndsItsLease(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	clock := wallshift.New(t)
	j := c.jetcd(t, clock.Env()...)
	j.do(t, "lock stock")
	clock.Set(-24 * time.Hour)
	release(t, acquire(t, locks, "stock"))
}

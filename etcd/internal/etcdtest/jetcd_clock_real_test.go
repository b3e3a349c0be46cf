// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/lock"
)

// jetcd counts its renewals by the wall clock of its machine. A step back of
// that clock between two of them ends them, and then the lease, since etcd's
// clock did not step. So others get the lock, whatever jetcd's process
// believes.
func TestStepBackOfJetcdsClockEndsItsLease(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	locks, _ := c.locks(t, lock.Config{TTL: long})
	clock := wallshift.New(t)
	// Long enough for a JVM's first lock on a busy machine.
	j := c.jetcd(t, append(clock.Env(), "JETCD_TTL_SECONDS=15")...)
	do(t, j, "lock stock")
	if err := j.Send("renewals"); err != nil {
		t.Fatal(err)
	}
	stepped := make(chan struct{})
	go func() {
		defer close(stepped)
		stepBackAfterRenewals(j, clock)
	}()
	release(t, acquire(t, locks, "stock"))
	j.Kill()
	<-stepped
}

// stepBackAfterRenewals sets the clock back by a day after each renewal, until
// the process ends. One step is enough if it comes between a reply and the next
// request: that request is then a day away. If it comes later, the reply that
// was under way makes jetcd count by the clock after the step.
func stepBackAfterRenewals(j *program.Peer, clock *wallshift.Clock) {
	for back := 24 * time.Hour; ; {
		said, err := j.Answer()
		if err != nil {
			return
		}
		if said == "renewed" {
			clock.Set(-back)
			back += 24 * time.Hour
		}
	}
}

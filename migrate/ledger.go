// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"time"
)

// Ledger is a [PhaseSource] that also keeps account of the leases taken by it,
// so that no gate opens while a lease of an older phase runs. A [Member] is
// one. A Bridge calls Begin of a Ledger in place of Phase.
type Ledger interface {
	PhaseSource

	// Begin returns the phase for an attempt with leases of ttl. It counts the
	// attempt in the same step, so that no gate finds the phase empty in
	// between. The caller calls end when it is certain that nothing is held:
	// the attempt was refused, the lease was released, or the server has ended
	// it. Further calls of end do nothing.
	Begin(ctx context.Context, ttl time.Duration) (p Phase, end func(), err error)

	// ID is the member's id, which M holds alongside its tokens from phase dual
	// on. It has no blank.
	ID() string

	// Attach gives the member a bridge's probe, which runs that bridge's
	// scripts on a key that nobody else uses and leaves nothing there. The
	// member publishes the result.
	Attach(probe func(ctx context.Context, key string) error)
}

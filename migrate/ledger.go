package migrate

import (
	"context"
	"time"
)

// Ledger is a [PhaseSource] that also keeps account of the leases taken by it, so that no gate opens
// while one of an older phase runs. A [Member] is one. A Bridge whose source is a Ledger asks Begin
// where it would ask Phase.
type Ledger interface {
	PhaseSource

	// Begin returns the phase for an attempt that is about to be sent with leases of ttl, and counts
	// it, in one step: between the two no gate may find the phase empty. end is called once it is certain
	// that nothing is held under it: the attempt was refused, the lease was given back, or the server
	// has let it end after a loss or an unknown outcome. Further calls of end do nothing.
	Begin(ctx context.Context, ttl time.Duration) (p Phase, end func(), err error)

	// ID names the member alongside its tokens, from phase dual on. It holds no blank.
	ID() string

	// Attach gives the member the probe of a bridge, which runs that bridge's very scripts on a key that
	// nobody else uses and leaves nothing there. The member publishes what came of it.
	Attach(probe func(ctx context.Context, key string) error)
}

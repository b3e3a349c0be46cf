package migrate

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
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

	// Tag names the member beside its tokens, from phase dual on. It holds no blank.
	Tag() string

	// Attach gives the member the probe of a bridge, which runs that bridge's very scripts on a key that
	// nobody else uses and leaves nothing there. The member publishes what came of it.
	Attach(probe func(ctx context.Context, key string) error)
}

// Covers reports that a namespace owns a lock: its key begins with the namespace. The empty namespace owns
// all keys. The key is what the program says, before any encoding by a dialect.
func Covers(namespace, key string) bool { return scope.Within(namespace, key) }

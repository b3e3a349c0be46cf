package migrate

import (
	"errors"
	"sync/atomic"

	"github.com/getsetlock/getsetlock/legacy"
)

// BridgeStats are counts since New, over all phases.
type BridgeStats struct {
	Acquired  int64 // grants, takeovers and hand-overs included
	Takeovers int64 // expired stamps of old clients that were replaced

	// How marks of getsetlock clients were lost, each grant counted once.
	Clobbered int64 // L held another client's value, during the settle or later
	Deleted   int64 // L was empty
	Taken     int64 // M no longer held the token: it had ended, or a client deleted it

	Touched int64 // renewals that found a TTL cut by another client's EXPIRE
	Foreign int64 // attempts that found a value that is no stamp of the dialect, or implausible
	Steps   int64 // steps of the server's clock
	Sparse  int64 // looks too far apart to show that bytes were unchanged
	Unsure  int64 // attempts whose outcome was unknown
}

type bridgeCounters struct {
	acquired, takeovers, clobbered, deleted, taken, touched, unsure atomic.Int64
}

// lost counts a loss by what the key holds.
func (c *bridgeCounters) lost(e *legacy.LostError) {
	switch {
	case e.Mark:
		c.taken.Add(1)
	case e.Seen.Exists:
		c.clobbered.Add(1)
	default:
		c.deleted.Add(1)
	}
}

// stats returns the counts since New.
func (b *bridgeEngine) stats() BridgeStats {
	c, in, own := &b.count, b.old.Stats(), b.judge.Stats()
	return BridgeStats{
		Acquired: c.acquired.Load() + in.Acquired, Takeovers: c.takeovers.Load() + in.Takeovers,
		// Of phase observe, inner counts the losses during the settle, and told
		// the others.
		Clobbered: c.clobbered.Load() + in.Clobbered, Deleted: c.deleted.Load(), Taken: c.taken.Load(),
		Touched: c.touched.Load() + in.Shortened, Foreign: own.Foreign + in.Foreign,
		Steps: own.Steps + in.Steps, Sparse: own.Sparse + in.Sparse, Unsure: c.unsure.Load() + in.Unsure,
	}
}

// lossOf finds the loss in an error; nil if there is none.
func lossOf(err error) *legacy.LostError {
	var lost *legacy.LostError
	errors.As(err, &lost)
	return lost
}

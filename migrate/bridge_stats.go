package migrate

import (
	"errors"
	"sync/atomic"

	"github.com/getsetlock/getsetlock/legacy"
)

// BridgeStats are counts since New, over all phases.
type BridgeStats struct {
	Acquired  int64 // grants, those after a takeover and those handed on included
	Takeovers int64 // stamps of old clients replaced after they had expired

	// What happened to marks of ours, each grant counted once.
	Clobbered int64 // another's value stood on L, during the settle or later
	Deleted   int64 // nothing stood on L
	Taken     int64 // our token was gone from M: it had ended, or somebody deleted it

	Touched int64 // renewals that found a TTL cut by somebody's EXPIRE
	Foreign int64 // attempts that found a value which is no stamp of the dialect, or implausible
	Steps   int64 // steps of the server's clock that were seen
	Sparse  int64 // looks too far apart to judge by unchanged bytes
	Unsure  int64 // attempts whose outcome was not known
}

type bridgeCounters struct {
	acquired, takeovers, clobbered, deleted, taken, touched, unsure atomic.Int64
}

// lost counts a loss by what stood on the key.
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

// Stats returns what was counted.
func (b *Bridge) Stats() BridgeStats {
	c, in, own := &b.count, b.inner.Stats(), b.judge.Stats()
	return BridgeStats{
		Acquired: c.acquired.Load() + in.Acquired, Takeovers: c.takeovers.Load() + in.Takeovers,
		// Of phase observe those of the settle are counted there, all others here as they are told.
		Clobbered: c.clobbered.Load() + in.Clobbered, Deleted: c.deleted.Load(), Taken: c.taken.Load(),
		Touched: c.touched.Load() + in.Shortened, Foreign: own.Foreign + in.Foreign,
		Steps: own.Steps + in.Steps, Sparse: own.Sparse + in.Sparse, Unsure: c.unsure.Load() + in.Unsure,
	}
}

// lossOf finds how a grant was lost.
func lossOf(err error) *legacy.LostError {
	var lost *legacy.LostError
	errors.As(err, &lost)
	return lost
}

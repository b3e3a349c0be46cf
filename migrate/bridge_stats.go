// SPDX-License-Identifier: Apache-2.0

package migrate

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

// stats returns the counts since New.
func (b *bridgeEngine) stats() BridgeStats {
	c := &b.Count
	return BridgeStats{
		Acquired: c.Acquired.Load(), Takeovers: c.Takeovers.Load(),
		Clobbered: c.Overwritten.Load(), Deleted: c.Deleted.Load(), Taken: c.Taken.Load(),
		Touched: c.Shortened.Load(), Foreign: c.Foreign.Load(), Steps: c.Steps.Load(),
		Sparse: c.Sparse.Load(), Unsure: c.Unsure.Load(),
	}
}

// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"math"
	"slices"
	"time"
)

// Schema is the version of Result's JSON.
const Schema = "getsetlock.rehearse/1"

// Result is what a rehearsal found. Its JSON may get more fields and never
// loses one.
type Result struct {
	Schema string `json:"schema"`
	// nothing was oversold, no two clients held together, all orders were
	// worked through; with --phases also that every gate was closed when it had
	// to be, and open in time
	OK       bool   `json:"ok"`
	Protocol string `json:"protocol"`          // the lock that the programs used
	Dialect  string `json:"dialect,omitempty"` // of the old clients
	Server   string `json:"server"`            // "embedded", or the address without user and password
	Seed     uint64 `json:"seed"`              // of all random choices

	WallMS float64 `json:"wall_ms"` // time that the rehearsal took

	// VirtualMS is null on a real server, where time is real.
	VirtualMS *float64 `json:"virtual_ms"`

	Orders  int     `json:"orders"`  // number of orders
	Sales   int     `json:"sales"`   // orders that were sold
	Refused int     `json:"refused"` // orders rejected because the goods were out of stock
	Groups  []Group `json:"groups"`  // what each kind of client did

	Clocks Clocks `json:"clocks"`

	// Phases of the fleet in order, for a migration. Refusals are the steps
	// that a gate refused.
	Phases   []Phase   `json:"phases,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// whatever else of the migration was not as it must be
	Trouble []string `json:"trouble,omitempty"`
	GaveUp  int      `json:"gave_up,omitempty"` // old clients that were shut out and gave up
	Waits   []Wait   `json:"-"`                 // for the gates of the steps that were taken

	History *History `json:"-"` // of a product, where the plan asks for it

	Judgement
}

// Clocks is what the machines' clocks did. What the new clients knew is
// null where there are none, or where it does not matter.
type Clocks struct {
	Preset   string  `json:"preset,omitempty"` // kind of clocks and pauses
	SpreadMS float64 `json:"spread_ms"`        // largest difference between two clocks, the server's included
	// spread that the new clients knew; null where nothing depends on it
	ToldSpreadMS *float64 `json:"told_spread_ms"`
	// likewise: longest time from an old client's clock reading to its last
	// write
	ToldGapMS     *float64 `json:"told_gap_ms"`
	Steps         int      `json:"steps"`           // number of jumps of clocks
	Stops         int      `json:"stops"`           // pauses of machines with all their programs
	LongestStopMS float64  `json:"longest_stop_ms"` // the longest pause of a machine
}

// Group is what the clients of one kind did. Waits are null where clients do
// not wait.
type Group struct {
	Name         string   `json:"name"`         // of the kind
	Protocol     string   `json:"protocol"`     // the lock that they used
	Clients      int      `json:"clients"`      // number of them
	Acquisitions int      `json:"acquisitions"` // takeovers included
	Sales        int      `json:"sales"`        // orders that were sold
	Takeovers    int      `json:"takeovers"`    // keys acquired after their holder died
	Lost         int      `json:"lost"`         // holders that learned that they had lost the key
	Retries      int      `json:"retries"`      // jobs started again: a transaction refused, a lease lost
	Commands     int64    `json:"commands"`     // commands sent, those of the job included
	WaitP50MS    *float64 `json:"wait_p50_ms"`  // half of the waits were no longer
	WaitP99MS    *float64 `json:"wait_p99_ms"`  // 99 of 100 waits were no longer
	WaitMaxMS    *float64 `json:"wait_max_ms"`  // the longest wait

	// GaveUp counts programs that stopped waiting for a key. WonP50MS and
	// WonP99MS are waits as above, of these too; null: so many never had it.
	GaveUp             int      `json:"-"`
	WonP50MS, WonP99MS *float64 `json:"-"`
}

// Judgement is the verdict on the book.
type Judgement struct {
	Episodes
	LongestMS       float64 `json:"longest_overlap_ms"` // the longest such span
	Oversold        int     `json:"oversold"`           // units sold that never left the stock
	OversoldExcused int     `json:"oversold_excused"`   // of these excused
	Unserved        int     `json:"unserved"`           // orders not processed because their key never came free
	Causes          []Cause `json:"causes"`
}

// Episodes counts spans of time with two or more holders of one key. In those
// without a new client, only old clients took part.
type Episodes struct {
	Overlaps        int `json:"overlaps"`                  // number of such spans
	OverlapsExcused int `json:"overlaps_excused"`          // of these excused: the rules do not exclude them
	WithNew         int `json:"overlaps_with_new"`         // a new client took part
	WithNewExcused  int `json:"overlaps_with_new_excused"` // of these excused
}

// Cause is why something was excused, and how much.
type Cause struct {
	Cause    string `json:"cause"`    // in words
	Overlaps int    `json:"overlaps"` // overlaps that it excuses
	Oversold int    `json:"oversold"` // units that it excuses
}

// Well reports whether every order was processed and nothing happened that the
// protocol's rules exclude.
func (j Judgement) Well() bool {
	return j.Oversold == j.OversoldExcused && j.Overlaps == j.OverlapsExcused && j.Unserved == 0
}

// quantile returns the smallest value that at least that share of all values do
// not exceed, and nil for no values or a share above 1. It sorts all.
func quantile(all []time.Duration, share float64) *float64 {
	if len(all) == 0 || share > 1 {
		return nil
	}
	slices.Sort(all)
	return new(millis(all[max(int(math.Ceil(share*float64(len(all))))-1, 0)]))
}

func millis(d time.Duration) float64 {
	return math.Round(float64(d)/1e3) / 1e3
}

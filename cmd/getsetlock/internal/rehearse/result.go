package rehearse

import (
	"math"
	"slices"
	"time"
)

// Schema names the version of Result's JSON.
const Schema = "getsetlock.rehearse/1"

// Result is what a rehearsal found. Fields of its JSON are only ever added.
type Result struct {
	Schema   string `json:"schema"`
	OK       bool   `json:"ok"`
	Protocol string `json:"protocol"`
	Dialect  string `json:"dialect,omitempty"`
	Server   string `json:"server"` // "embedded", or the address without user and password
	Seed     uint64 `json:"seed"`

	WallMS float64 `json:"wall_ms"`

	// VirtualMS is null on a real server, where time is the machine's own.
	VirtualMS *float64 `json:"virtual_ms"`

	Orders  int     `json:"orders"`
	Sales   int     `json:"sales"`
	Refused int     `json:"refused"` // there were not enough of the goods left
	Groups  []Group `json:"groups"`

	Clocks Clocks `json:"clocks"`

	// Phases are those that the fleet went through, in order, if it did; Refusals the steps that a gate
	// refused on the way.
	Phases   []Phase   `json:"phases,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
	Trouble  []string  `json:"trouble,omitempty"` // with the road itself
	GaveUp   int       `json:"gave_up,omitempty"` // old clients that were shut out and gave up

	Judgement
}

// Clocks is what the machines did to the rehearsal. What the new clients were told is null where
// there are none, or where nothing hangs on it.
type Clocks struct {
	Preset        string   `json:"preset,omitempty"`
	SpreadMS      float64  `json:"spread_ms"` // the greatest of the clocks less the smallest, the server's among them
	ToldSpreadMS  *float64 `json:"told_spread_ms"`
	ToldGapMS     *float64 `json:"told_gap_ms"` // from an old client's clock reading to its last write
	Steps         int      `json:"steps"`
	Stops         int      `json:"stops"` // of machines, in which all their programs stood still
	LongestStopMS float64  `json:"longest_stop_ms"`
}

// Group is what clients of one kind did. Waits are null where nothing is waited for.
type Group struct {
	Name         string   `json:"name"`
	Protocol     string   `json:"protocol"`
	Clients      int      `json:"clients"`
	Acquisitions int      `json:"acquisitions"`
	Sales        int      `json:"sales"`
	Takeovers    int      `json:"takeovers"` // keys had after their holder died
	Lost         int      `json:"lost"`      // holders told that the key was not theirs any more
	Retries      int      `json:"retries"`   // jobs begun again: a transaction refused, a lease lost
	Commands     int64    `json:"commands"`  // sent, those of the job included
	WaitP50MS    *float64 `json:"wait_p50_ms"`
	WaitP99MS    *float64 `json:"wait_p99_ms"`
	WaitMaxMS    *float64 `json:"wait_max_ms"`
}

// Judgement is what the book shows.
type Judgement struct {
	Episodes
	LongestMS       float64 `json:"longest_overlap_ms"`
	Oversold        int     `json:"oversold"` // units sold that the stock never gave up
	OversoldExcused int     `json:"oversold_excused"`
	Unserved        int     `json:"unserved"` // orders put aside because their key never came free
	Causes          []Cause `json:"causes"`
}

// Episodes counts spans of time with two or more holders of one key. Those in
// which no new client took part are the old clients' own.
type Episodes struct {
	Overlaps        int `json:"overlaps"`
	OverlapsExcused int `json:"overlaps_excused"`          // of these, what the rules do not exclude
	WithNew         int `json:"overlaps_with_new"`         // a new client took part
	WithNewExcused  int `json:"overlaps_with_new_excused"` // of these, what the rules do not exclude
}

// Cause is why something was excused, and how much.
type Cause struct {
	Cause    string `json:"cause"`
	Overlaps int    `json:"overlaps"`
	Oversold int    `json:"oversold"`
}

// Well says whether nothing happened that the protocol's rules exclude, and every order was worked
// through.
func (j Judgement) Well() bool {
	return j.Oversold == j.OversoldExcused && j.Overlaps == j.OverlapsExcused && j.Unserved == 0
}

// quantile is the smallest value that at least that share of all reach, nil of none. It sorts.
func quantile(all []time.Duration, share float64) *float64 {
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	ms := millis(all[max(int(math.Ceil(share*float64(len(all))))-1, 0)])
	return &ms
}

func millis(d time.Duration) float64 {
	return math.Round(float64(d)/1e3) / 1e3
}

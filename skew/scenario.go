// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"errors"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
)

// Scenario is a bounded world for [Explore]: how many old clients take part and
// how far each may go wrong. Times are in ticks; a tick is the dialect's unit.
// Slack counts as one tick where the dialect has one.
//
// Clocks of old clients wander: every reading may lie anywhere from Behind
// below to Ahead above the server's clock. That covers constant offsets, drift
// and steps within these bounds. Their spread S is Behind + Ahead. Either may
// be negative, for a fleet that is ahead, or behind, as a whole.
type Scenario struct {
	Dialect dialect.Dialect

	// Unit is the number of ticks in the unit to which clocks are cut; 0 is 1.
	// With more than 1, Lease must be whole units, and slack is one unit.
	// Stamps lose the part below a unit, wherever in the unit a clock is read.
	Unit int

	Old   int // old clients, at most 3
	Lease int // E, the smallest lease of the old clients
	// Greatest is their greatest lease; 0 is Lease. An attempt takes one of the
	// two.
	Greatest int
	Job      int // J, the longest time from the winning write to the release's execution
	Gap      int // g, the longest time from the clock reading to the last write of an attempt
	// longest time from the server executing a GETSET to the client judging the
	// reply by a new clock reading
	Reply  int
	Behind int
	Ahead  int
	// Rest is the least time that a client stays away after its own release, as
	// a pause between polls makes it.
	Rest int
	// Overrun says that jobs may run for ever.
	Overrun bool
	// Renews says that clients of dialects that renew by GETSET, SET or PEXPIRE
	// do so, as often as they like. Job then counts from the last renewal. A
	// renewal's clock reading may be Gap old too.
	Renews bool
	// FleetStep is by how much all old clocks may be stepped back together,
	// once.
	FleetStep int
	// ServerStep is by how much the server's clock may step, once; TTLs follow
	// that clock, and the clients' clocks do not.
	ServerStep int
	// StepUndone says that the step is taken back within Lease ticks, and no
	// sooner than after one tick.
	StepUndone bool
	// PromptEnds says that a release which looks before it deletes does both at
	// once.
	PromptEnds bool
	// OwnDelay says that a job's length counts from its own clock reading, not
	// from its winning write. Such clients would be honest if only their own
	// delay counted.
	OwnDelay bool
	// StampAtWrite makes clients read their clock in the instant in which the
	// server executes their write, which no real client can. That model omits
	// the pause; it is kept to show what it misses.
	StampAtWrite bool

	// Goal is what the search looks for: "" or "two hold"; "clobber", a GETSET
	// that lost replaced the value of a client that holds; "two hold after a
	// clobber"; "ghost", a GETSET that lost left a value where no client held;
	// or "chain", a second DEL in a row freed the lock of a client that had
	// entered through the first.
	Goal      string
	MaxStates int // the search stops beyond it; 0 is 4,000,000
}

// machine returns the machine of a scenario.
func (sc Scenario) machine() (*explore.Machine, error) {
	m, err := explore.New(explore.Scenario(sc))
	var bad *explore.ParameterError
	if errors.As(err, &bad) {
		err = &ParameterError{bad.Field, bad.Value, bad.Bound}
	}
	return m, err
}

// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Scenario is a bounded world of old clients. Package skew says what its fields
// mean; the two types have the same fields.
type Scenario struct {
	Dialect dialect.Dialect `json:"-"`

	Unit, Old, Lease, Greatest, Job, Gap, Reply, Behind, Ahead, Rest int `json:",omitzero"`

	Overrun, Renews        bool `json:",omitzero"`
	FleetStep, ServerStep  int  `json:",omitzero"`
	StepUndone, PromptEnds bool `json:",omitzero"`
	OwnDelay, StampAtWrite bool `json:",omitzero"`

	Goal      string `json:",omitzero"`
	MaxStates int    `json:",omitzero"` // the search stops beyond it; 0 is 4,000,000
}

// goal is what a search looks for. It always looks for two holders too.
type goal int

const (
	twoHold      goal = iota // any two clients
	clobber                  // a GETSET that lost replaced the value of a client that holds
	stalledLoser             // two hold, and on the way a holder was clobbered
	ghost                    // a GETSET that lost left a value where no client held
	// a second DEL in a row freed the lock of a client that had entered through
	// the first
	chain
)

var goals = [...]string{"two hold", "clobber", "two hold after a clobber", "ghost", "chain"}

// Machine is a scenario with the numbers and decisions computed that steps
// need.
type Machine struct {
	Scenario
	Grain     int8 // ticks of a unit
	Slack     int8
	Inclusive bool // equal counts as expired; in float seconds nothing is ever equal
	Floor     int8 // stamps further back than this look alike to all clients

	// Others is how many clients that are not old hold in the state of which
	// steps are asked. Shut says that no old client may start in it. A space
	// that adds other clients sets both before it asks.
	Others int
	Shut   bool

	words      Vocabulary
	goal       goal
	keepsStamp bool         // a release of the dialect uses its own stamp
	readsMark  dialect.Step // what an old client does on a guard or a tombstone
}

// ParameterError reports a value for which the question makes no sense.
type ParameterError struct {
	Field string
	Value any
	Bound string // what the value has to be
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("skew: %s %v: must be %s", e.Field, e.Value, e.Bound)
}

// New returns the machine of a scenario. It fails with a *ParameterError, or as
// the dialect's Validate does.
func New(sc Scenario) (*Machine, error) {
	if err := sc.check(); err != nil {
		return nil, err
	}
	m := &Machine{Scenario: sc, words: OldWords(), goal: goal(max(slices.Index(goals[:], sc.Goal), 0))}
	d := sc.Dialect
	m.Grain = int8(max(sc.Unit, 1))
	if d.Slack > 0 {
		m.Slack = m.Grain
	}
	switch d.Release {
	case dialect.ReleaseValueOwn, dialect.ReleaseValueAtLeastOwn, dialect.ReleaseOwnNotPast,
		dialect.ReleaseOwnAhead, dialect.ReleaseCompare:
		m.keepsStamp = true
	}
	m.Inclusive = d.Inclusive && d.Unit != dialect.UnitFloatSeconds
	m.setFloor()
	m.readsMark = readsGuard(d)
	return m, nil
}

// setFloor computes how far back stamps have to be told apart.
func (m *Machine) setFloor() {
	steps := m.FleetStep + max(m.ServerStep, -m.ServerStep)
	apart := max(m.Ahead, 0) + max(m.Behind, 0) + steps + 2
	lowest := min(0, int(m.Slack)+m.Lease-m.Behind-2*m.Gap) - apart
	if !m.Dialect.JudgesAnew {
		// A reading may be Gap old when it judges, and a value that it finds
		// expired stays so.
		lowest = min(lowest, -apart-m.Gap)
	}
	m.Floor = int8(lowest) - 2*(m.Grain-1)
}

// EffectiveSlack returns the dialect's slack in ticks, less one unit where
// equal counts as expired.
func (m *Machine) EffectiveSlack() int {
	if m.Inclusive {
		return int(m.Slack - m.Grain)
	}
	return int(m.Slack)
}

// LongestLease returns the greatest lease, in ticks.
func (m *Machine) LongestLease() int { return max(m.Lease, m.Greatest) }

// readsGuard returns what an old client does when it finds a guard or
// tombstone, by its own parser.
func readsGuard(d dialect.Dialect) dialect.Step {
	low, _ := d.GuardRange()
	guard, _ := d.Guard(low, "00000000-0000-4000-8000-000000000001")
	bytes, err := d.EncodeValue(guard)
	if err != nil || !d.HasTakeover() {
		return dialect.StepWait
	}
	return d.LegacyNext(dialect.Text(bytes), "", time.Unix(1_770_000_000, 0))
}

// check names the first number that exceeds what a state can hold, or that has
// no meaning.
func (sc Scenario) check() error {
	if err := sc.Dialect.Validate(); err != nil {
		return err
	}
	for _, f := range []Range{
		{"Old", sc.Old, 0, MaxOld}, {"Unit", sc.Unit, 0, 4}, {"Lease", sc.Lease, 0, 40},
		{"Greatest", sc.Greatest, 0, 40}, {"Job", sc.Job, 0, 60}, {"Rest", sc.Rest, 0, 40},
		{"Gap", sc.Gap, 0, 20}, {"Reply", sc.Reply, 0, 40}, {"Behind", sc.Behind, -sc.Ahead, 30},
		{"Ahead", sc.Ahead, -30, 30}, {"FleetStep", sc.FleetStep, 0, 30},
		{"ServerStep", sc.ServerStep, -30, 30}, {"MaxStates", sc.MaxStates, 0, 1 << 30},
	} {
		if err := f.Check(); err != nil {
			return err
		}
	}
	switch timed := sc.Dialect.HasTakeover() || sc.Dialect.ServerExpires(); {
	case sc.Unit > 1 && sc.Lease%sc.Unit != 0:
		return &ParameterError{"Lease", sc.Lease, fmt.Sprintf("a multiple of Unit, %d", sc.Unit)}
	case sc.Old > 0 && sc.Lease == 0 && timed:
		return &ParameterError{"Lease", sc.Lease, "more than 0"}
	case sc.Goal != "" && !slices.Contains(goals[:], sc.Goal):
		return &ParameterError{"Goal", sc.Goal, fmt.Sprintf("one of %q", goals)}
	}
	return nil
}

// Range is a field of a scenario and the bounds of its value.
type Range struct {
	Field            string
	Value, Low, High int
}

// Check returns a *ParameterError if the value is out of its bounds.
func (r Range) Check() error {
	if r.Value < r.Low || r.Value > r.High {
		return &ParameterError{r.Field, r.Value, fmt.Sprintf("from %d to %d", r.Low, r.High)}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
)

// Olds is the world of the old clients, as package skew describes it.
type Olds = explore.Scenario

// Scenario is a bounded world for [Explore]: that of the old clients, with
// getsetlock clients, which use elapsed ticks that are right. Times are in
// ticks; a tick is the dialect's unit.
type Scenario struct {
	Olds // its Goal is the text of Goal, if old clients alone can reach that

	// FailOver says that the step of the server's clock is a fail-over to
	// another server, with another clock and another run id.
	FailOver bool `json:",omitzero"`
	// Shorten is the TTL, in ticks, of an EXPIRE for L that another program
	// sends once, while a getsetlock lease depends on L. Getsetlock clients
	// watch L and look at it within the tick.
	Shorten int `json:",omitzero"`

	Ours Ours `json:",omitzero"`
	Goal Goal `json:",omitzero"`
}

// Ours is what the getsetlock clients do.
type Ours struct {
	Clients int   `json:",omitzero"` // at most 3
	Phase   Phase `json:",omitzero"` // phase in the fleet's record; "" is observe: hardened
	// To is the phase to which the record may be moved from Phase, and back, by
	// the gates' rules; "" is Phase.
	To Phase `json:",omitzero"`
	// Margin is the trust margin; Stop the longest time from learning of a loss
	// to the job having stopped.
	TTL, Margin, Stop int `json:",omitzero"`
	Long              int `json:",omitzero"` // TTL of renewals in phase modern; 0 is TTL
	// ticks after which a grant is settled; 0 does not settle
	Settle       int  `json:",omitzero"`
	SettleAlways bool `json:",omitzero"` // settle after every acquisition, not only after takeovers
	// TakeoverMargin is how far the server's clock must be past a stamp. It is
	// the greater of the old clients' spread and, where that is known, of how
	// far the slowest of them is behind the server.
	TakeoverMargin int `json:",omitzero"`
	// Known says that an operator has claimed how far the slowest old client is
	// behind, so that no second look is needed. That is a claim about every
	// client and every server. Measured says that it was measured on the
	// clients and the server that were there at the beginning.
	Known, Measured bool `json:",omitzero"`
	// Watched says that a watcher sees each write of an old client, and proves
	// from it how far the client's clock is behind at least.
	Watched bool `json:",omitzero"`
	// Look is for takeovers while it is unknown how far the slowest clock is
	// behind: how many ticks ago a look must have shown the bytes. 0 is the
	// rule: the greatest lease, c and one unit.
	Look int `json:",omitzero"`
	// Elsewhere says that other machines remember the looks, so that only the
	// server's clock says how old one is. Nine tenths of that age count, less
	// the trust margin.
	Elsewhere bool `json:",omitzero"`
	// Leaves is for how many ticks a release in observe or dual may leave M
	// without a holder, so that only old clients enter. It does so only if L
	// still has its own value. 0: no release does.
	Leaves int `json:",omitzero"`
	// OldServer says that no script that has called TIME may write, as on Redis
	// 2.8. A look is then a script that shows the bytes, a TIME, and a script
	// that remembers both.
	OldServer bool `json:",omitzero"`
	// StampAhead is how far a getsetlock stamp lies beyond the end of its
	// lease; 0 is beyond every clock.
	StampAhead int `json:",omitzero"`
	// Unchanged makes clients judge by bytes that were unchanged for so many
	// ticks, instead of by the server's clock. Looks may be up to Sparse ticks
	// apart.
	Unchanged, Sparse int `json:",omitzero"`
	// NoTombstone says that the world begins without a tombstone, as after an
	// overrun release, in phases that have one.
	NoTombstone bool `json:",omitzero"`
	// Late says that requests and replies take any time, and attempts are
	// cancelled while they are on their way. Without it a script runs, and its
	// reply arrives, in the instant in which it is sent. For the full rules
	// that is the most dangerous case, since a late reply is trusted for less.
	Late bool `json:",omitzero"`
	// Newcomers says that members first read the server's clock with their
	// first look, which may come after a step of that clock. Without it all
	// know that clock from the beginning.
	Newcomers bool `json:",omitzero"`
	// Deaf says that the reply to a renewal that ran may never arrive.
	Deaf bool `json:",omitzero"`
	// Again says that from clean a new init may move the record to observe.
	Again bool `json:",omitzero"`
	// Rests says that the record stays in observe after that, so that the
	// search ends sooner.
	Rests bool `json:",omitzero"`
	// Forget lets the record go back although members lag behind, as when a
	// human names them.
	Forget bool `json:",omitzero"`
	// Restored says that once, on the way to clean, the record may be replaced
	// by its first version, whose epoch is less. In such worlds a member's
	// heartbeats read the record also while its lease runs.
	Restored bool `json:",omitzero"`
	// Vanishes says that the heartbeats of members may stop and return, while
	// their leases continue.
	Vanishes bool `json:",omitzero"`
	// Empties says that the registry may lose all its members at once, while
	// the record stays. Members continue with what they know, and each is a
	// member again with its next heartbeat.
	Empties bool `json:",omitzero"`
	// Loses says that the registry may lose one member, once, as by a fail-over
	// to a replica that lags behind.
	Loses bool `json:",omitzero"`
	// Joins says that all members but the first come to the registry and the
	// record only during the run.
	Joins bool `json:",omitzero"`
	// Slow adds a verb that takes time between its reading and its writing.
	Slow bool `json:",omitzero"`
	// Renewals is for how many ticks after its last answered heartbeat a member
	// renews, and Attempts for how many it makes attempts. With Renewals, gates
	// wait after a loss, and a human may forget a silent member. Both happen
	// Waits ticks after the last heartbeat that can have been answered; 0 is
	// the rule: TTL and Renewals. A member that was missing writes its field,
	// and reads the record afterwards. If Renewals and Attempts are 0, none of
	// this is counted.
	Renewals, Attempts, Waits int `json:",omitzero"`
	// LongAttempts says that any time may pass between an attempt's reading of
	// the phase and its acquire script, as where it asks another store first.
	LongAttempts bool `json:",omitzero"`
	// LosesRecord says that once the server may lose the record and the
	// registry at once. Locks stay. A new record is written by what members
	// say.
	LosesRecord bool `json:",omitzero"`
	// Composes says that the first member composes its locks with another
	// store, and that the others do not. In clean it holds by that store alone.
	Composes bool `json:",omitzero"`
	// Break is the rules that are broken.
	Break Rule `json:",omitzero"`
}

// Goal is what a search looks for. It always looks for two holders too.
type Goal int

// The goals.
const (
	twoHold      Goal = iota // any two clients, of either kind
	twoOurs                  // two getsetlock clients; old clients may do anything to each other and to these
	clobber                  // a GETSET that lost replaced the value of a client that holds
	stalledLoser             // two hold, and on the way a holder was clobbered
	ghost                    // a GETSET that lost left a value where no client held
	// a second DEL in a row freed the lock of a client that had entered through
	// the first
	chain
	// a getsetlock renewal succeeded although its mark had been gone since the
	// last look; or two such clients hold
	unnoticed
	trampled // a getsetlock release deleted the value of an old client that holds
	// a getsetlock client got the lock and then lost its mark, all old clients
	// being honest
	lostJob
	falseLoss // a getsetlock client learned of a loss although its mark and M were there
	untombed  // an old client's release deleted the tombstone
)

var goals = [...]string{"two hold", "two of ours hold", "clobber", "two hold after a clobber", "ghost",
	"chain", "loss unnoticed", "trampled", "job lost", "lost for nothing", "tombstone deleted"}

func (g Goal) String() string { return goals[g] }

// MarshalText returns the goal's name.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the goal's name.
func (g *Goal) UnmarshalText(name []byte) error {
	n := slices.Index(goals[:], string(name))
	if n < 0 {
		return fmt.Errorf("%q is not a goal", name)
	}
	*g = Goal(n)
	return nil
}

// machine is a scenario with the numbers and decisions computed that steps
// need.
type machine struct {
	Scenario
	old         *explore.Machine // the old clients, and the server
	buf         []explore.Step[explore.State]
	words       explore.Vocabulary
	first, last level
	trustCap    int8
	lookAge     int8 // least age of a look that counts
	lookCap     int8 // looks older than this count alike
	far         int8 // how far a getsetlock stamp lies beyond its lease
	fresh       int8 // only clients that have already read their clock write stamps further back than this
	settled     int8 // age from which a grant counts as settled
	waits       int8 // for how long a loss keeps gates closed
}

func (sc Scenario) machine() (*machine, error) {
	m := &machine{Scenario: sc, words: allWords()}
	var err error
	if m.old, err = explore.New(sc.olds()); err == nil {
		err = sc.check()
	}
	if err != nil {
		return nil, err
	}
	m.first, _ = levelOf(sc.Ours.Phase) // check has looked
	m.last = m.first
	if sc.Ours.To != "" {
		m.last, _ = levelOf(sc.Ours.To)
	}
	m.old.Floor -= int8(sc.Ours.TakeoverMargin)
	if sc.Ours.Unchanged > 0 {
		m.old.Floor -= int8(sc.Ours.Unchanged + sc.Ours.Sparse)
	}
	m.looks(sc)
	if highest := max(sc.Ours.TTL, sc.Ours.Long) + int(m.far) + 2*int(m.old.Grain) +
		max(0, -sc.ServerStep); highest > 120 {
		return nil, &explore.ParameterError{
			Field: "Ours.StampAhead", Value: m.far,
			Bound: "such that no stamp lies more than 120 ticks ahead"}
	}
	m.trustCap = int8(max(sc.Ours.TTL, sc.Ours.Long) + 1)
	m.settled = int8(max(sc.Ours.Settle, sc.Gap+1))
	m.waits = int8(cmp.Or(sc.Ours.Waits, max(sc.Ours.TTL, sc.Ours.Long)+sc.Ours.Renewals))
	return m, nil
}

// olds returns what concerns the old clients.
func (sc Scenario) olds() Olds {
	switch sc.Goal {
	case clobber, stalledLoser, ghost, chain:
		sc.Olds.Goal = sc.Goal.String()
	}
	return sc.Olds
}

// looks computes how old a look has to be, and how far ahead a getsetlock stamp
// lies.
func (m *machine) looks(sc Scenario) {
	grain, greatest := m.old.Grain, int8(m.old.LongestLease())
	m.lookAge = int8(sc.Ours.Look)
	if m.lookAge == 0 {
		m.lookAge = greatest + int8(max(m.old.EffectiveSlack(), 0)) + grain
	}
	m.lookCap = m.lookAge + int8(max(0, -sc.ServerStep))
	if sc.Ours.Elsewhere {
		m.lookCap = (10*(m.lookAge+int8(sc.Ours.Margin)))/9 + 1 + int8(max(0, -sc.ServerStep))
	}
	m.far = int8(sc.Ours.StampAhead)
	if m.far == 0 {
		// Beyond every old client's stamp, until M and L are gone.
		m.far = int8(max(sc.Ahead, 0)+max(-sc.ServerStep, 0)+sc.Gap) + greatest + 2*grain
		if sc.Dialect.KeyTTL == dialect.TTLWinExpire || sc.Dialect.KeyTTL == dialect.TTLGetsetExpire {
			m.far += greatest // the late EXPIRE of a client that overran keeps L longer than M
		}
	}
	if m.broken(ruleStampAhead) {
		m.far = 0
	}
	m.fresh = m.old.Slack +
		int8(sc.Lease-sc.Behind-sc.Gap-sc.FleetStep-max(sc.ServerStep, -sc.ServerStep)) - grain
}

// isFar reports whether only a getsetlock client can have written this stamp.
func (m *machine) isFar(l explore.Mark) bool {
	return m.Ours.StampAhead == 0 && !m.broken(ruleStampAhead) && l.Kind == explore.StampMark &&
		l.At > m.old.Slack+int8(m.old.LongestLease()+max(m.Ahead, 0)+max(-m.ServerStep, 0))
}

// farOf returns how far beyond its lease that stamp lies.
func (m *machine) farOf(l explore.Mark) int8 {
	if !m.isFar(l) {
		return 0
	}
	return m.far
}

// check names the first number that exceeds what a state can hold, or the first
// field that contradicts the others.
func (sc Scenario) check() error {
	o := sc.Ours
	for _, f := range []explore.Range{
		{Field: "Shorten", Value: sc.Shorten, High: 40},
		{Field: "Ours.Clients", Value: o.Clients, High: maxOurs},
		{Field: "Ours.TTL", Value: o.TTL, High: 40}, {Field: "Ours.Margin", Value: o.Margin, High: o.TTL},
		{Field: "Ours.Stop", Value: o.Stop, High: 40}, {Field: "Ours.Long", Value: o.Long, High: 40},
		{Field: "Ours.Settle", Value: o.Settle, High: 40},
		{Field: "Ours.TakeoverMargin", Value: o.TakeoverMargin, High: 30},
		{Field: "Ours.Look", Value: o.Look, High: 60},
		{Field: "Ours.StampAhead", Value: o.StampAhead, High: 60},
		{Field: "Ours.Renewals", Value: o.Renewals, High: 20},
		{Field: "Ours.Attempts", Value: o.Attempts, High: 20},
		{Field: "Ours.Waits", Value: o.Waits, High: 80},
		{Field: "Ours.Unchanged", Value: o.Unchanged, High: 40},
		{Field: "Ours.Sparse", Value: o.Sparse, High: 40},
	} {
		if err := f.Check(); err != nil {
			return err
		}
	}
	return sc.contradiction()
}

// registers reports whether members join or are lost, or the record is.
func (o Ours) registers() bool { return o.Loses || o.Joins || o.LosesRecord }

// contradiction names the first field that contradicts the others or has no
// meaning.
func (sc Scenario) contradiction() error {
	ours := sc.Ours
	for _, r := range []struct {
		broken bool
		field  string
		value  any
		want   string
	}{
		{ours.Clients > 0 && ours.TTL == 0, "Ours.TTL", ours.TTL, "more than 0"},
		{ours.Restored && (ours.To != PhaseClean || ours.Phase == PhaseClean), "Ours.To", ours.To,
			"clean, from an earlier phase, where a record is restored"},
		{ours.Renewals == 0 && ours.registers(), "Ours.Renewals", 0,
			"more than 0, where members join or are lost, or the record is"},
		{ours.LosesRecord && (ours.Restored || ours.Empties || ours.Slow), "Ours.LosesRecord", true,
			"false where an older record is restored, the registry is emptied or a verb is slow"},
		{!ours.Phase.known(), "Ours.Phase", ours.Phase, knownPhases},
		{!ours.To.known(), "Ours.Phase", ours.To, knownPhases},
	} {
		if r.broken {
			return &explore.ParameterError{Field: r.field, Value: r.value, Bound: r.want}
		}
	}
	return nil
}

package skew

import (
	"cmp"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Scenario is a bounded world for [Explore]: who takes part and how far each may go wrong. Times are
// ticks; a tick is the dialect's unit. Slack counts as one tick where the dialect has one.
//
// Clocks of old clients wander: every reading may lie anywhere from Behind below to Ahead above the
// server's clock, which covers constant offsets, drift and steps inside these bounds. Their spread S is
// Behind + Ahead; either may be negative, for a fleet that is ahead, or behind, as a whole. Ours keep
// time by elapsed ticks and are right about it.
type Scenario struct {
	Dialect dialect.Dialect

	// Unit is how many ticks a unit has to which clocks are cut; 0 is 1. With more, Lease has to be whole
	// units, and slack is one of them: stamps lose what is below a unit, wherever in it a clock is read.
	Unit int

	Old   int // old clients, at most 3
	Lease int // E of theirs, the smallest
	// Greatest is the greatest lease of theirs; 0 is Lease. An attempt takes one of the two.
	Greatest int
	Job      int // J: the longest from the winning write to the release's execution
	Gap      int // g: the longest from the clock reading to the last write of an attempt
	Reply    int // the longest from the server executing a GETSET to the client judging the reply by a new clock reading
	Behind   int
	Ahead    int
	// Rest is how long a client stays away at least after a release of its own, as a poll makes it.
	Rest int
	// Overrun: jobs of old clients may run on for ever.
	Overrun bool
	// Renews: old clients of dialects that renew by GETSET, SET or PEXPIRE do so, as often as they like;
	// Job then counts from the last renewal. The clock reading of a renewal may be Gap old too.
	Renews bool
	// FleetStep: all old clocks may be stepped back together, once, by so much.
	FleetStep int
	// ServerStep: the server's clock may step by so much, once; TTLs are by that clock. Old clients'
	// clocks, and the elapsed time of ours, do not follow.
	ServerStep int
	// FailOver: the step is a fail-over to another server, whose clock is elsewhere and whose run id is
	// another.
	FailOver bool
	// StepUndone: the step is taken back within Lease ticks, and no sooner than a tick.
	StepUndone bool
	// Shorten: once, somebody who is no client of the lock sends an EXPIRE of so many ticks for L, while a
	// lease of ours hangs on it. Ours, which watch L, look at it within the tick.
	Shorten int
	// PromptEnds: a release that looks before it deletes does both at once.
	PromptEnds bool
	// OwnDelay counts a job's length from its own clock reading, not from its winning write: old clients
	// that are honest if only their own delay counted.
	OwnDelay bool
	// StampAtWrite makes the old clients read their clock in the instant in which the server executes
	// their write, which none of them can: a model that forgets the pause, kept to show what it misses.
	StampAtWrite bool

	Ours Ours

	Goal      Goal
	MaxStates int // gives up beyond; 0 is 4,000,000
}

// Ours is what our own clients do.
type Ours struct {
	Clients int   // at most 3
	Phase   Phase // where the fleet's record stands; "" is observe: hardened
	// Moves: the record may be moved, by the gates' rules, between Phase and To.
	To Phase
	// Margin is the trust margin; Stop the longest from told lost to the job having stopped.
	TTL, Margin, Stop int
	Long              int  // TTL of renewals in phase modern; 0 is TTL
	Settle            int  // ticks, counted as done when so many have passed; 0 does not settle
	SettleAlways      bool // after every acquisition, not only after takeovers
	// TakeoverMargin is how far the server's clock must be past a stamp: the greater of the old clients'
	// spread and, where that is known, of how far the slowest of them is behind the server.
	TakeoverMargin int
	// Known: how far the slowest is behind is known, and no second look is asked. It is a claim, which
	// speaks of every server. Measured: it was measured, which speaks of the server of the beginning.
	Known, Measured bool
	// Look is how many ticks ago a look must have shown the bytes that are to be taken over, while it is
	// not known how far the slowest is behind; 0 is the rule: the greatest lease, c and one unit.
	Look int
	// Elsewhere: looks are remembered by other machines, so that only the server's clock says how old one is:
	// nine tenths of what that says count, less the trust margin.
	Elsewhere bool
	// Leaves: a release in observe or dual that finds its own mark on L may leave M, with nobody's token, for
	// so many ticks, so that only old clients enter. 0: none does.
	Leaves int
	// OldServer: no script that has asked the time may write, as on Redis 2.8, so that a look is a script
	// that shows the bytes, a reading, and a script that remembers both.
	OldServer bool
	// StampAhead is how far beyond the end of its lease a stamp of ours lies; 0 is beyond every clock.
	StampAhead int
	// Unchanged judges by unchanged bytes through so many ticks, instead of by the server's clock; looks
	// may be up to Sparse ticks apart.
	Unchanged, Sparse int
	// NoTombstone: the world begins without one, as after an overrun release, in phases that have one.
	NoTombstone bool
	// Late: requests and replies take any time, attempts are cancelled while they are on their way.
	// Without it a script runs, and its reply arrives, in the instant in which it is sent; for the full
	// rules that is the most dangerous case, since what comes late is trusted for less.
	Late bool
	// Newcomers: members come to know the server's clock by their first look, which may fall after a step
	// of it. Without it all have known it from the beginning.
	Newcomers bool
	// Deaf: the reply to a renewal that ran may never arrive.
	Deaf bool
	// Again: from clean, a new init may move the record to observe.
	Again bool
	// Forget lets the record go back although members lag behind, as when a human names them.
	Forget bool
	// Restored: once, on the way to clean, the record may be replaced by the one of the beginning, whose
	// epoch is less. In such worlds a member reads the record also while its lease runs, by its heartbeats.
	Restored bool
	// Vanishes: the heartbeats of members may stop, and come again, while their leases live on.
	Vanishes bool
	// Empties: the registry may lose its members, all at once, while the record stays. They go on by what
	// they have, and each is a member again with its next heartbeat.
	Empties bool
	// Loses: once, the registry may lose one member, as by a fail-over to a copy that lags behind.
	Loses bool
	// Joins: but for the first, members come to the registry and to the record only during the run.
	Joins bool
	// Slow: beside the verbs that read and write in one instant there is one that takes its time between them.
	Slow bool
	// Renewals is for how many ticks after its last answered heartbeat a member renews, and Attempts for how many
	// it makes attempts. With Renewals, gates that hear of a loss wait, and a human may forget a silent member:
	// both Waits ticks after the last heartbeat that can have been answered; 0 is the rule: TTL and Renewals. Who
	// was not there writes its field, and reads the record afterwards. 0 counts none of it.
	Renewals, Attempts, Waits int
	// Carved: the namespace was carved out of a shorter one at the beginning. Members go by the shorter one's
	// record, which stays in the first phase, until a heartbeat brings them to this one's.
	Carved bool
	// Break takes rules out.
	Break Rule
}

// Phase of a migration, by name.
type Phase string

// The phases.
const (
	PhaseObserve Phase = "observe"
	PhaseDual    Phase = "dual"
	PhaseSealed  Phase = "sealed"
	PhaseModern  Phase = "modern"
	PhaseClean   Phase = "clean"
)

const knownPhases = "one of observe, dual, sealed, modern, clean"

func (p Phase) known() bool {
	_, ok := model.PhaseOf(string(p))
	return ok
}

// Goal is what is looked for. Two holders are looked for beside each of them.
type Goal int

// The goals.
const (
	twoHold      Goal = iota // any two clients, of either kind
	twoOurs                  // two of ours; old clients may do to each other and to ours what they like
	clobber                  // a GETSET that lost replaced the value of a client that holds
	stalledLoser             // two hold, and on the way there somebody was clobbered
	ghost                    // a GETSET that lost left a value where nobody held anything
	chain                    // a second DEL in a row freed the lock of somebody who had entered through the first
	unnoticed                // a renewal of ours succeeded although the mark had been gone since the last look; or two of ours
	trampled                 // a release of ours deleted the value of an old client that holds
	lostJob                  // one of ours was told held, and then lost its mark, all old clients being honest
	falseLoss                // one of ours was told lost although its mark and M stood
	untombed                 // a release of an old client deleted the tombstone
)

var goals = [...]string{"two hold", "two of ours hold", "clobber", "two hold after a clobber", "ghost", "chain", "loss unnoticed", "trampled", "job lost", "lost for nothing", "tombstone deleted"}

func (g Goal) String() string { return goals[g] }

// machine is a scenario worked out: the numbers and decisions that steps need.
type machine struct {
	Scenario
	unit        int8 // ticks
	slack       int8
	inclusive   bool // equal counts as expired; in float seconds nothing is ever equal
	keepsStamp  bool // a release of the dialect looks at its own stamp
	floor       int8 // stamps further back than this are alike to everybody
	first, last model.Phase
	readsMark   dialect.Step // what an old client does on a guard or a tombstone
	trustCap    int8
	lookAge     int8 // from which a look counts
	lookCap     int8 // looks older than this are alike
	far         int8 // how far beyond its lease a stamp of ours lies
	fresh       int8 // stamps further back than this are written by nobody who has not read his clock yet
	settled     int8 // the age from which a grant counts as settled
	waits       int8 // for how long a loss keeps gates closed
}

func (sc Scenario) machine() (*machine, error) {
	if err := sc.check(); err != nil {
		return nil, err
	}
	m := &machine{Scenario: sc}
	m.first, _ = model.PhaseOf(string(sc.Ours.Phase)) // check has looked
	m.last = m.first
	if sc.Ours.To != "" {
		m.last, _ = model.PhaseOf(string(sc.Ours.To))
	}
	d := sc.Dialect
	m.unit = int8(max(sc.Unit, 1))
	if d.Slack > 0 {
		m.slack = m.unit
	}
	switch d.Release {
	case dialect.ReleaseValueOwn, dialect.ReleaseValueAtLeastOwn, dialect.ReleaseOwnNotPast, dialect.ReleaseOwnAhead, dialect.ReleaseCompare:
		m.keepsStamp = true
	}
	m.inclusive = d.Inclusive && d.Unit != dialect.UnitFloatSeconds
	lowest := min(0, int(m.slack)+sc.Lease-sc.Behind-2*sc.Gap) - max(sc.Ahead, 0) - max(sc.Behind, 0) - sc.Ours.TakeoverMargin - sc.FleetStep - max(sc.ServerStep, -sc.ServerStep) - 2
	if !d.JudgesAnew {
		// A reading may be Gap old when it judges, and what it finds expired stays so.
		lowest = min(lowest, -max(sc.Ahead, 0)-max(sc.Behind, 0)-sc.Gap-sc.Ours.TakeoverMargin-sc.FleetStep-max(sc.ServerStep, -sc.ServerStep)-2)
	}
	if sc.Ours.Unchanged > 0 {
		lowest -= sc.Ours.Unchanged + sc.Ours.Sparse
	}
	m.floor = int8(lowest) - 2*(m.unit-1)
	m.looks(sc)
	if highest := max(sc.Ours.TTL, sc.Ours.Long) + int(m.far) + 2*int(m.unit) + max(0, -sc.ServerStep); highest > 120 {
		return nil, &ParameterError{"Ours.StampAhead", m.far, "such that no stamp lies more than 120 ticks ahead"}
	}
	m.trustCap = int8(max(sc.Ours.TTL, sc.Ours.Long) + 1)
	m.settled = int8(max(sc.Ours.Settle, sc.Gap+1))
	m.waits = int8(cmp.Or(sc.Ours.Waits, max(sc.Ours.TTL, sc.Ours.Long)+sc.Ours.Renewals))
	m.readsMark = readsGuard(d)
	return m, nil
}

// looks works out how old a look has to be, and how far ahead a stamp of ours lies.
func (m *machine) looks(sc Scenario) {
	c := m.slack
	if m.inclusive {
		c -= m.unit
	}
	m.lookAge = int8(sc.Ours.Look)
	if m.lookAge == 0 {
		m.lookAge = int8(m.greatest()) + max(c, 0) + m.unit
	}
	m.lookCap = m.lookAge + int8(max(0, -sc.ServerStep))
	if sc.Ours.Elsewhere {
		m.lookCap = (10*(m.lookAge+int8(sc.Ours.Margin)))/9 + 1 + int8(max(0, -sc.ServerStep))
	}
	m.far = int8(sc.Ours.StampAhead)
	if m.far == 0 {
		// Beyond every stamp of theirs, until M and L are gone.
		m.far = int8(max(sc.Ahead, 0)+max(-sc.ServerStep, 0)+m.greatest()+sc.Gap) + 2*m.unit
	}
	if m.broken(ruleStampAhead) {
		m.far = 0
	}
	m.fresh = m.slack + int8(sc.Lease-sc.Behind-sc.Gap-sc.FleetStep-max(sc.ServerStep, -sc.ServerStep)) - m.unit
}

// isFar: nobody but one of ours writes such a stamp.
func (m *machine) isFar(l mark) bool {
	return m.Ours.StampAhead == 0 && !m.broken(ruleStampAhead) && l.kind == stampMark && l.at > m.slack+int8(m.greatest()+max(m.Ahead, 0)+max(-m.ServerStep, 0))
}

// farOf is how far beyond a lease that stamp lies.
func (m *machine) farOf(l mark) int8 {
	if !m.isFar(l) {
		return 0
	}
	return m.far
}

func (m *machine) greatest() int { return max(m.Lease, m.Greatest) }

// readsGuard is what an old client does that finds a guard or tombstone, by its own parser.
func readsGuard(d dialect.Dialect) dialect.Step {
	low, _ := d.GuardRange()
	guard, _ := d.Guard(low, "00000000-0000-4000-8000-000000000001")
	bytes, err := d.EncodeValue(guard)
	if err != nil || !d.HasTakeover() {
		return dialect.StepWait
	}
	return d.LegacyNext(dialect.Text(bytes), "", time.Unix(1_770_000_000, 0))
}

func (sc Scenario) check() error {
	if err := sc.Dialect.Validate(); err != nil {
		return err
	}
	if err := sc.outOfRange(); err != nil {
		return err
	}
	return sc.contradiction()
}

// outOfRange names the first number that is beyond what a state can hold.
func (sc Scenario) outOfRange() error {
	for _, f := range []struct {
		name       string
		value, low int
		high       int
	}{
		{"Old", sc.Old, 0, maxOld}, {"Ours.Clients", sc.Ours.Clients, 0, maxOurs},
		{"Unit", sc.Unit, 0, 4}, {"Lease", sc.Lease, 0, 40}, {"Greatest", sc.Greatest, 0, 40}, {"Job", sc.Job, 0, 60}, {"Rest", sc.Rest, 0, 40}, {"Gap", sc.Gap, 0, 20}, {"Reply", sc.Reply, 0, 40},
		{"Behind", sc.Behind, -sc.Ahead, 30}, {"Ahead", sc.Ahead, -30, 30}, {"FleetStep", sc.FleetStep, 0, 30}, {"Shorten", sc.Shorten, 0, 40}, {"ServerStep", sc.ServerStep, -30, 30},
		{"Ours.TTL", sc.Ours.TTL, 0, 40}, {"Ours.Margin", sc.Ours.Margin, 0, sc.Ours.TTL},
		{"Ours.Stop", sc.Ours.Stop, 0, 40}, {"Ours.Long", sc.Ours.Long, 0, 40},
		{"Ours.Settle", sc.Ours.Settle, 0, 40}, {"Ours.TakeoverMargin", sc.Ours.TakeoverMargin, 0, 30},
		{"Ours.Look", sc.Ours.Look, 0, 60}, {"Ours.StampAhead", sc.Ours.StampAhead, 0, 60},
		{"Ours.Renewals", sc.Ours.Renewals, 0, 20}, {"Ours.Attempts", sc.Ours.Attempts, 0, 20}, {"Ours.Waits", sc.Ours.Waits, 0, 80},
		{"Ours.Unchanged", sc.Ours.Unchanged, 0, 40}, {"Ours.Sparse", sc.Ours.Sparse, 0, 40},
		{"MaxStates", sc.MaxStates, 0, 1 << 30},
	} {
		if f.value < f.low || f.value > f.high {
			return &ParameterError{f.name, f.value, fmt.Sprintf("from %d to %d", f.low, f.high)}
		}
	}
	return nil
}

// contradiction names the first field that the others rule out, or that means
// nothing.
func (sc Scenario) contradiction() error {
	ours := sc.Ours
	for _, r := range []struct {
		broken bool
		field  string
		value  any
		want   string
	}{
		{sc.Unit > 1 && sc.Lease%sc.Unit != 0, "Lease", sc.Lease, fmt.Sprintf("a multiple of Unit, %d", sc.Unit)},
		{sc.Old > 0 && sc.Lease == 0 && (sc.Dialect.HasTakeover() || sc.Dialect.ServerExpires()), "Lease", sc.Lease, "more than 0"},
		{ours.Clients > 0 && ours.TTL == 0, "Ours.TTL", ours.TTL, "more than 0"},
		{ours.Restored && (ours.To != PhaseClean || ours.Phase == PhaseClean), "Ours.To", ours.To, "clean, from an earlier phase, where a record is restored"},
		{ours.Renewals == 0 && (ours.Loses || ours.Joins), "Ours.Renewals", 0, "more than 0, where members join or are lost"},
		{!ours.Phase.known(), "Ours.Phase", ours.Phase, knownPhases},
		{!ours.To.known(), "Ours.Phase", ours.To, knownPhases},
	} {
		if r.broken {
			return &ParameterError{r.field, r.value, r.want}
		}
	}
	return nil
}

package votes

import (
	"fmt"
	"slices"
)

// Scenario is a small world for Explore: a holder, a rival, some members, and
// how much may go wrong. Time is counted in ticks.
//
// The holder asks all members at once, and takes itself for the holder if at
// least Votes of them grant. It trusts its lease for TTL − Margin ticks by its
// own clock, counted from before it sent. It renews up to Renewals times, by
// the rules of package quorum. The rival asks once, at any time, and needs
// a majority. Requests and replies take any time, and may never arrive.
type Scenario struct {
	Members int // 1 to 7
	Votes   int // at least a majority; 0 means all members
	TTL     int // ticks, 2 to 20
	Margin  int // ticks, less than TTL

	// What may happen to the members, at any time: so many losses of a key,
	// restarts without data, and jumps forwards by JumpBy ticks.
	Lost, Restarted, Jumped int
	JumpBy                  int  // 0 means TTL
	Wait                    bool // a member does not vote until TTL ticks after its restart

	Renewals int // 0 to 3

	// MaxStates bounds the search; 0 means 4 million.
	MaxStates int

	broken rule
	goal   goal
}

// rule is a rule of quorum clients that a test takes out.
type rule uint8

const (
	// ruleRenewFirst: a renewal renews old votes, and takes missing ones only
	// after a majority was renewed. Without it, votes that it takes count.
	ruleRenewFirst rule = 1 << iota
	// ruleTrustEnds: a reply that comes after trust has ended changes nothing.
	// Without it, a renewal that succeeded revives the lease.
	ruleTrustEnds
	// ruleConfirmed: a vote that was taken again counts towards a renewal's
	// majority only after a renewal has confirmed it. Without it, it counts as
	// soon as the member granted it.
	ruleConfirmed
	// ruleFromSent: trust counts from before the requests were sent. Without
	// it, from the reply that made the majority.
	ruleFromSent
	// ruleLate is ruleConfirmed for votes of the first round whose replies came
	// after the majority's.
	ruleLate
)

// goal is what a search looks for.
type goal uint8

const (
	overlap goal = iota // both hold at one instant
	hidden              // a renewal depends on a vote that was taken after the rival held
)

// Exploration is the result of Explore.
type Exploration struct {
	// Found says that two can hold at once; Trace is then a shortest way there,
	// in events.
	Found bool
	Trace []Step
	// States is the number of different states reached.
	States int
	// Complete says that the whole space was searched. Without it, Found being
	// false means nothing.
	Complete bool
}

// Step is one line of a trace.
type Step struct {
	At   int    // ticks since the holder sent its first requests
	Who  string // "holder", "rival" or a member, from "A" on
	Does string
}

func (s Step) String() string { return fmt.Sprintf("%4d  %-7s %s", s.At, s.Who, s.Does) }

const (
	mostMembers   = 7
	defaultStates = 4_000_000
)

// Explore searches a scenario breadth first: every order of requests, replies,
// troubles and ticks. The same scenario has the same answer. Its error is a
// *skew.ParameterError.
func Explore(sc Scenario) (Exploration, error) {
	sc, err := sc.filled()
	if err != nil {
		return Exploration{}, err
	}
	x := explorer{Scenario: sc, numbers: map[world]int32{}, majority: sc.Members/2 + 1}
	first := world{holder: asking}
	for i := range sc.Members {
		first.members[i].mine = askSent
	}
	x.add(first, -1, event{})
	return x.run(), nil
}

func (sc Scenario) filled() (Scenario, error) {
	if sc.Members > mostMembers {
		return sc, impossible("Members", sc.Members, fmt.Sprintf("from 1 to %d", mostMembers))
	}
	law := Law{Members: sc.Members, Votes: sc.Votes, Lost: sc.Lost, Restarted: sc.Restarted,
		Jumped: sc.Jumped}
	if _, err := law.Verdict(); err != nil {
		return sc, err
	}
	switch {
	case sc.TTL < 2 || sc.TTL > 20:
		return sc, impossible("TTL", sc.TTL, "from 2 to 20 ticks")
	case sc.Margin < 0 || sc.Margin >= sc.TTL:
		return sc, impossible("Margin", sc.Margin, "at least 0 and less than TTL")
	case sc.JumpBy < 0:
		return sc, impossible("JumpBy", sc.JumpBy, "at least 0")
	case sc.Renewals < 0 || sc.Renewals > 3:
		return sc, impossible("Renewals", sc.Renewals, "from 0 to 3")
	}
	if sc.Votes == 0 {
		sc.Votes = sc.Members
	}
	if sc.JumpBy == 0 || sc.JumpBy > sc.TTL {
		sc.JumpBy = sc.TTL
	}
	if sc.MaxStates == 0 {
		sc.MaxStates = defaultStates
	}
	return sc, nil
}

type explorer struct {
	Scenario
	majority int
	numbers  map[world]int32
	worlds   []world
	from     []int32
	by       []event
}

// canon sorts the members, and says where each of them was.
func (x *explorer) canon(w *world) (was [mostMembers]int8) {
	var keys [mostMembers]uint64
	for i := range was {
		was[i], keys[i] = int8(i), w.members[i].key()
	}
	for i := 1; i < x.Members; i++ {
		for j := i; j > 0 && keys[j] > keys[j-1]; j-- {
			w.members[j], w.members[j-1] = w.members[j-1], w.members[j]
			was[j], was[j-1] = was[j-1], was[j]
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
	return was
}

func (x *explorer) add(w world, from int32, by event) {
	x.canon(&w)
	if _, known := x.numbers[w]; known {
		return
	}
	x.numbers[w] = int32(len(x.worlds))
	x.worlds, x.from, x.by = append(x.worlds, w), append(x.from, from), append(x.by, by)
}

func (x *explorer) run() Exploration {
	var events []event
	for at := 0; at < len(x.worlds); at++ {
		if len(x.worlds) > x.MaxStates {
			return Exploration{States: len(x.worlds)}
		}
		events = x.events(&x.worlds[at], events[:0])
		for _, e := range events {
			w := x.worlds[at]
			x.apply(&w, e)
			if x.reached(&w) {
				return Exploration{Found: true, Trace: x.trace(int32(at), e), States: len(x.worlds)}
			}
			x.add(w, int32(at), e)
		}
	}
	return Exploration{States: len(x.worlds), Complete: true}
}

// reached reports whether a world is the goal.
func (x *explorer) reached(w *world) bool {
	if x.goal == hidden {
		return w.done
	}
	return x.trusts(w) && w.rival == holding
}

// trace walks back from the last event, and then plays the events again to give
// each member the name that it keeps.
func (x *explorer) trace(at int32, last event) []Step {
	path := []event{last}
	for ; x.from[at] >= 0; at = x.from[at] {
		path = append(path, x.by[at])
	}
	slices.Reverse(path)
	w := x.worlds[0]
	var names [mostMembers]string
	for i := range names {
		names[i] = string(rune('A' + i))
	}
	var steps []Step
	now := 0
	for _, e := range path {
		before := w
		x.apply(&w, e)
		if e.kind == evTick {
			now++
		}
		who, does := x.words(&before, &w, e, names[e.at])
		if does != "" {
			steps = append(steps, Step{now, who, does})
		}
		was := x.canon(&w)
		old := names
		for i := range was {
			names[i] = old[was[i]]
		}
	}
	return steps
}

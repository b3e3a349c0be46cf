package skew

import (
	"hash/maphash"

	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Exploration is the result of Explore.
type Exploration struct {
	// Found says that a trace to the goal exists; Trace is then a shortest one,
	// in events.
	Found bool
	Trace Trace
	// States is the number of different states reached, Steps the number of
	// steps tried.
	States, Steps int
	// Complete says that the whole space was searched. Without it, Found being
	// false means nothing.
	Complete bool
}

// Safe reports whether the goal cannot be reached: it was not found in the
// whole bounded space.
func (e Exploration) Safe() bool { return e.Complete && !e.Found }

const defaultStates = 4_000_000

// Explore searches a scenario breadth first: every order of every client's
// steps, with every clock reading within bounds, every crash, every stall. The
// same scenario has the same answer, to the event. It fails with a
// *ParameterError, or as the dialect's Validate does.
func Explore(sc Scenario) (Exploration, error) {
	m, err := sc.machine()
	if err != nil {
		return Exploration{}, err
	}
	limit := sc.MaxStates
	if limit == 0 {
		limit = defaultStates
	}
	x := &explorer{m: m, seen: newSet()}
	for _, s := range m.initial() {
		x.add(s, -1, event{})
	}
	return x.run(limit), nil
}

type explorer struct {
	m     *machine
	seen  *stateSet
	from  []int32 // the state from which each state was first reached
	by    []event
	buf   []step
	steps int
}

// add stores a state in its canonical form.
func (x *explorer) add(s state, from int32, by event) {
	x.m.canon(&s)
	if x.seen.add(s) {
		x.from, x.by = append(x.from, from), append(x.by, by)
	}
}

func (x *explorer) run(limit int) Exploration {
	for at := 0; at < len(x.seen.states); at++ {
		if len(x.seen.states) > limit {
			return Exploration{States: len(x.seen.states), Steps: x.steps}
		}
		s := x.seen.states[at]
		x.buf = x.m.steps(&s, x.buf[:0])
		x.steps += len(x.buf)
		for i := range x.buf {
			t := &x.buf[i]
			if x.m.reached(t) {
				return Exploration{Found: true, Trace: x.trace(int32(at), *t), States: len(x.seen.states),
					Steps: x.steps}
			}
			x.add(t.to, int32(at), t.ev)
		}
	}
	return Exploration{States: len(x.seen.states), Steps: x.steps, Complete: true}
}

// steps appends all possible next steps to out.
func (m *machine) steps(s *state, out []step) []step {
	for i := range m.Old {
		out = m.oldSteps(s, i, out)
	}
	for i := range m.Ours.Clients {
		out = m.ourSteps(s, i, out)
	}
	if m.first < m.last {
		out = m.recordSteps(s, out)
	}
	out = m.worldSteps(s, out)
	if !m.due(s) {
		t := step{ev: event{kind: evTick}, to: *s}
		m.tick(&t.to)
		out = append(out, t)
	}
	for i := range out {
		m.tidies(&out[i].to)
	}
	return out
}

// worldSteps appends the events of the server and of all old clients together.
func (m *machine) worldSteps(s *state, out []step) []step {
	if m.ServerStep != 0 && s.server == 0 || m.StepUndone && s.server > 0 {
		by := int8(m.ServerStep)
		if s.server > 0 {
			by = -by
		}
		t := step{ev: event{kind: evServer, arg: by}, to: *s}
		m.stepServer(&t.to, by)
		out = append(out, t)
	}
	if m.FleetStep > 0 && s.fleet == 0 {
		t := step{ev: event{kind: evFleet, arg: int8(-m.FleetStep)}, to: *s}
		t.to.fleet = int8(-m.FleetStep)
		out = append(out, t)
	}
	if m.Shorten > 0 && s.cut == 0 && m.hangsOnL(s) {
		t := step{ev: event{kind: evShorten, arg: int8(m.Shorten)}, to: *s}
		t.to.cut, t.to.l.ttl = 1, lasts(m.Shorten)
		m.wake(&t.to)
		out = append(out, t)
	}
	return out
}

// hangsOnL reports whether a getsetlock lease depends on L.
func (m *machine) hangsOnL(s *state) bool {
	for i := range m.Ours.Clients {
		if s.our[i].on != model.OnNothing && s.our[i].pc >= ourAnswer && m.stands(s, i) {
			return true
		}
	}
	return false
}

// wake makes each getsetlock holder look at L before time passes.
func (m *machine) wake(s *state) {
	for i := range m.Ours.Clients {
		if c := &s.our[i]; c.pc == ourHolds && c.on != model.OnNothing {
			c.flags |= flagWoken
		}
	}
}

// initial returns the initial worlds: nothing is held, and L has the tombstone
// in phases that keep one.
func (m *machine) initial() []state {
	s := state{record: m.first}
	if m.first >= model.Sealed && m.first < model.Clean && !m.Ours.NoTombstone {
		s.l.kind = tombMark
	}
	for i := range m.Ours.Clients {
		s.our[i].member = m.first
		if m.Ours.Joins && i > 0 {
			s.our[i].member, s.our[i].away, s.our[i].quiet = model.NoPhase, awayUnsaid, m.waits+1
		}
		if !m.Ours.Newcomers {
			s.our[i].met = 1
		}
	}
	if m.Ours.Clients > 0 && m.broken(ruleNoPhaseNoLock) {
		s.our[0].member = model.NoPhase
	}
	all := []state{s}
	for s.within = 1; s.within < m.unit; s.within++ {
		all = append(all, s)
	}
	return all
}

// reached reports whether a step reaches the goal. It counts the events that
// must come first.
func (m *machine) reached(t *step) bool {
	if goal := m.Goal.note(); goal != 0 {
		return t.note&goal != 0
	}
	old, ours := t.to.holders()
	if m.links(t, old) {
		t.to.links = min(t.to.links+1, 2)
	}
	switch m.Goal {
	case twoOurs:
		return ours > 1
	case unnoticed:
		return ours > 1 || t.note&noteUnnoticed != 0
	case lostJob:
		return m.lostJob(&t.to)
	case chain:
		return t.to.links > 1
	case stalledLoser:
		return t.to.links > 0 && old+ours > 1
	}
	if m.Ours.Clients == 0 {
		return old > 1
	}
	return ours > 1 || ours == 1 && old > 0
}

// note returns the note of the step that is the goal itself, wherever it leads;
// 0 for other goals.
func (g Goal) note() note {
	switch g {
	case clobber:
		return noteClobber
	case ghost:
		return noteGhost
	case trampled:
		return noteTrampled
	case falseLoss:
		return noteFalseLoss
	case untombed:
		return noteUntombed
	}
	return 0
}

// links reports whether a step is one of those that must come before the goal.
// old is the number of old clients that hold after it.
func (m *machine) links(t *step, old int) bool {
	switch m.Goal {
	case chain:
		return t.note&noteForeignDel != 0
	case stalledLoser:
		return t.note&noteClobber != 0 && old == 1
	}
	return false
}

func (m *machine) lostJob(s *state) bool {
	for i := range s.our {
		if s.our[i].pc == ourHolds && s.our[i].flags&flagHurt != 0 && !m.trustOver(&s.our[i]) {
			return true
		}
	}
	return false
}

// stateSet numbers states in the order in which they are added. It hashes into
// a table of numbers with open addressing, so a state is stored once. Each
// entry also has half of the hash, so that few states are compared in vain.
type stateSet struct {
	states []state
	table  []setEntry
	seed   maphash.Seed
}

type setEntry struct {
	half   uint32
	number int32 // the state's number plus one; 0 is free
}

func newSet() *stateSet {
	return &stateSet{table: make([]setEntry, 1<<12), seed: maphash.MakeSeed()}
}

// add reports whether the state is new. The seed differs between runs, and no
// result depends on it.
func (h *stateSet) add(s state) bool {
	if 2*len(h.states) >= len(h.table) {
		h.grow()
	}
	at, half, found := h.find(&s)
	if found {
		return false
	}
	h.states = append(h.states, s)
	h.table[at] = setEntry{half, int32(len(h.states))}
	return true
}

func (h *stateSet) find(s *state) (at int, half uint32, found bool) {
	sum, mask := maphash.Comparable(h.seed, *s), len(h.table)-1
	half = uint32(sum >> 32)
	for at = int(uint32(sum)) & mask; ; at = (at + 1) & mask {
		c := h.table[at]
		if c.number == 0 {
			return at, half, false
		}
		if c.half == half && h.states[c.number-1] == *s {
			return at, half, true
		}
	}
}

func (h *stateSet) grow() {
	h.table = make([]setEntry, 2*len(h.table))
	for i := range h.states {
		at, half, _ := h.find(&h.states[i])
		h.table[at] = setEntry{half, int32(i + 1)}
	}
}

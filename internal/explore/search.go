// SPDX-License-Identifier: Apache-2.0

package explore

import "hash/maphash"

// Space is a world as a search needs it. S is a state of it.
type Space[S comparable] interface {
	// Initial returns the states with which the world may begin.
	Initial() []S
	// Steps appends all possible next steps to out.
	Steps(s *S, out []Step[S]) []Step[S]
	// Reached reports whether a step reaches what is looked for. It may count
	// events in the state to which the step leads.
	Reached(t *Step[S]) bool
	// Canon brings a state into its canonical form, and says where it moved
	// the clients.
	Canon(s *S) Order
	// Event returns an act in words.
	Event(a Act, now int, names Order) Event
}

// Result is the result of a search.
type Result struct {
	// Found says that a way to the goal exists. Events is then a shortest one,
	// without ticks, and Length its length with ticks.
	Found  bool
	Events []Event
	Length int
	// States is the number of different states reached, Steps the number of
	// steps tried.
	States, Steps int
	// Complete says that the whole space was searched.
	Complete bool
}

const defaultStates = 4_000_000

// Search searches a world breadth first. The same world has the same answer, to
// the event. It stops beyond limit states; 0 is 4,000,000.
func Search[S comparable](m Space[S], limit int) Result {
	if limit == 0 {
		limit = defaultStates
	}
	x := &explorer[S]{m: m, seen: newSet[S]()}
	for _, s := range m.Initial() {
		x.add(s, -1, Act{})
	}
	return x.run(limit)
}

type explorer[S comparable] struct {
	m     Space[S]
	seen  *stateSet[S]
	from  []int32 // the state from which each state was first reached
	by    []Act
	buf   []Step[S]
	steps int
}

// add stores a state in its canonical form.
func (x *explorer[S]) add(s S, from int32, by Act) {
	x.m.Canon(&s)
	if x.seen.add(s) {
		x.from, x.by = append(x.from, from), append(x.by, by)
	}
}

func (x *explorer[S]) run(limit int) Result {
	for at := 0; at < len(x.seen.states); at++ {
		if len(x.seen.states) > limit {
			return Result{States: len(x.seen.states), Steps: x.steps}
		}
		s := x.seen.states[at]
		x.buf = x.m.Steps(&s, x.buf[:0])
		x.steps += len(x.buf)
		for i := range x.buf {
			t := &x.buf[i]
			if x.m.Reached(t) {
				return x.found(int32(at), *t)
			}
			x.add(t.To, int32(at), t.Act)
		}
	}
	return Result{States: len(x.seen.states), Steps: x.steps, Complete: true}
}

// found walks back from a state to the beginning. It then walks forward with
// every client's name as at the beginning, undoing the sorting of equal clients
// on the way.
func (x *explorer[S]) found(at int32, last Step[S]) Result {
	path := []Act{last.Act}
	var states []int32
	for ; at >= 0; at = x.from[at] {
		states = append(states, at)
		if x.from[at] >= 0 {
			path = append(path, x.by[at])
		}
	}
	r := Result{Found: true, Length: len(path), States: len(x.seen.states), Steps: x.steps}
	names, now := SameOrder(), 0
	for n := range path {
		act := path[len(path)-1-n]
		s := x.seen.states[states[len(states)-1-n]]
		if act.Kind == ActTick {
			now++
		} else {
			r.Events = append(r.Events, x.m.Event(act, now, names))
		}
		if n < len(path)-1 {
			next := x.seen.states[states[len(states)-2-n]]
			names = names.after(x.moved(&s, act, next))
		}
	}
	return r
}

// moved returns how the state next, which follows s by an act, was sorted.
func (x *explorer[S]) moved(s *S, act Act, next S) Order {
	for _, t := range x.m.Steps(s, nil) {
		if t.Act != act {
			continue
		}
		x.m.Reached(&t) // counts events
		if o := x.m.Canon(&t.To); t.To == next {
			return o
		}
	}
	panic("skew: a step of the trace leads to no state that was found")
}

// stateSet numbers states in the order in which they are added. It hashes into
// a table of numbers with open addressing, so a state is stored once. Each
// entry also has half of the hash, so that few states are compared in vain.
type stateSet[S comparable] struct {
	states []S
	table  []setEntry
	seed   maphash.Seed
}

type setEntry struct {
	half   uint32
	number int32 // the state's number plus one; 0 is free
}

func newSet[S comparable]() *stateSet[S] {
	return &stateSet[S]{table: make([]setEntry, 1<<12), seed: maphash.MakeSeed()}
}

// add reports whether the state is new. The seed differs between runs, and no
// result depends on it.
func (h *stateSet[S]) add(s S) bool {
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

func (h *stateSet[S]) find(s *S) (at int, half uint32, found bool) {
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

func (h *stateSet[S]) grow() {
	h.table = make([]setEntry, 2*len(h.table))
	for i := range h.states {
		at, half, _ := h.find(&h.states[i])
		h.table[at] = setEntry{half, int32(i + 1)}
	}
}

// SPDX-License-Identifier: Apache-2.0

package explore

import "slices"

// Walk is one way through a world, event by event, for comparing it with other
// programs. Clients keep their names. It does not search: the caller chooses
// each event.
type Walk[S comparable] struct {
	State S
	Now   int // ticks since the beginning

	m     Space[S]
	steps []Step[S]
	next  []Event
}

// Tick is the event by which time passes.
var Tick = Event{Who: "time", What: "tick"}

// NewWalk returns a Walk at the beginning of a world.
func NewWalk[S comparable](m Space[S]) *Walk[S] {
	w := &Walk[S]{m: m, State: m.Initial()[0]}
	// A trace names clients as in its first state, which is sorted.
	m.Canon(&w.State)
	w.look()
	return w
}

// look lists what may happen.
func (w *Walk[S]) look() {
	w.steps = w.m.Steps(&w.State, w.steps[:0])
	w.next = w.next[:0]
	for i := range w.steps {
		if act := w.steps[i].Act; act.Kind != ActTick {
			w.next = append(w.next, w.m.Event(act, w.Now, SameOrder()))
			continue
		}
		t := Tick
		t.At = w.Now
		w.next = append(w.next, t)
	}
}

// Next returns what may happen now. It contains Tick unless a client has to act
// first. The slice is valid until the next Take.
func (w *Walk[S]) Next() []Event { return w.next }

// Take makes the nth event of Next happen.
func (w *Walk[S]) Take(n int) {
	if w.steps[n].Act.Kind == ActTick {
		w.Now++
	}
	w.State = w.steps[n].To
	w.look()
}

// Find returns the index of an event in Next, whatever its tick; -1 where the
// world forbids it.
func (w *Walk[S]) Find(e Event) int {
	return slices.IndexFunc(w.next, func(o Event) bool {
		o.At = e.At
		return o == e
	})
}

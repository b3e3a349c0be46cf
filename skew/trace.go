package skew

// Event is one line of a trace: which client did what, at which tick, and with
// which result.
type Event struct {
	At   int    // ticks since the beginning
	Who  string // old1, old2 … ours1, ours2 …; server, fleet or record
	What string // one word, see docs/clocks.md
	// for "clock", "judge", "getset": the clock that was read, relative to the
	// server's; for "tick" none
	Arg    int
	HasArg bool
	Result string // one word, or empty
}

// Trace is a shortest way to the goal.
type Trace struct {
	Scenario Scenario
	Events   []Event // without ticks, which At counts
	Length   int     // with ticks
}

// trace walks back from a state to the beginning. It then walks forward with
// every client's name as at the beginning, undoing the sorting of equal clients
// on the way.
func (x *explorer) trace(at int32, last step) Trace {
	path := []event{last.ev}
	var states []int32
	for ; at >= 0; at = x.from[at] {
		states = append(states, at)
		if x.from[at] >= 0 {
			path = append(path, x.by[at])
		}
	}
	tr := Trace{Scenario: x.m.Scenario, Length: len(path)}
	names, now := sameOrder(), 0
	for n := range path {
		ev := path[len(path)-1-n]
		s := x.seen.states[states[len(states)-1-n]]
		if ev.kind == evTick {
			now++
		} else {
			tr.Events = append(tr.Events, named(ev, now, names))
		}
		if n < len(path)-1 {
			next := x.seen.states[states[len(states)-2-n]]
			names = names.after(x.moved(&s, ev, next))
		}
	}
	return tr
}

// moved returns how the state next, which follows s by ev, was sorted.
func (x *explorer) moved(s *state, ev event, next state) order {
	for _, t := range x.m.steps(s, nil) {
		if t.ev != ev {
			continue
		}
		x.m.reached(&t) // counts links
		if o := x.m.canon(&t.to); t.to == next {
			return o
		}
	}
	panic("skew: a step of the trace leads to no state that was found")
}

func (o order) after(p order) order {
	var r order
	for i := range r.old {
		r.old[i] = o.old[p.old[i]]
	}
	for i := range r.our {
		r.our[i] = o.our[p.our[i]]
	}
	return r
}

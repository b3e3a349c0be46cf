package skew

// Event is one line of a trace: who did what, at which tick, and what came of it.
type Event struct {
	At     int    // ticks since the beginning
	Who    string // old1, old2 … ours1, ours2 …; server, fleet or record
	What   string // one word, see docs/clocks.md
	Arg    int    // of "clock", "judge", "getset": the clock that was read, against the server's; of "tick" none
	HasArg bool
	Result string // one word, or empty
}

// Trace is a shortest way to what was looked for.
type Trace struct {
	Scenario Scenario
	Events   []Event // without the ticks: At counts them
	Length   int     // with them
}

// trace walks back from a state to the beginning, and then forward again with every client's name as
// it was in the beginning, undoing the sorting of equal clients on the way.
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

// moved is how the successor of a state by an event, which is next, was sorted.
func (x *explorer) moved(s *state, ev event, next state) order {
	for _, t := range x.m.steps(s, nil) {
		if t.ev != ev {
			continue
		}
		x.m.reached(&t) // counts links
		if o := t.to.canon(x.m.Old, x.m.Ours.Clients); t.to == next {
			return o
		}
	}
	panic("skew: a trace left the space it was found in")
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

// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/internal/explore"
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

// Event is one line of a trace: which client did what, at which tick, and with
// which result.
type Event struct {
	At   int    // ticks since the beginning
	Who  string // old1, old2 …; server or fleet
	What string // one word, see docs/guide/clocks.md
	// for "clock", "judge", "getset": the clock that was read, relative to the
	// server's; for others none
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

// Explore searches a scenario breadth first: every order of every client's
// steps, with every clock reading within bounds, every crash, every stall. The
// same scenario has the same answer, to the event. It fails with a
// *ParameterError, or as the dialect's Validate does.
func Explore(sc Scenario) (Exploration, error) {
	m, err := sc.machine()
	if err != nil {
		return Exploration{}, err
	}
	r := explore.Search(m, sc.MaxStates)
	x := Exploration{Found: r.Found, States: r.States, Steps: r.Steps, Complete: r.Complete}
	if r.Found {
		x.Trace = Trace{Scenario: sc, Length: r.Length}
	}
	for _, e := range r.Events {
		x.Trace.Events = append(x.Trace.Events, Event(e))
	}
	return x, nil
}

// Words describes the trace to a reader, one event a line.
func (t Trace) Words() string {
	words := explore.OldWords()
	var b strings.Builder
	for _, e := range t.Events {
		fmt.Fprintf(&b, "%4d  %-6s %s\n", e.At, e.Who, words.Says(explore.Event(e)))
	}
	return b.String()
}

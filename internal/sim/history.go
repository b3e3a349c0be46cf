// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Event is one thing that happened. Fields that mean nothing for a kind are
// zero.
type Event struct {
	At      time.Duration
	Kind    EventKind
	Proc    int // Server: the server
	Node    int // of several servers the one that it happened at, from 1 on
	Op      int // the operation; None: none
	Key     int
	Token   int           // number of the token; 0: none
	Was     int           // token that was on the key before a request ran
	Fence   int64         // fencing number
	Until   time.Duration // when the key ends
	Stands  bool          // the token is on the key; of Wrote: the lease depends on what was there
	Trusted bool          // the lease is trusted
	Done    bool          // the lease's Done is closed
	Left    time.Duration // how long the lease is trusted, by its process's clock
	Text    string
}

// Special values of Event.Proc, Event.Op and Event.Token.
const (
	Server   = -1
	None     = -1
	Leftover = -1 // the key is left to clients that poll
)

// EventKind says what happened in an Event.
type EventKind string

// Kinds of events.
const (
	Called    EventKind = "called"    // an operation began
	Acquired  EventKind = "acquired"  // it has a lease
	Failed    EventKind = "failed"    // it has none, for Text
	Looked    EventKind = "looked"    // the judge looked at a lease whose token does not stand
	Renewed   EventKind = "renewed"   // a renewal by hand returned Text
	Releasing EventKind = "releasing" // the holder calls Release
	Noticed   EventKind = "noticed"   // the holder learned that the lease is lost, and goes on for a while
	Ended     EventKind = "ended"     // the holder of a lost lease stops
	Returned  EventKind = "returned"  // the operation is over, with Text
	Changed   EventKind = "changed"   // the key changed on the server, because of Text
	Happened  EventKind = "fault"     // a fault began
	Died      EventKind = "died"      // the process was killed
	Closed    EventKind = "closed"    // its Client was closed, with Text
	Told      EventKind = "hook"      // the hook Text was called
	Stuck     EventKind = "stuck"     // the operation never ended
	Left      EventKind = "left"      // Text was left when all was over
	Ran       EventKind = "ran"       // a request for Token ran, with Text; Left is the TTL that it asks for
	Odd       EventKind = "odd"       // what the Client says of its leases is wrong: Text
	Voted     EventKind = "vote"      // Node of a quorum has Token in place of Was, because of Text

	// Of old clients and a fleet's record.
	Wrote    EventKind = "wrote"   // Text of an old client took effect, Until after its attempt
	Took     EventKind = "took"    // an old client knows that it holds the key
	Dropped  EventKind = "dropped" // it holds no more, and gives the key back unless Text says why not
	Refused  EventKind = "refused" // it gave up
	Stepped  EventKind = "stepped" // a verb of the operator answered Text
	Recorded EventKind = "record"  // it says Text; no old client tried for Until; Stands: it moves nobody
	Spoiled  EventKind = "spoiled" // a getsetlock client or a verb did on the server what it must not: Text
	Acts     EventKind = "acts"    // a member acts by the phase Text then, or (Done) has leases of it
)

// History is what happened in one play, in order.
type History struct {
	Plan   *Plan
	Events []Event
	Seen   map[string]int // states of Sometimes, and how often each was reached
	Gap    time.Duration  // longest time after the last fault without a holder
	Sent   map[spell]int  // requests and dials

	sprung map[int]time.Duration // when traps have acted, by the fault's ID
	mu     sync.Mutex
	start  time.Time
	tokens map[string]int
}

// spell is a second of a process.
type spell struct {
	proc int
	from time.Duration
}

func newHistory(p *Plan) *History {
	return &History{Plan: p, Seen: map[string]int{}, Sent: map[spell]int{}, start: time.Now(),
		sprung: map[int]time.Duration{}, tokens: map[string]int{"left": Leftover}}
}

// sent counts a request or a dial of a process.
func (h *History) sent(proc int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Sent[spell{proc, h.now().Truncate(time.Second)}]++
}

// since counts what a process has sent and dialled in the seconds since then.
func (h *History) since(proc int, then time.Duration) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, sent := range h.Sent {
		if s.proc == proc && s.from >= then {
			n += sent
		}
	}
	return n
}

// now returns the time since the world's start.
func (h *History) now() time.Duration { return time.Since(h.start) }

// add records an event at this instant.
func (h *History) add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.At = h.now()
	h.Events = append(h.Events, e)
}

// sometimes notes that a state was reached.
func (h *History) sometimes(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Seen[name]++
}

// dated gives the plan the instants at which traps for one write have acted.
// Those that never did have harmed nobody.
func (h *History) dated() {
	p := *h.Plan
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool {
		_, acted := h.sprung[f.ID]
		return f.Nth > 0 && !acted
	})
	for i, f := range p.Faults {
		if at, acted := h.sprung[f.ID]; acted && f.Nth > 0 {
			p.Faults[i].At = at
		}
	}
	h.Plan = &p
}

// settle gives events of one instant that depend on no order one: that of their
// keys, and ends last, in the order of their operations. Closing a Client or
// losing a connection ends many operations at once.
func (h *History) settle() {
	last := func(e Event) int {
		switch e.Kind {
		case Told:
			return 1
		case Failed, Returned, Closed:
			return 2 + max(e.Op, 0)
		}
		return 0
	}
	slices.SortStableFunc(h.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key), cmp.Compare(last(a), last(b)),
			cmp.Compare(last(a)*a.Proc, last(b)*b.Proc))
	})
}

// number returns the number of a token, in order of appearance.
func (h *History) number(token string) int {
	token, _, _ = strings.Cut(token, " ") // a note or a stamp follows the token
	if token == "" {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.tokens[token]
	if !ok {
		n = len(h.tokens)
		h.tokens[token] = n
	}
	return n
}

// known returns the number of a token that has one already; 0: it has none.
func (h *History) known(token string) int {
	token, _, _ = strings.Cut(token, " ")
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tokens[token]
}

// Leases returns how many leases were acquired.
func (h *History) Leases() (n int) {
	for _, e := range h.Events {
		if e.Kind == Acquired {
			n++
		}
	}
	return n
}

// String returns the history, a line an event.
func (h *History) String() string {
	var b strings.Builder
	for _, e := range h.Events {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

// String returns the event on one line.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14.9fs ", e.At.Seconds())
	if e.Proc == Server {
		b.WriteString("server   ")
	} else {
		fmt.Fprintf(&b, "p%d ", e.Proc)
		if e.Op != None {
			fmt.Fprintf(&b, "#%-4d ", e.Op)
		} else {
			b.WriteString("      ")
		}
	}
	fmt.Fprintf(&b, "%-9s ", e.Kind)
	switch e.Kind {
	case Happened, Died, Closed, Left:
	default:
		fmt.Fprintf(&b, "k%d ", e.Key)
	}
	if e.Token != 0 {
		fmt.Fprintf(&b, "T%d ", e.Token)
	}
	if e.Node != 0 {
		fmt.Fprintf(&b, "s%d ", e.Node)
	}
	if e.Fence != 0 {
		fmt.Fprintf(&b, "fence %d ", e.Fence)
	}
	if (e.Kind == Changed || e.Kind == Ran) && e.Token != 0 {
		fmt.Fprintf(&b, "until %.9fs ", e.Until.Seconds())
	}
	if e.Kind == Wrote {
		fmt.Fprintf(&b, "after %.9fs ", e.Until.Seconds())
	}
	if e.Kind == Looked || e.Kind == Acquired {
		fmt.Fprintf(&b, "stands=%t trusted=%t done=%t ", e.Stands, e.Trusted, e.Done)
	}
	if e.Left != 0 {
		fmt.Fprintf(&b, "left=%v ", e.Left)
	}
	return strings.TrimRight(b.String()+e.Text, " ")
}

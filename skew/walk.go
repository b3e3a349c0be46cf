package skew

import (
	"fmt"
	"slices"

	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Walk is one way through a scenario, event by event, for comparing the model
// with real clients. Clients keep their names. It does not search: the caller
// chooses each event.
type Walk struct {
	m     *machine
	s     state
	now   int
	steps []step
	next  []Event
}

// Tick is the event by which time passes.
var Tick = Event{Who: "time", What: "tick"}

// NewWalk returns a Walk at the beginning of a scenario. It fails as [Explore]
// does.
func NewWalk(sc Scenario) (*Walk, error) {
	m, err := sc.machine()
	if err != nil {
		return nil, err
	}
	w := &Walk{m: m, s: m.initial()[0]}
	// A trace names clients as in its first state, which is sorted.
	m.canon(&w.s)
	w.look()
	return w, nil
}

// look lists what may happen.
func (w *Walk) look() {
	w.steps = w.m.steps(&w.s, w.steps[:0])
	w.next = w.next[:0]
	for i := range w.steps {
		ev := w.steps[i].ev
		if ev.kind == evTick {
			t := Tick
			t.At = w.now
			w.next = append(w.next, t)
			continue
		}
		w.next = append(w.next, named(ev, w.now, sameOrder()))
	}
}

// Next returns what the model allows to happen now. It contains Tick unless a
// client has to act first. The slice is valid until the next Take.
func (w *Walk) Next() []Event { return w.next }

// Take makes the nth event of Next happen.
func (w *Walk) Take(n int) {
	if w.steps[n].ev.kind == evTick {
		w.now++
	}
	w.s = w.steps[n].to
	w.look()
}

// Find returns the index of an event in Next, whatever its tick; -1 where the
// model forbids it.
func (w *Walk) Find(e Event) int {
	return slices.IndexFunc(w.next, func(o Event) bool {
		o.At = e.At
		return o == e
	})
}

// World is a state as a comparison needs it. Stamps are distances from the
// server's clock, in ticks.
type World struct {
	L, M Mark
	// Looked says that a look at the bytes on L is remembered. A look at other
	// bytes does not count.
	Looked bool
	// Fleet is by how much all old clocks were stepped together, relative to
	// the server's.
	Fleet int
	// Record is the phase in the fleet's record.
	Record Phase
	Old    []Member
	Ours   []Member
}

// Mark is the value of a key. The zero value is a missing key.
type Mark struct {
	Kind string // stamp, guard, tombstone, value; on M token
	// Who is the writer, where bytes show it: a client's name, or "stranger"
	// for one that is gone.
	Who string
	At  int // of a stamp; if it lies far beyond a lease, as if it lay at the lease's end
	// Worn says that the stamp is at least so far back, and that it makes no
	// difference how far.
	Worn bool
	// Far says that it is a getsetlock stamp that lies beyond every clock.
	Far bool
	// Left is the number of ticks for which the key still exists, including
	// this one; 0 for ever.
	Left int
}

// Member is what one client does, and what it believes.
type Member struct {
	// Step is the client's step. Of old clients: idle, rests, setnx, get, got,
	// getset, gotset, last, expire, holds, holds-expire, del. Of getsetlock
	// clients: idle, begun, sent, gone, answer, settle, holds, lost, stopped.
	Step     string
	Trusted  bool  // getsetlock clients: trust in the lease, or in what becomes one, has not run out
	Age      int   // getsetlock clients: ticks since trust began; old clients: since the reading or the win
	Phase    Phase // getsetlock clients: phase of the attempt or grant, otherwise the one last read; "" none
	Long     bool  // getsetlock clients: the lease is the long one
	OnTomb   bool  // getsetlock clients: the lease depends on the tombstone
	Released bool  // getsetlock clients: a release is still on its way
	// Watches says that a getsetlock client follows how long a value stays
	// unchanged. Looked is how many ticks ago it last looked.
	Watches bool
	Looked  int
}

var oldSteps = [...]string{
	oldIdle: "idle", oldRests: "rests", oldRead: "setnx", oldBusy: "get", oldLook: "got", oldJudged: "getset",
	oldReply: "gotset",
	oldLast:  "last", oldExpire: "expire", oldHolds: "holds", oldHoldsTTL: "holds-expire", oldEnds: "del",
}

var ourSteps = [...]string{
	ourIdle: "idle", ourBegun: "begun", ourSent: "sent", ourGone: "gone", ourAnswer: "answer",
	ourSettle: "settle", ourHolds: "holds", ourLost: "lost", ourStopped: "stopped",
}

var markKinds = [...]string{noMark: "", stampMark: "stamp", guardMark: "guard", tombMark: "tombstone",
	constMark: "value"}

// World returns the present state of the walk.
func (w *Walk) World() World {
	s := &w.s
	v := World{Fleet: int(s.fleet), Record: Phase(s.record.String()), Looked: s.look.sameBytes(s.l)}
	if s.l.kind != noMark {
		v.L = Mark{Kind: markKinds[s.l.kind], Who: w.bearer(s.l), At: int(s.l.at - w.m.farOf(s.l)),
			Far: w.m.isFar(s.l), Worn: s.l.kind == stampMark && s.l.at <= w.m.floor, Left: int(s.l.ttl)}
	}
	if s.m.who != nobody {
		v.M = Mark{Kind: "token", Who: who(s.m.who), Left: int(s.m.ttl)}
	}
	for i := range w.m.Old {
		v.Old = append(v.Old, Member{Step: oldSteps[s.old[i].pc], Age: int(s.old[i].age)})
	}
	for i := range w.m.Ours.Clients {
		c := &s.our[i]
		p := c.member
		if c.pc != ourIdle {
			p = c.phase
		}
		v.Ours = append(v.Ours, Member{
			Step: ourSteps[c.pc], Trusted: !w.m.trustOver(c), Age: int(c.age), Phase: Phase(p.String()),
			Long:   c.flags&flagLong != 0,
			OnTomb: c.on == model.OnTomb, Released: c.flags&flagReleased != 0,
			Watches: c.watch.kind != noMark, Looked: int(c.last),
		})
	}
	return v
}

// bearer returns the writer of a mark, where bytes show it.
func (w *Walk) bearer(l mark) string {
	if l.who == nobody {
		return ""
	}
	return who(l.who)
}

func who(n int8) string {
	switch {
	case n == nobody:
		return ""
	case n >= stranger:
		return "stranger"
	case n >= firstOur:
		return fmt.Sprintf("ours%d", n-firstOur+1)
	}
	return fmt.Sprintf("old%d", n-firstOld+1)
}

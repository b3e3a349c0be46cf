package skew

import (
	"fmt"
	"slices"

	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Walk is one way through a scenario, an event at a time, for whoever compares the model with real
// clients. Clients keep their names. It is no search: it goes where it is told.
type Walk struct {
	m     *machine
	s     state
	now   int
	steps []step
	next  []Event
}

// Tick is the event with which time goes on.
var Tick = Event{Who: "time", What: "tick"}

// NewWalk stands at the beginning of a scenario. It fails as [Explore] does.
func NewWalk(sc Scenario) (*Walk, error) {
	m, err := sc.machine()
	if err != nil {
		return nil, err
	}
	w := &Walk{m: m, s: m.initial()[0]}
	// Names are those of the beginning, as in a trace, and a trace begins sorted.
	w.s.canon(m.Old, m.Ours.Clients)
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

// Next is what the model allows to happen now. Tick is among it unless somebody has to act first. The
// slice is good until the next Take.
func (w *Walk) Next() []Event { return w.next }

// Take lets the nth of Next happen.
func (w *Walk) Take(n int) {
	if w.steps[n].ev.kind == evTick {
		w.now++
	}
	w.s = w.steps[n].to
	w.look()
}

// Find is where in Next an event stands, whatever its tick; -1 where the model forbids it.
func (w *Walk) Find(e Event) int {
	return slices.IndexFunc(w.next, func(o Event) bool {
		o.At = e.At
		return o == e
	})
}

// World is a state as a comparison needs it. Stamps are distances from the server's clock, in ticks.
type World struct {
	L, M Mark
	// Looked: a look at the bytes that are on L is remembered. One at others is none to the model.
	Looked bool
	// Fleet is by how much all old clocks together were stepped against the server's.
	Fleet int
	// Record is where the fleet's record stands.
	Record Phase
	Old    []Member
	Ours   []Member
}

// Mark is what stands on a key. The zero value is a missing one.
type Mark struct {
	Kind string // stamp, guard, tombstone, value; of M token
	// Who wrote it, where bytes tell: a client's name, or "stranger" for one that is gone.
	Who string
	At  int // of a stamp; of one that lies far beyond a lease, where it would lie at the lease's end
	// Worn: the stamp is at least so far back, and how far does not matter to anybody.
	Worn bool
	// Far: it is a stamp of ours that lies beyond every clock.
	Far bool
	// Left is how many ticks the key still exists, this one included; 0 for ever.
	Left int
}

// Member is what one client is doing, and what it believes.
type Member struct {
	// Step is where it stands; of old clients: idle, rests, setnx, get, got, getset, gotset, last, expire,
	// holds, holds-expire, del; of ours: idle, sent, gone, answer, settle, holds, lost, stopped.
	Step     string
	Trusted  bool  // of ours: trust in the lease, or in what becomes one, has not run out
	Age      int   // of ours: ticks since its trust began; of old clients since the reading or the win
	Phase    Phase // of ours: of its attempt or grant, else the one it has read; "" none
	Long     bool  // of ours: the lease is the long one
	OnTomb   bool  // of ours: the lease hangs on the tombstone
	Released bool  // of ours: a release that was sent is still on its way
	// Watches: of ours: it has seen a value of which it follows how long it stays the same; Looked is how
	// long ago it last did.
	Watches bool
	Looked  int
}

var oldSteps = [...]string{
	oldIdle: "idle", oldRests: "rests", oldRead: "setnx", oldBusy: "get", oldLook: "got", oldJudged: "getset", oldReply: "gotset",
	oldLast: "last", oldExpire: "expire", oldHolds: "holds", oldHoldsTTL: "holds-expire", oldEnds: "del",
}

var ourSteps = [...]string{
	ourIdle: "idle", ourSent: "sent", ourGone: "gone", ourAnswer: "answer", ourSettle: "settle", ourHolds: "holds", ourLost: "lost", ourStopped: "stopped",
}

var markKinds = [...]string{noMark: "", stampMark: "stamp", guardMark: "guard", tombMark: "tombstone", constMark: "value"}

// World is the state in which the walk stands.
func (w *Walk) World() World {
	s := &w.s
	v := World{Fleet: int(s.fleet), Record: Phase(s.record.String()), Looked: s.look.sameBytes(s.l)}
	if s.l.kind != noMark {
		v.L = Mark{Kind: markKinds[s.l.kind], Who: w.bearer(s.l), At: int(s.l.at - w.m.farOf(s.l)), Far: w.m.isFar(s.l), Worn: s.l.kind == stampMark && s.l.at <= w.m.floor, Left: int(s.l.ttl)}
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
			Step: ourSteps[c.pc], Trusted: !w.m.trustOver(c), Age: int(c.age), Phase: Phase(p.String()), Long: c.flags&flagLong != 0,
			OnTomb: c.on == model.OnTomb, Released: c.flags&flagReleased != 0,
			Watches: c.watch.kind != noMark, Looked: int(c.last),
		})
	}
	return v
}

// bearer names whose bytes a mark is, where bytes tell.
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

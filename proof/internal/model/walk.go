// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"

	"github.com/getsetlock/getsetlock/internal/explore"
)

// Walk is one way through a scenario, event by event, for comparing the model
// with real clients.
type Walk struct {
	*explore.Walk[state]
	m *machine
}

// Tick is the event by which time passes.
var Tick = explore.Tick

// NewWalk returns a Walk at the beginning of a scenario. It fails as [Explore]
// does.
func NewWalk(sc Scenario) (*Walk, error) {
	m, err := sc.machine()
	if err != nil {
		return nil, err
	}
	return &Walk{explore.NewWalk(m), m}, nil
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

var ourSteps = [...]string{
	ourIdle: "idle", ourBegun: "begun", ourSent: "sent", ourGone: "gone", ourAnswer: "answer",
	ourSettle: "settle", ourHolds: "holds", ourLost: "lost", ourStopped: "stopped",
}

var markKinds = [...]string{explore.NoMark: "", explore.StampMark: "stamp", explore.GuardMark: "guard",
	explore.TombMark: "tombstone", explore.ConstMark: "value"}

// World returns the present state of the walk.
func (w *Walk) World() World {
	s := &w.State
	v := World{Fleet: int(s.Fleet), Record: s.record.phase(), Looked: s.look.sameBytes(s.L)}
	if s.L.Kind != explore.NoMark {
		v.L = Mark{Kind: markKinds[s.L.Kind], Who: who(s.L.Who), At: int(s.L.At - w.m.farOf(s.L)),
			Far: w.m.isFar(s.L), Worn: s.L.Kind == explore.StampMark && s.L.At <= w.m.old.Floor,
			Left: int(s.L.TTL)}
	}
	if s.m.who != explore.Nobody {
		v.M = Mark{Kind: "token", Who: who(s.m.who), Left: int(s.m.ttl)}
	}
	for i := range w.m.Old {
		v.Old = append(v.Old, Member{Step: s.Old[i].PC.String(), Age: int(s.Old[i].Age)})
	}
	for i := range w.m.Ours.Clients {
		c := &s.our[i]
		p := c.member
		if c.pc != ourIdle {
			p = c.phase
		}
		v.Ours = append(v.Ours, Member{
			Step: ourSteps[c.pc], Trusted: !w.m.trustOver(c), Age: int(c.age), Phase: p.phase(),
			Long:   c.flags&flagLong != 0,
			OnTomb: c.on == onTomb, Released: c.flags&flagReleased != 0,
			Watches: c.watch.Kind != explore.NoMark, Looked: int(c.last),
		})
	}
	return v
}

func who(n int8) string {
	switch {
	case n == explore.Nobody:
		return ""
	case n >= explore.Stranger:
		return "stranger"
	case n >= firstOur:
		return fmt.Sprintf("ours%d", n-firstOur+1)
	}
	return fmt.Sprintf("old%d", n-explore.FirstOld+1)
}

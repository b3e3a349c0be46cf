// SPDX-License-Identifier: Apache-2.0

package explore

// State is a world of old clients, small enough to be compared and hashed as a
// value. It contains no instants: stamps are stored as their distance from the
// server's clock, spans as ages. So two worlds that differ only by a shift of
// time are equal.
type State struct {
	L      Mark
	Links  int8 // events before the goal that must come first; only some goals count them
	Server int8 // 1 once the server's clock has stepped; grows while the step may be undone, then −1
	Within int8 // how far the server's clock is into its unit
	Fleet  int8 // how far all old clients' clocks were stepped together, relative to the server's
	Old    [MaxOld]Client
}

// MaxOld and MaxOthers are the greatest numbers of old and of other clients.
const (
	MaxOld    = 3
	MaxOthers = 3
)

// Mark is the value on L. Two marks are the same bytes if all fields but TTL
// agree.
type Mark struct {
	Kind MarkKind
	Who  int8 // the writer, where bytes show it
	At   int8 // a stamp's distance from the server's clock
	TTL  int8 // ticks for which the key still exists, including this one; 0 for ever
}

// MarkKind is the kind of a value.
type MarkKind int8

// The kinds of values on L. Old clients write stamps and constants; a client
// that is not old may write the others too.
const (
	NoMark    MarkKind = iota
	StampMark          // a time
	GuardMark          // a time that is past by no client's clock, and that shows its writer
	TombMark           // the same, but a constant that all writers share
	ConstMark          // a value that is never read as a time
)

// SameBytes reports whether two marks are the same bytes.
func (m Mark) SameBytes(b Mark) bool { return m.Kind == b.Kind && m.Who == b.Who && m.At == b.At }

// AsSeen returns what a client sees of a mark.
func (m Mark) AsSeen() Seen { return Seen{m.Kind, m.Who, m.At} }

// Lasts returns the mark's TTL for a TTL in ticks: the key exists through its
// last tick.
func Lasts(ticks int) int8 { return int8(ticks + 1) }

// Seen is the bytes that a client has seen.
type Seen struct {
	Kind MarkKind
	Who  int8
	At   int8
}

// AsMark returns the bytes as a mark without a TTL.
func (v Seen) AsMark() Mark { return Mark{Kind: v.Kind, Who: v.Who, At: v.At} }

// Names of clients within a state. A client that gives up its identity (a new
// token, a crash) leaves bytes of a stranger, which no client takes for its
// own.
const (
	Nobody     int8 = 0
	FirstOld   int8 = 1
	FirstOther      = FirstOld + MaxOld
	Stranger        = FirstOther + MaxOthers
)

// Name returns the name of the old client i.
func Name(i int) int8 { return FirstOld + int8(i) }

// Client is one client of the dialect.
type Client struct {
	PC    PC
	Age   int8 // ticks since its clock reading in an attempt, since its winning write while it holds
	Stamp int8 // what it writes or wrote, as a distance from the server's clock
	More  int8 // by how much its lease exceeds the smallest
	Seen  Seen // what GET or GETSET returned
}

// PC is where an old client is in its program.
type PC int8

// The places.
const (
	AtIdle     PC = iota
	AtRests       // it has released, and stays away for a while
	AtRead        // it has read its clock and made its stamp; SETNX is next
	AtBusy        // SETNX lost; GET is next
	AtLook        // GET was answered; the decision and GETSET are next
	AtJudged      // it has decided and stamped anew; GETSET is next
	AtReply       // GETSET was answered; its reply is still to be judged
	AtLast        // one more SETNX ends the attempt
	AtExpire      // SETNX lost, and EXPIRE is next all the same
	AtHolds       // it believes that it holds
	AtHoldsTTL    // the same; EXPIRE is still to come
	AtEnds        // it holds, and has decided to DEL
)

var places = [...]string{
	AtIdle: "idle", AtRests: "rests", AtRead: "setnx", AtBusy: "get", AtLook: "got", AtJudged: "getset",
	AtReply: "gotset", AtLast: "last", AtExpire: "expire", AtHolds: "holds", AtHoldsTTL: "holds-expire",
	AtEnds: "del",
}

// String returns the place in a word.
func (p PC) String() string { return places[p] }

// Holds reports whether the client believes that it holds.
func (c *Client) Holds() bool { return c.PC >= AtHolds }

// Holders returns how many old clients believe that they hold.
func (s *State) Holders() (n int) {
	for i := range s.Old {
		if s.Old[i].Holds() {
			n++
		}
	}
	return n
}

// Rename gives a name's bytes to another name, wherever they are.
func (s *State) Rename(from, to int8) {
	swap := func(who *int8) {
		if *who == from {
			*who = to
		}
	}
	swap(&s.L.Who)
	for i := range s.Old {
		swap(&s.Old[i].Seen.Who)
	}
}

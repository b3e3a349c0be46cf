package skew

import "github.com/getsetlock/getsetlock/skew/internal/model"

// The state of a whole world, small enough to be compared and hashed as a value. Nothing in it is an
// instant: stamps are kept as their distance from the server's clock, spans as ages, so that two worlds
// that differ only by a shift of time are one.
type state struct {
	l      mark
	m      token
	look   look        // what M's look remembers
	record model.Phase // what the fleet's record says
	older  int8        // 1 while the record is a restored one; 2 once it has moved again
	links  int8        // events on the way to the goal that have to come first; only some goals count
	server int8        // 1 once the server's clock has stepped; grows while it may be undone, then −1
	within int8        // how far into its unit the server's clock is
	cut    int8        // 1 once somebody has shortened L
	verb   verb
	lost   int8 // ticks since the registry lost a member, and one more; 0 never
	fleet  int8 // how far all old clients' clocks were stepped together, against the server's
	old    [maxOld]oldClient
	our    [maxOurs]ourClient
}

const (
	maxOld  = 3
	maxOurs = 3
)

// mark is what stands on L. Two marks are the same bytes if all but ttl agree.
type mark struct {
	kind markKind
	who  int8 // whose bytes these are, where bytes tell: uuid, guard, token
	at   int8 // of a stamp: its distance from the server's clock
	ttl  int8 // ticks that the key still exists, this one included; 0 for ever
}

type markKind int8

const (
	noMark    markKind = iota
	stampMark          // a time, of an old client or of ours
	guardMark          // ours, in no client's clock ever past
	tombMark           // the constant that means "free" to ours alone
	constMark          // a value that is never read as a time
)

func (a mark) sameBytes(b mark) bool { return a.kind == b.kind && a.who == b.who && a.at == b.at }

// token is what stands on M. who is 0 where M is missing.
type token struct {
	who int8
	ttl int8
	at  int8 // of the stamp that was written to L with it
}

// look is what is remembered of a past stamp on L: its bytes, and how long ago they were there.
type look struct {
	kind  markKind // noMark: nothing is remembered
	who   int8
	at    int8
	age   int8 // since its reading, by elapsed time
	shift int8 // what the server's clock says of that, less the elapsed time
}

func (l look) sameBytes(b mark) bool {
	return l.kind != noMark && mark{kind: l.kind, who: l.who, at: l.at}.sameBytes(b)
}

// Names within a state. A client that gives its identity up (a new token, a crash) leaves a stranger
// behind, whose bytes nobody will ever call his own.
const (
	nobody   = 0
	firstOld = 1
	firstOur = firstOld + maxOld
	stranger = firstOur + maxOurs
	leftover = stranger + 1 // on M: a release left the key to old clients
)

func oldName(i int) int8 { return int8(firstOld + i) }
func ourName(i int) int8 { return int8(firstOur + i) }

// oldClient is one client of the dialect.
type oldClient struct {
	pc    oldStep
	age   int8 // of its clock reading during an attempt, of its winning write while it holds
	stamp int8 // what it writes, or wrote, as a distance from the server's clock
	more  int8 // by how much its lease is longer than the smallest
	seen  seen // what GET or GETSET returned
}

type seen struct {
	kind markKind
	who  int8
	at   int8
}

func (m mark) asSeen() seen { return seen{m.kind, m.who, m.at} }

func (v seen) asMark() mark { return mark{kind: v.kind, who: v.who, at: v.at} }

type oldStep int8

const (
	oldIdle     oldStep = iota
	oldRests            // it released, and stays away for a while
	oldRead             // it has read its clock and made its stamp; SETNX is next
	oldBusy             // SETNX said 0; GET is next
	oldLook             // GET was answered; judging and GETSET are next
	oldJudged           // it judged and stamped anew; GETSET is next
	oldReply            // GETSET was answered; its reply has to be judged
	oldLast             // one more SETNX ends the attempt
	oldExpire           // SETNX said 0, and EXPIRE is next all the same
	oldHolds            // it believes that it holds
	oldHoldsTTL         // the same; EXPIRE is still to come
	oldEnds             // it holds, and has decided to DEL
)

func (c *oldClient) holds() bool { return c.pc >= oldHolds }

// ourClient is one of ours: a member, its observation, its grant.
type ourClient struct {
	pc     ourStep
	age    int8        // since the request was sent from which trust counts
	life   int8        // since the acquisition's script ran; when lost, since it was told so
	member model.Phase // the phase that it has read
	phase  model.Phase // the phase of its attempt or grant
	on     model.OnL   // what its lease hangs on
	flags  int8
	renew  int8 // since a renewal was sent that is still on its way, plus one; 0 none
	watch  seen // what it has seen unchanged …
	since  int8 // … for how long, and …
	last   int8 // … how long ago it looked last
	met    int8 // 1: it has known the server's clock since before a step
	away   away
	quiet  int8 // ticks since its last answered heartbeat, while it is away; counted with Renewals alone
	heard  int8 // the stamp that it believes to be on L, where M does not say so
}

// away is why gates do not hear of a member.
type away int8

const (
	awayNot     away = iota
	awaySilent       // its heartbeats have stopped; what it said last still stands in the registry
	awayUnsaid       // the registry has lost what it said, or it never said anything
	awayEnters       // its field stands, and it has not read the record since
	awayShorter      // it goes by the shorter record, out of which this one was carved
	awayBefore       // it goes by this one, and has a lease from before that
)

type ourStep int8

const (
	ourIdle    ourStep = iota
	ourSent            // an attempt is on its way
	ourGone            // the attempt was cancelled; its command is still on its way
	ourAnswer          // the script took the key; its reply is on its way
	ourSettle          // taken, and not yet said so
	ourHolds           // told held
	ourLost            // told lost; the job has not stopped yet
	ourStopped         // no job; a release is on its way
)

func (c *ourClient) holds() bool { return c.pc == ourHolds || c.pc == ourLost }

const (
	flagSettled  int8 = 1 << iota
	flagLong          // the lease is the long one of phase modern
	flagHurt          // somebody touched its mark since it last looked
	flagJudged        // it has found the value expired and will replace whatever is there
	flagReleased      // a release that was sent for this grant is still on its way
	flagWoken         // L was touched in a way that has to be looked at within the tick
	flagTimed         // it has asked the server's time for a look that it has not made yet
)

// holders is how many believe that they hold, or have a job that has not stopped.
func (s *state) holders() (old, ours int) {
	for i := range s.old {
		if s.old[i].holds() {
			old++
		}
	}
	for i := range s.our {
		if s.our[i].holds() {
			ours++
		}
	}
	return old, ours
}

// rename gives a name's bytes to another wherever they stand.
func (s *state) rename(from, to int8) {
	swap := func(who *int8) {
		if *who == from {
			*who = to
		}
	}
	swap(&s.l.who)
	swap(&s.m.who)
	swap(&s.look.who)
	for i := range s.old {
		swap(&s.old[i].seen.who)
	}
	for i := range s.our {
		swap(&s.our[i].watch.who)
	}
}

package skew

import "github.com/getsetlock/getsetlock/skew/internal/model"

// state is the whole world, small enough to be compared and hashed as a value.
// It contains no instants: stamps are stored as their distance from the
// server's clock, spans as ages. So two worlds that differ only by a shift of
// time are equal.
type state struct {
	l       mark
	m       token
	look    look        // what M:look remembers
	record  model.Phase // what the fleet's record says
	older   int8        // 1 while the record is a restored one; 2 once it has moved again
	links   int8        // events before the goal that must come first; only some goals count them
	server  int8        // 1 once the server's clock has stepped; grows while the step may be undone, then −1
	within  int8        // how far the server's clock is into its unit
	cut     int8        // 1 once another program has shortened L
	verb    verb
	lost    int8     // ticks since the registry lost a member, plus one; 0 never
	flushed int8     // 1 once the server has lost the record
	may     mayStart // whether old clients may start; counted only where the record may be lost
	proved  bool     // the watcher has seen a client that contradicts the claim; only where there is one
	plain   bool     // in clean the record names no target; only where members compose
	fleet   int8     // how far all old clients' clocks were stepped together, relative to the server's
	old     [maxOld]oldClient
	our     [maxOurs]ourClient
}

const (
	maxOld  = 3
	maxOurs = 3
)

// mark is the value on L. Two marks are the same bytes if all fields but ttl
// agree.
type mark struct {
	kind markKind
	who  int8 // the writer, where bytes show it: uuid, guard, token
	at   int8 // a stamp's distance from the server's clock
	ttl  int8 // ticks for which the key still exists, including this one; 0 for ever
}

type markKind int8

const (
	noMark    markKind = iota
	stampMark          // a time, written by an old client or a getsetlock client
	guardMark          // a getsetlock guard, past by no client's clock
	tombMark           // the constant that only getsetlock clients read as free
	constMark          // a value that is never read as a time
)

func (a mark) sameBytes(b mark) bool { return a.kind == b.kind && a.who == b.who && a.at == b.at }

// token is the value on M. who is 0 where M is missing.
type token struct {
	who int8
	ttl int8
	at  int8 // the stamp that was written to L together with M
}

// look is what is remembered of a past stamp on L: its bytes, and how long ago
// L had them.
type look struct {
	kind  markKind // noMark: nothing is remembered
	who   int8
	at    int8
	age   int8 // ticks since its reading, by elapsed time
	shift int8 // its age by the server's clock, less the elapsed time
}

func (l look) sameBytes(b mark) bool {
	return l.kind != noMark && mark{kind: l.kind, who: l.who, at: l.at}.sameBytes(b)
}

// Names of clients within a state. A client that gives up its identity (a new
// token, a crash) leaves bytes of a stranger, which no client takes for its
// own.
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
	age   int8 // ticks since its clock reading in an attempt, since its winning write while it holds
	stamp int8 // what it writes or wrote, as a distance from the server's clock
	more  int8 // by how much its lease exceeds the smallest
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
	oldRests            // it has released, and stays away for a while
	oldRead             // it has read its clock and made its stamp; SETNX is next
	oldBusy             // SETNX lost; GET is next
	oldLook             // GET was answered; the decision and GETSET are next
	oldJudged           // it has decided and stamped anew; GETSET is next
	oldReply            // GETSET was answered; its reply is still to be judged
	oldLast             // one more SETNX ends the attempt
	oldExpire           // SETNX lost, and EXPIRE is next all the same
	oldHolds            // it believes that it holds
	oldHoldsTTL         // the same; EXPIRE is still to come
	oldEnds             // it holds, and has decided to DEL
)

func (c *oldClient) holds() bool { return c.pc >= oldHolds }

// ourClient is one getsetlock client: a member, its observation, its grant.
type ourClient struct {
	pc     ourStep
	age    int8        // ticks since the request was sent from which trust counts
	life   int8        // ticks since the acquire script ran; after a loss, since the client learned of it
	member model.Phase // the phase that it has read
	phase  model.Phase // the phase of its attempt or grant
	on     model.OnL   // what its lease depends on
	flags  int8
	renew  int8 // ticks since a renewal was sent that is still on its way, plus one; 0 none
	watch  seen // value that it has seen unchanged …
	since  int8 // … for so long, and …
	last   int8 // … how long ago it last looked
	met    int8 // 1: it read the server's clock before a step
	away   away
	quiet  int8 // ticks since its last answered heartbeat, while it is away; counted only with Renewals
	doubt  int8 // what is open after a silence
	heard  int8 // the stamp that it believes to be on L, where M does not say it
}

// away is why gates do not hear of a member.
type away int8

const (
	awayNot    away = iota
	awaySilent      // its heartbeats have stopped; the registry still has its last one
	awayUnsaid      // the registry has lost its field, or never had it
	awayEnters      // its field is in the registry, and it has not read the record since
)

type ourStep int8

const (
	ourIdle    ourStep = iota
	ourBegun           // it has read the phase of an attempt, and sent nothing yet
	ourSent            // an attempt is on its way
	ourGone            // the attempt was cancelled; its command is still on its way
	ourAnswer          // the script took the key; its reply is on its way
	ourSettle          // taken, and not yet reported as held
	ourHolds           // reported as held
	ourLost            // it knows of the loss; the job has not stopped yet
	ourStopped         // no job; a release is on its way
)

func (c *ourClient) holds() bool { return c.pc == ourHolds || c.pc == ourLost }

const (
	flagSettled  int8 = 1 << iota
	flagLong          // the lease is the long one of phase modern
	flagHurt          // another client touched its mark since it last looked
	flagJudged        // it has found the value expired and will replace whatever is there
	flagReleased      // a release of this grant is still on its way
	flagWoken         // L was touched in a way that has to be looked at within the tick
	flagTimed         // it has asked for the server's time, for a look that it has not made yet
)

// holders returns how many clients of each kind believe that they hold, or have
// a job that has not stopped.
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

// rename gives a name's bytes to another name, wherever they are.
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

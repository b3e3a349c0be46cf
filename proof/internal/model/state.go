// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

// state is the whole world: that of the old clients, with the getsetlock
// clients and what only they use.
type state struct {
	explore.State
	m       token
	look    look  // what M:look remembers
	record  level // what the fleet's record says
	older   int8  // 1 while the record is a restored one; 2 once it has moved again
	cut     int8  // 1 once another program has shortened L
	verb    verb
	lost    int8     // ticks since the registry lost a member, plus one; 0 never
	flushed int8     // 1 once the server has lost the record
	may     mayStart // whether old clients may start; counted only where the record may be lost
	proved  bool     // the watcher has seen a client that contradicts the claim; only where there is one
	plain   bool     // in clean the record names no target; only where members compose
	our     [maxOurs]ourClient
}

// token is the value on M. who is 0 where M is missing.
type token struct {
	who int8
	ttl int8
	at  int8 // the stamp that was written to L together with M
}

// look is what is remembered of a past stamp on L: its bytes, and how long ago
// L had them.
type look struct {
	kind  explore.MarkKind // NoMark: nothing is remembered
	who   int8
	at    int8
	age   int8 // ticks since its reading, by elapsed time
	shift int8 // its age by the server's clock, less the elapsed time
}

func (l look) sameBytes(b explore.Mark) bool {
	return l.kind != explore.NoMark && explore.Mark{Kind: l.kind, Who: l.who, At: l.at}.SameBytes(b)
}

// Names of getsetlock clients within a state follow those of old clients.
const (
	firstOur = explore.FirstOther
	maxOurs  = explore.MaxOthers
	leftover = explore.Stranger + 1 // on M: a release left the key to old clients
)

func ourName(i int) int8 { return firstOur + int8(i) }

// ourClient is one getsetlock client: a member, its observation, its grant.
type ourClient struct {
	pc     ourStep
	age    int8  // ticks since the request was sent from which trust counts
	life   int8  // ticks since the acquire script ran; after a loss, since the client learned of it
	member level // the phase that it has read
	phase  level // the phase of its attempt or grant
	on     onL   // what its lease depends on
	flags  int8
	renew  int8         // ticks since a renewal was sent that is still on its way, plus one; 0 none
	watch  explore.Seen // value that it has seen unchanged …
	since  int8         // … for so long, and …
	last   int8         // … how long ago it last looked
	met    int8         // 1: it read the server's clock before a step
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
	for i := range s.our {
		if s.our[i].holds() {
			ours++
		}
	}
	return s.Holders(), ours
}

// rename gives a name's bytes to another name, wherever they are.
func (s *state) rename(from, to int8) {
	s.Rename(from, to)
	swap := func(who *int8) {
		if *who == from {
			*who = to
		}
	}
	swap(&s.m.who)
	swap(&s.look.who)
	for i := range s.our {
		swap(&s.our[i].watch.Who)
	}
}

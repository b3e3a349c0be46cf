package migrate

import "time"

const (
	defaultEvery = 5 * time.Second

	// everyShare is what each member of a large fleet adds to the time between heartbeats, so that all together
	// beat 20 times a second. A server that has nothing else to do is woken by each of them, and that is
	// what they cost.
	everyShare = 50 * time.Millisecond

	// longestEvery bounds how late a phase is noticed in a fleet of any size.
	longestEvery = time.Minute

	// beatsCounted is over how many of its own heartbeats a member counts the others. Within one period more or
	// fewer of theirs may lie than should.
	beatsCounted = 4

	// livedFor is how long the sum of a fleet that is gone stays on the server.
	livedFor = time.Hour
)

// pace is how far a member's heartbeats are apart where its program does not say so.
//
// Nobody tells a member how many there are, and counting them would take a SCAN. Instead each adds with its
// heartbeat the time until its next one to a sum that they share. The sum grows by a millisecond a millisecond
// for each member, however often it beats; so how fast it grew between heartbeats of one's own is how
// many there are. (Who added the time since its last one would be taken for fewer, while all slow down.) A
// wrong sum lets heartbeats come sooner or later, within the bounds above, and nothing else: each says how
// long the next one may take, and gates go by that.
type pace struct {
	fixed bool
	next  time.Duration // what the next heartbeat will say

	paid time.Duration // up to when this member's time is in the sum, by its elapsed time

	known bool
	at    time.Duration // when the sum was read last, for its growth
	lived int64
}

func newPace(every time.Duration) pace {
	if every != 0 {
		return pace{fixed: true, next: every}
	}
	return pace{next: defaultEvery}
}

// owes is what is to be added to the sum with a heartbeat, in milliseconds.
func (p *pace) owes(now time.Duration) int64 {
	return min(max(now+p.next-max(p.paid, now), 0), longestEvery).Milliseconds()
}

// told takes the sum, after this member's share was added. It learns nothing of a sum that began anew.
func (p *pace) told(now time.Duration, lived int64) {
	p.paid = max(p.paid, now+p.next)
	since, grown := now-p.at, lived-p.lived
	anew := !p.known || grown < 0 || since < 0
	if !anew && since < beatsCounted*p.next-p.next/2 {
		return
	}
	if !anew && !p.fixed {
		p.next = everyFor(float64(grown) / float64(since.Milliseconds()))
	}
	p.known, p.at, p.lived = true, now, lived
}

// everyFor is in whole seconds, which are for people to read.
func everyFor(members float64) time.Duration {
	members = min(members, float64(longestEvery/everyShare)) // no number overflows
	return max(time.Duration(members*float64(everyShare)).Round(time.Second), defaultEvery)
}

// pauses are how long a member waits between its heartbeats.
type pauses struct {
	last  time.Duration
	below func(time.Duration) time.Duration // a random one
}

// after is the next one, if the last heartbeat promised the next one within every. Where that has grown at once,
// as for a fleet that was started together, it ends somewhere before: else all would go on beating together.
func (p *pauses) after(every time.Duration) time.Duration {
	grown := p.last > 0 && every >= 2*p.last
	p.last = every
	if grown {
		return p.below(every)
	}
	return every
}

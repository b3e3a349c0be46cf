// SPDX-License-Identifier: Apache-2.0

package migrate

import "time"

const (
	defaultEvery = 5 * time.Second

	// everyShare is what each member of a large fleet adds to the time between
	// heartbeats, so that all together send 20 a second. Each one wakes an idle
	// server, which is their cost.
	everyShare = 50 * time.Millisecond

	// longestEvery is the longest time until a phase is noticed, in a fleet of
	// any size.
	longestEvery = time.Minute

	// beatsCounted is the number of its own periods over which a member counts
	// the others. A single period may contain more or fewer of their
	// heartbeats.
	beatsCounted = 4

	// livedFor is the TTL of the sum.
	livedFor = time.Hour
)

// pace is the time between a member's heartbeats where its program does not set
// it.
//
// No member knows how many there are, and counting them would take a SCAN.
// Instead each heartbeat adds the time until the next one to a sum that all
// members share. For each member the sum grows by a millisecond a millisecond,
// however often it sends. So its growth between two heartbeats shows the number
// of members. (Adding the time since the last heartbeat would show too few
// members while all slow down.)
//
// A wrong sum makes heartbeats come sooner or later, within the bounds above,
// and has no other effect. Each heartbeat promises when the next one comes, and
// gates go by that.
type pace struct {
	fixed bool
	next  time.Duration // time that the next heartbeat will promise

	paid time.Duration // elapsed time up to which the sum has this member's time

	known bool
	at    time.Duration // elapsed time of the reading that growth is measured from
	lived int64
}

func newPace(every time.Duration) pace {
	if every != 0 {
		return pace{fixed: true, next: every}
	}
	return pace{next: defaultEvery}
}

// owes is what a heartbeat adds to the sum, in milliseconds.
func (p *pace) owes(now time.Duration) int64 {
	return min(max(now+p.next-max(p.paid, now), 0), longestEvery).Milliseconds()
}

// told takes the sum after this member's share was added. It learns nothing
// from a sum that began anew.
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

// everyFor is in whole seconds, for people.
func everyFor(members float64) time.Duration {
	members = min(members, float64(longestEvery/everyShare)) // avoids an overflow
	return max(time.Duration(members*float64(everyShare)).Round(time.Second), defaultEvery)
}

// pauses are the times that a member waits between heartbeats.
type pauses struct {
	last  time.Duration
	below func(time.Duration) time.Duration // a random duration below the given one
}

// after is the next pause, where the last heartbeat promised the next one
// within every. Where every has at least doubled, as in a fleet that was
// started at once, the pause is random and shorter. Otherwise all members would
// go on sending together.
func (p *pauses) after(every time.Duration) time.Duration {
	grown := p.last > 0 && every >= 2*p.last
	p.last = every
	if grown {
		return p.below(every)
	}
	return every
}

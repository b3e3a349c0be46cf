// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// simRules are a dialect's rules for values that its own clients wrote, on
// numbers instead of texts. They decide as package dialect does by parsing, at
// a hundred times the speed. A test draws values, clocks and replies and
// compares the two. Float seconds count in whole microseconds.
type simRules struct {
	dialect.Dialect
	unit, lease, ahead int64
	edge               int64 // how far past a stamp the clock has to be: one unit if the comparison is strict
	takeover, stamps   bool
	uuid               bool
	nextNil, nextHeld  dialect.Step
	attempts           int
	ttl                int64 // TTL of the acquiring SET; never if it has none
}

func newSimRules(s Fleet) simRules {
	r := simRules{
		Dialect: s.Dialect, unit: max(1, int64(s.Dialect.Unit.Step())), takeover: s.Dialect.HasTakeover(),
		stamps: s.Dialect.HasStamp(), uuid: s.Dialect.Shape == dialect.ShapeUUIDNumber,
		attempts: s.Dialect.CountedAttempts(), lease: int64(s.Lease), ttl: never,
	}
	r.ahead = (int64(s.Lease) + int64(s.Dialect.Slack)) / r.unit * r.unit
	if !s.Dialect.Inclusive {
		r.edge = r.unit
	}
	if s.Dialect.Acquire != dialect.AcquireSetnx {
		r.ttl = int64(s.Lease)
	}
	// The answers to a missing key and to a live value do not depend on
	// anything else, so they are asked once.
	now := time.Unix(0, simulationStart)
	r.nextNil, r.nextHeld = dialect.StepWait, dialect.StepWait
	if r.takeover {
		r.nextNil = s.Dialect.LegacyNext(dialect.Nil(), "", now)
		if r.SetnxAfterHeld {
			r.nextHeld = dialect.StepSetnxOnce
		}
	}
	if s.Dialect.CountsSleeps && s.Poll != s.Dialect.Poll {
		d := s.Dialect
		d.Poll = s.Poll
		r.attempts = d.CountedAttempts()
	}
	return r
}

// simValue is the key's value. Its writer is part of the bytes only in dialects
// with uuids or tokens.
type simValue struct {
	stamp  int64 // ns since 1970, cut to the unit; a serial number in token dialects
	writer int32
}

// stamp returns the number that a client writes when its clock shows now.
func (r *simRules) stamp(now int64) int64 {
	if r.unit > 1 {
		now -= now % r.unit
	}
	return now + r.ahead
}

func (r *simRules) same(a, b simValue) bool {
	return a.stamp == b.stamp && (r.stamps && !r.uuid || a.writer == b.writer ||
		r.Shape == dialect.ShapeConstant)
}

func (r *simRules) past(v simValue, now int64) bool { return now >= v.stamp+r.edge }

// next returns the step after a GET that found seen.
func (r *simRules) next(seen simValue, present bool, client int32, now int64) dialect.Step {
	switch {
	case !r.takeover:
		return dialect.StepWait
	case !present:
		return r.nextNil
	case r.OrMine && r.uuid && seen.writer == client, r.past(seen, now):
		return dialect.StepGetset
	}
	return r.nextHeld
}

// wins judges the reply old to a GETSET, where the GET before found seen.
func (r *simRules) wins(old, seen simValue, oldPresent, seenPresent bool, now int64) dialect.Outcome {
	won := false
	switch r.Wins {
	case dialect.WinsSameText:
		won = oldPresent && seenPresent && r.same(old, seen)
	case dialect.WinsEqualNumber:
		if !oldPresent && r.Unreadable == dialect.UnreadableThrows {
			return dialect.Threw
		}
		won = oldPresent && seenPresent && old.stamp == seen.stamp
	case dialect.WinsExpired:
		if !oldPresent {
			return dialect.Lost
		}
		won = r.past(old, now)
	case dialect.WinsExpiredOrNil:
		won = !oldPresent || r.past(old, now)
	}
	if won {
		return dialect.Won
	}
	return dialect.Lost
}

// releases returns what a release does when its GET, if it sends one, found
// seen.
func (r *simRules) releases(own, seen simValue, present bool, now int64) dialect.ReleaseStep {
	deletes := false
	switch r.Release {
	case dialect.ReleaseDel:
		deletes = true
	case dialect.ReleaseCompare:
		return dialect.ReleaseCompares
	case dialect.ReleaseValueOwn:
		deletes = present && r.same(own, seen)
	case dialect.ReleaseValueLive:
		if !present && r.Unreadable == dialect.UnreadableThrows {
			return dialect.ReleaseFails
		}
		deletes = present && !r.past(seen, now)
	case dialect.ReleaseValueAtLeastOwn:
		deletes = present && seen.stamp >= own.stamp
	case dialect.ReleaseOwnAhead:
		deletes = own.stamp > now-now%r.unit
	case dialect.ReleaseOwnNotPast:
		deletes = own.stamp >= now-now%r.unit
	}
	if deletes {
		return dialect.ReleaseDeletes
	}
	return dialect.ReleaseLeaves
}

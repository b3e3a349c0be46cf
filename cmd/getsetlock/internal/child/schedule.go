// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"time"
)

// Schedule says when a command that must end gets SIGTERM, and when it gets
// SIGKILL. Both are instants of the clock that keeps the lease. This package
// reads no clock for them.
type Schedule struct {
	Term, Kill time.Time
}

// Unrenewed returns the schedule of a lease that lasts until until, and that no
// renewal has prolonged so far. The command has grace to end by itself, and is
// gone when the lease ends.
func Unrenewed(until time.Time, grace time.Duration) Schedule {
	return Schedule{Term: until.Add(-grace), Kill: until}
}

// Overtaken returns the schedule after another client's value was seen on the
// key at now. The command must stop at once, but gets its grace: until the
// lease ends no getsetlock client can enter. An old client may work already,
// and cutting the command off in the middle of a write would not help. The
// command gets no grace beyond until.
func Overtaken(now, until time.Time, grace time.Duration) Schedule {
	kill := now.Add(grace)
	if until.Before(kill) {
		kill = until
	}
	return Schedule{Term: now, Kill: kill}
}

// Sooner returns the earlier instants of both schedules: a second verdict can
// hasten the first, never delay it.
func (s Schedule) Sooner(o Schedule) Schedule {
	if s == (Schedule{}) {
		return o
	}
	if o.Term.Before(s.Term) {
		s.Term = o.Term
	}
	if o.Kill.Before(s.Kill) {
		s.Kill = o.Kill
	}
	return s
}

// GreatestDefaultGrace bounds [DefaultGrace]. A command that takes longer to
// stop needs --grace.
const GreatestDefaultGrace = 10 * time.Second

// DefaultGrace returns the lesser of 10 s and a quarter of the lease.
func DefaultGrace(lease time.Duration) time.Duration {
	return min(GreatestDefaultGrace, lease/4)
}

// CheckGrace refuses a grace with which a healthy lease would end the command.
// SIGTERM is sent grace before the end, which is lease minus margin after the
// last renewal. The next renewal is due renewEvery after the last one.
// renewEvery is zero for a lease that is never renewed.
func CheckGrace(grace, lease, renewEvery, margin time.Duration) error {
	if grace < 0 {
		return fmt.Errorf("%v is negative", grace)
	}
	room := lease - margin - renewEvery
	if grace < room {
		return nil
	}
	if renewEvery == 0 {
		return fmt.Errorf("%v leaves the command no time: it must be less than the lease (%v) minus a safety margin (%v), that is %v",
			grace, lease, margin, room)
	}
	return fmt.Errorf("%v does not fit a lease of %v: the command would get SIGTERM before the first renewal (after %v, with a safety margin of %v); give at most %v",
		grace, lease, renewEvery, margin, max(0, room-time.Millisecond))
}

package child

import (
	"fmt"
	"time"
)

// Schedule says when a child that must end is asked to (SIGTERM) and when it is made to (SIGKILL).
// Both are instants of the clock that the lease is kept by; nothing here reads one.
type Schedule struct {
	Term, Kill time.Time
}

// Unrenewed is the schedule of a lease that is trusted until until and that no renewal has prolonged
// so far. The child has grace to end by itself and is gone when trust is.
func Unrenewed(until time.Time, grace time.Duration) Schedule {
	return Schedule{Term: until.Add(-grace), Kill: until}
}

// Overtaken is the schedule after another's value was seen on the key at now. The child must stop at
// once. It still gets its grace: until the end of trust nobody of ours can be let in, and whether a
// foreign client works already is not made better by a child cut off in mid-write. Beyond the end
// of trust it gets none.
func Overtaken(now, until time.Time, grace time.Duration) Schedule {
	kill := now.Add(grace)
	if until.Before(kill) {
		kill = until
	}
	return Schedule{Term: now, Kill: kill}
}

// Sooner takes the earlier instant of each: a verdict is hastened by a second one, never put off.
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

// GreatestDefaultGrace bounds [DefaultGrace]: what takes longer to stop than this should say so.
const GreatestDefaultGrace = 10 * time.Second

// DefaultGrace is the lesser of 10 s and a quarter of the lease.
func DefaultGrace(lease time.Duration) time.Duration {
	return min(GreatestDefaultGrace, lease/4)
}

// CheckGrace refuses a grace that would have the child ended by a lease in good health: SIGTERM goes
// out grace before the end of trust, which is lease less margin, and the renewal that moves that
// end is due renewEvery after the last one. renewEvery is zero for a lease that is never renewed.
func CheckGrace(grace, lease, renewEvery, margin time.Duration) error {
	if grace < 0 {
		return fmt.Errorf("%v is negative", grace)
	}
	room := lease - margin - renewEvery
	if grace < room {
		return nil
	}
	if renewEvery == 0 {
		return fmt.Errorf("%v leaves the command no time: it must be less than the lease (%v) less its trust margin (%v), that is %v",
			grace, lease, margin, room)
	}
	return fmt.Errorf("%v does not fit a lease of %v: the command would be told to end before the first renewal (after %v; trust margin %v); at most %v fits",
		grace, lease, renewEvery, margin, max(0, room-time.Millisecond))
}

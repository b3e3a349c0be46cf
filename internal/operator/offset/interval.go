// SPDX-License-Identifier: Apache-2.0

package offset

import (
	"math"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Interval is what is known of a clock's offset: client less server, positive
// where the client is ahead. Both ends are included. An unbounded end is NoLow
// or NoHigh.
type Interval struct {
	Low  time.Duration `json:"low_ms"`  // lower end; null: unknown
	High time.Duration `json:"high_ms"` // upper end; null: unknown
}

// The ends of an interval that is not bounded there. No clock that can be
// stamped is so far away.
const (
	NoLow  time.Duration = math.MinInt64
	NoHigh time.Duration = math.MaxInt64
)

// Bounded reports whether both ends are known.
func (i Interval) Bounded() bool { return i.Low != NoLow && i.High != NoHigh }

// Contains reports whether the offset may be d.
func (i Interval) Contains(d time.Duration) bool { return i.Low <= d && d <= i.High }

// Width returns High less Low; NoHigh where an end is missing.
func (i Interval) Width() time.Duration {
	if !i.Bounded() {
		return NoHigh
	}
	return i.High - i.Low
}

// Shift moves both ends.
func (i Interval) Shift(d time.Duration) Interval {
	if i.Low != NoLow {
		i.Low += d
	}
	if i.High != NoHigh {
		i.High += d
	}
	return i
}

// String returns "−3ms … +1.2ms", with "?" for a missing end.
func (i Interval) String() string {
	end := func(d time.Duration, missing bool) string {
		switch {
		case missing:
			return "?"
		case d < 0:
			return "−" + (-d).String()
		}
		return "+" + d.String()
	}
	return end(i.Low, i.Low == NoLow) + " … " + end(i.High, i.High == NoHigh)
}

// serverTick is the unit of TIME and MONITOR. The server cuts to it, so the
// true instant is up to one tick later than the server's date.
const serverTick = time.Microsecond

// Stamped is one write of a stamp, as the server saw it. All instants but
// Expiry are by the server's clock.
type Stamped struct {
	// Expiry is the time in the value, and Unit what one step of it is worth.
	// The writer cut its clock to Unit, towards the past.
	Expiry time.Time
	Unit   time.Duration
	// Lease and Slack are what the client adds to its clock, as whole units.
	Lease, Slack time.Duration
	// At is when the server executed the write, or any later instant at which
	// the value was seen.
	At time.Time
	// Prev is an instant before the client read its clock; zero if none is
	// known.
	Prev time.Time
}

// StampedBy fills in what the dialect knows: slack, unit, a lease cut as its
// clients cut it, and the rounding of stamps that are doubles. A zero lease
// means the dialect's own.
func StampedBy(d dialect.Dialect, lease time.Duration, value dialect.Stamp) Stamped {
	if lease == 0 {
		lease = d.Lease
	}
	s := Stamped{Expiry: value.Expiry, Unit: d.Unit.Step(), Lease: lease, Slack: d.Slack}
	if d.Unit == dialect.UnitFloatSeconds {
		// Doubles for today's date are 0.24 µs apart, and the stamp was rounded
		// either way.
		s.Expiry, s.Unit = s.Expiry.Add(-time.Microsecond), 2*time.Microsecond
		return s
	}
	if s.Unit > 0 {
		s.Lease = (lease+d.Slack)/s.Unit*s.Unit - d.Slack
	}
	return s
}

// reading returns the client's clock as the stamp shows it, cut to the unit.
func (s Stamped) reading() time.Time { return s.Expiry.Add(-s.Lease - s.Slack) }

// Offset returns what this one write proves: θ ≥ value − lease − slack − At,
// and θ < value − lease − slack + unit − Prev.
func (s Stamped) Offset() Interval {
	i := Interval{s.reading().Sub(s.At) - serverTick, NoHigh}
	if !s.Prev.IsZero() {
		i.High = s.reading().Add(s.Unit).Sub(s.Prev)
	}
	return i
}

package offset

import (
	"fmt"
	"math"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Interval is what is known of a clock's offset: client less server, positive
// where the client is ahead. Both ends are included. An unbounded end is NoLow
// or NoHigh.
type Interval struct {
	Low, High time.Duration
}

// The ends of an interval that is not bounded there. No clock that can be
// stamped is so far away.
const (
	NoLow  time.Duration = math.MinInt64
	NoHigh time.Duration = math.MaxInt64
)

// anything returns the interval of a clock of which nothing is known.
func anything() Interval { return Interval{NoLow, NoHigh} }

// Empty reports whether no offset fits: then an assumption behind the bounds is
// wrong.
func (i Interval) Empty() bool { return i.Low > i.High }

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

// intersect returns what both intervals allow; it may be empty.
func (i Interval) intersect(j Interval) Interval {
	return Interval{max(i.Low, j.Low), min(i.High, j.High)}
}

// hull returns the least interval around both.
func (i Interval) hull(j Interval) Interval {
	return Interval{min(i.Low, j.Low), max(i.High, j.High)}
}

// minus returns the interval of the difference of a value in i and one in j.
func (i Interval) minus(j Interval) Interval {
	out := anything()
	if i.Low != NoLow && j.High != NoHigh {
		out.Low = i.Low - j.High
	}
	if i.High != NoHigh && j.Low != NoLow {
		out.High = i.High - j.Low
	}
	return out
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
	Key string // distinguishes a lease that differs between keys from a clock that stepped
	// Expiry is the time in the value, and Unit what one step of it is worth.
	// The writer cut its clock to Unit, towards the past.
	Expiry time.Time
	Unit   time.Duration
	// Lease and Slack are what the client adds to its clock, as whole units.
	Lease, Slack time.Duration
	// At is when the server executed the write, or any later instant at which
	// the value was seen.
	At time.Time
	// Prev is when the server executed the previous command of the same
	// connection, or any earlier one; zero if that is unknown, as for values
	// found by polling. It has to lie before the client's clock reading. For a
	// GETSET that repeats the stamp of its SETNX it is the command before the
	// SETNX. HAZARD: Prev is wrong for a client that reads its clock and then
	// waits for a pooled connection, if another thread sends on that meanwhile.
	Prev time.Time
	// Slept is how long the client certainly slept between Prev and its clock
	// reading, by the server's clock. A sleep that may be cut short counts 0.
	Slept time.Duration
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

// bound is one end of an offset at one instant. A clock that only runs forward
// was at At not less than when it was read, and at Prev not more. So each end
// holds at an instant of its own, whatever time passed between. Pauses weaken
// it but do not make it wrong.
type bound struct {
	at     int64 // server's clock, in ns since 1970
	since  int64 // the earliest instant at which the clock may have been read, if it is known
	offset time.Duration
}

// reading returns the client's clock as the stamp shows it, cut to the unit.
func (s Stamped) reading() time.Time { return s.Expiry.Add(-s.Lease - s.Slack) }

func (s Stamped) low() bound {
	since := s.At
	if !s.Prev.IsZero() {
		since = s.Prev.Add(s.Slept)
	}
	return bound{s.At.UnixNano(), since.UnixNano(), s.reading().Sub(s.At) - serverTick}
}

func (s Stamped) high() (bound, bool) {
	if s.Prev.IsZero() {
		return bound{}, false
	}
	from := s.Prev.Add(s.Slept)
	return bound{from.UnixNano(), from.UnixNano(), s.reading().Add(s.Unit).Sub(from)}, true
}

// Offset returns what this one write proves: θ ≥ value − lease − slack − At,
// and θ < value − lease − slack + unit − Prev − Slept.
func (s Stamped) Offset() Interval {
	i := Interval{s.low().offset, NoHigh}
	if high, ok := s.high(); ok {
		i.High = high.offset
	}
	return i
}

// valid refuses a write that no writer and server could have produced together.
func (s Stamped) valid() error {
	year := func(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2200 }
	switch {
	case s.Unit <= 0:
		return impossible("Unit", s.Unit, "more than 0")
	case s.Lease <= 0 || s.Lease > dialect.LongestStamp:
		return impossible("Lease", s.Lease, fmt.Sprintf("more than 0 and at most %v", dialect.LongestStamp))
	case s.Slack < 0 || s.Slack > time.Hour:
		return impossible("Slack", s.Slack, "from 0 to 1h")
	case s.Slept < 0:
		return impossible("Slept", s.Slept, "at least 0")
	case !year(s.At):
		return impossible("At", s.At, "an instant from 1970 to 2199")
	case !year(s.Expiry):
		return impossible("Expiry", s.Expiry, "an instant from 1970 to 2199")
	case !s.Prev.IsZero() && !year(s.Prev):
		return impossible("Prev", s.Prev, "zero or an instant from 1970 to 2199")
	}
	return nil
}

// Judged is what a client's own decision about another client's stamp shows of
// its clock. Its own lease does not matter, so Judged can prove a lease wrong.
// It may be used only in dialects that decide by time alone, and not for a
// GETSET after nil or after the client's own uuid.
type Judged struct {
	Key       string
	Expiry    time.Time // time in the judged value
	Unit      time.Duration
	Inclusive bool // the dialect's Inclusive
	// Expired says that the client answered with a GETSET, executed at At: its
	// clock was past by then. Otherwise it left the value, and At is when its
	// GET was executed. That may be used only in dialects that read the clock
	// anew for the comparison (JudgesAnew).
	Expired bool
	At      time.Time
}

// bound returns a lower bound for a client that took over, and an upper bound
// for one that did not. A clock that is cut passes a strict comparison one unit
// later.
func (j Judged) bound() bound {
	edge := j.Expiry
	if !j.Inclusive {
		edge = edge.Add(j.Unit)
	}
	b := bound{j.At.UnixNano(), j.At.UnixNano(), edge.Sub(j.At)}
	if j.Expired {
		b.offset -= serverTick
	}
	return b
}

func (j Judged) valid() error {
	return Stamped{Expiry: j.Expiry, Unit: j.Unit, Lease: 1, At: j.At}.valid()
}

// impossible returns the *skew.ParameterError of a field whose value no writer
// and no server could have produced.
func impossible(field string, value any, bound string) error {
	return &skew.ParameterError{Field: field, Value: value, Bound: bound}
}

package offset

import (
	"math"
	"time"
)

// track is one clock to which all the bounds added to it can belong. Its memory
// is constant.
type track struct {
	low, high       bound // the best bound of each kind; the greatest rate carries it to any instant
	hasLow, hasHigh bool
	lower, upper    hull
	first, last     int64 // the first and last write, server's clock in ns
	after           int64 // what contradicted the track before happened after this, server's clock in ns
	count           int
	keys            keySet
}

// drift returns how far an offset may move in a span of server time, at rate
// parts per million, rounded outwards.
func drift(ppm float64, from, to int64) time.Duration {
	span := math.Abs(float64(to) - float64(from))
	return time.Duration(min(span*ppm/1e6+1, math.MaxInt64/4))
}

// at returns the offset at an instant, if the clock never ran faster or slower
// than the rate.
func (t *track) at(ppm float64, instant int64) Interval {
	i := anything()
	if t.hasLow {
		i.Low = t.low.offset - drift(ppm, t.low.at, instant)
	}
	if t.hasHigh {
		i.High = t.high.offset + drift(ppm, t.high.at, instant)
	}
	return i
}

// before is at from what was known by then. Weak writes after a step may have
// tightened the track that they fitted by chance.
func (t *track) before(ppm float64, known, instant int64) Interval {
	i := anything()
	for _, p := range t.lower.points {
		if p.at <= known {
			i.Low = max(i.Low, p.offset-drift(ppm, p.at, instant))
		}
	}
	for _, p := range t.upper.points {
		if p.at <= known {
			i.High = min(i.High, p.offset+drift(ppm, p.at, instant))
		}
	}
	return i
}

// fits reports whether the bounds can belong to this clock.
func (t *track) fits(ppm float64, low, high *bound) bool {
	if low != nil && t.hasHigh && low.offset > t.high.offset+drift(ppm, t.high.at, low.at) {
		return false
	}
	return high == nil || !t.hasLow || high.offset >= t.low.offset-drift(ppm, t.low.at, high.at)
}

// broken returns since when the bounds do not belong to this clock: a bound
// that they contradict was still true then. Later weak writes that fit both
// clocks do not date anything.
func (t *track) broken(ppm float64, low, high *bound) int64 {
	if !t.fits(ppm, low, nil) {
		return t.high.since
	}
	return t.low.since
}

// addLow keeps the bound if it is tighter at its own instant than the best so
// far. A bound that is not may still be tighter at an earlier instant.
// Forgetting it loosens the interval, but does not make it wrong.
func (t *track) addLow(ppm float64, b bound) {
	if !t.hasLow || b.offset >= t.low.offset-drift(ppm, t.low.at, b.at) {
		t.low, t.hasLow = b, true
	}
	t.lower.add(b, 1)
}

func (t *track) addHigh(ppm float64, b bound) {
	if !t.hasHigh || b.offset <= t.high.offset+drift(ppm, t.high.at, b.at) {
		t.high, t.hasHigh = b, true
	}
	t.upper.add(b, -1)
}

// keySet remembers a few keys, to see whether two tracks share one.
type keySet struct {
	keys []string
	more bool
}

const mostKeys = 16

func (s *keySet) add(key string) {
	for _, k := range s.keys {
		if k == key {
			return
		}
	}
	if len(s.keys) == mostKeys {
		s.more = true
		return
	}
	s.keys = append(s.keys, key)
}

func (s *keySet) disjoint(o *keySet) bool {
	if s.more || o.more {
		return false
	}
	for _, k := range s.keys {
		for _, l := range o.keys {
			if k == l {
				return false
			}
		}
	}
	return true
}

// hull is the upper hull of lower bounds (sign 1) or the lower hull of upper
// bounds (sign −1), in the order of time. Only its corners can bound a line.
type hull struct {
	points []bound
}

// mostCorners bounds the memory. Dropping a corner loosens the line, but does
// not make it wrong.
const mostCorners = 256

func (h *hull) add(b bound, sign float64) {
	if n := len(h.points); n > 0 && b.at < h.points[n-1].at {
		// Pooled connections report slightly out of order. This corner would
		// have to be inserted; the bound still counts in the track's own
		// interval.
		return
	}
	for n := len(h.points); n > 0; n = len(h.points) {
		last := h.points[n-1]
		if last.at == b.at {
			if sign*float64(b.offset-last.offset) <= 0 {
				return
			}
		} else if n == 1 || sign*cross(h.points[n-2], last, b) < 0 {
			break
		}
		h.points = h.points[:n-1]
	}
	if len(h.points) == mostCorners {
		half := h.points[:0]
		for i := 0; i < mostCorners; i += 2 {
			half = append(half, h.points[i])
		}
		h.points = half
	}
	h.points = append(h.points, b)
}

// cross is negative where the corner b of a, b, c bends downwards.
func cross(a, b, c bound) float64 {
	return float64(b.at-a.at)*float64(c.offset-a.offset) - float64(b.offset-a.offset)*float64(c.at-a.at)
}

// Line is a clock that runs at one rate: the offsets that it may have at one
// instant, and its rates.
type Line struct {
	At      time.Time
	Offset  Interval
	LowPPM  float64 // microseconds per second; positive where the client gains on the server
	HighPPM float64
}

// line fits all lines above the lower and below the upper bounds, with rates
// within ±ppm. It fails where no line fits, because the rate changed.
func (t *track) line(ppm float64, instant int64) (Line, bool) {
	if !t.hasLow || !t.hasHigh {
		return Line{}, false
	}
	// room returns how far the two hulls are apart for a slope. It is concave,
	// as a minimum of linear functions.
	room := func(slope float64) float64 {
		return t.upper.edge(slope, instant, -1) - t.lower.edge(slope, instant, 1)
	}
	limit := ppm / 1e6
	best := highest(room, -limit, limit)
	if room(best) < 0 {
		return Line{}, false
	}
	least, most := crossing(room, best, -limit), crossing(room, best, limit)
	low := func(slope float64) float64 { return -t.lower.edge(slope, instant, 1) }
	high := func(slope float64) float64 { return t.upper.edge(slope, instant, -1) }
	// The searches end within a fraction of a nanosecond of the edge, or of the
	// numbers' precision. A microsecond outwards covers both.
	return Line{
		At: time.Unix(0, instant).UTC(),
		Offset: Interval{
			time.Duration(-low(highest(low, least, most))) - time.Microsecond,
			time.Duration(high(highest(high, least, most))) + time.Microsecond,
		},
		LowPPM: least*1e6 - 1e-3, HighPPM: most*1e6 + 1e-3,
	}, true
}

// edge returns where a line of that slope, resting on the hull, meets the
// instant.
func (h *hull) edge(slope float64, instant int64, sign float64) float64 {
	out := math.Inf(-1)
	for _, p := range h.points {
		out = max(out, sign*(float64(p.offset)+slope*float64(instant-p.at)))
	}
	return sign * out
}

// highest returns where a concave function is greatest, by ternary search.
func highest(f func(float64) float64, low, high float64) float64 {
	for range 120 {
		third := (high - low) / 3
		if f(low+third) < f(high-third) {
			low += third
		} else {
			high -= third
		}
	}
	return (low + high) / 2
}

// crossing returns the last slope on the way from inside to end where f is not
// negative, or a hair beyond.
func crossing(f func(float64) float64, inside, end float64) float64 {
	if f(end) >= 0 {
		return end
	}
	for range 80 {
		middle := (inside + end) / 2
		if f(middle) >= 0 {
			inside = middle
		} else {
			end = middle
		}
	}
	return end
}

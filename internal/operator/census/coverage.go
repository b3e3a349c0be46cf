// SPDX-License-Identifier: Apache-2.0

package census

import (
	"math"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// coverage follows what one source saw and missed.
type coverage struct {
	from, until time.Time
	off         time.Time // end of the last hole
	stepped     time.Duration
	holes       []Hole
	events      int64
	missing     string
	note        string
	unproved    string
	since       time.Time // instant from which MONITOR showed every call that the server counted,
	sighted     time.Time // and up to which
}

func (s *coverage) see(at time.Time) {
	if s.from.IsZero() {
		s.from = at
	}
	s.until = latest(s.until, at)
	s.events++
}

// proves takes a time in which MONITOR showed every call that the server
// counted. Only times next to each other make one window.
func (s *coverage) proves(at time.Time, length time.Duration) {
	s.see(at)
	if from := at.Add(-length); !from.Equal(s.sighted) {
		s.since = from
	}
	s.sighted, s.unproved = at, ""
}

func (s *coverage) hole(h Hole) {
	if n := len(s.holes); n > 0 && s.holes[n-1].Reason == h.Reason && s.holes[n-1].Until.Equal(h.From) &&
		h.Reason != HoleStep {
		s.holes[n-1].Until, s.holes[n-1].Detail = h.Until, h.Detail
		return
	}
	s.holes = append(reading.Bounded(s.holes, mostHoles), h)
}

func (s *coverage) blind(o offset.Observed, reason HoleReason, detail string) {
	switch reason {
	case reading.Missing:
		s.missing = detail
		return
	case reading.Noted:
		s.note = detail
		return
	case reading.Unproved:
		s.unproved = detail
		return
	}
	if s.from.IsZero() {
		s.from = o.At
	}
	until := o.At.Add(o.For)
	if reason == HoleReset || reason == HoleCounts {
		s.off = latest(s.off, until) // a longer hole that was announced continues
	} else {
		s.off = until
	}
	if o.For == 0 {
		return
	}
	s.hole(Hole{From: o.At, Until: until, Reason: reason, Detail: detail})
}

// evidence returns the coverage. Holes that were announced in advance are cut
// at the last event.
func (s *coverage) evidence(name Source, until time.Time) Coverage {
	out := Coverage{
		Source: name, From: s.from, Until: s.until, Elapsed: max(0, s.until.Sub(s.from)-s.stepped),
		Events: s.events, Missing: s.missing, Note: s.note,
		Sighted: s.sighted, Unproved: s.unproved, since: s.since,
	}
	if s.off.After(s.until) {
		out.Until = until
		out.Elapsed = max(0, until.Sub(s.from)-s.stepped)
	}
	for _, h := range s.holes {
		if h.From.After(until) {
			continue
		}
		if h.Until.After(until) {
			h.Until = until
		}
		out.Holes = append(out.Holes, h)
	}
	return out
}

// histogram counts durations in classes whose bounds differ by a factor of
// 2^(1/8).
type histogram struct {
	count   int64
	longest time.Duration
	classes map[int]int64
}

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	if h.classes == nil {
		h.classes = map[int]int64{}
	}
	h.count++
	h.longest = max(h.longest, d)
	h.classes[classOf(d)]++
}

func classOf(d time.Duration) int {
	if d <= 0 {
		return -1
	}
	return int(math.Ceil(8 * math.Log2(float64(d))))
}

// at returns the upper bound of the class below which the share q of all
// durations lies.
func (h *histogram) at(q float64) time.Duration {
	least, most := math.MaxInt, math.MinInt
	for class := range h.classes {
		least, most = min(least, class), max(most, class)
	}
	left := int64(math.Ceil(q * float64(h.count)))
	for class := least; class <= most; class++ {
		if left -= h.classes[class]; left <= 0 {
			if class < 0 {
				return 0
			}
			return min(h.longest, time.Duration(math.Exp2(float64(class)/8)))
		}
	}
	return h.longest
}

func (h *histogram) summary() Durations {
	if h.count == 0 {
		return Durations{}
	}
	return Durations{Count: h.count, Longest: h.longest, P50: h.at(0.5), P99: h.at(0.99)}
}

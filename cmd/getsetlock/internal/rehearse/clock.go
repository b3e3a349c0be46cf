// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/drift"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// machine is what the programs of one slot of the fleet run on. Its clock is
// wrong in its own way, and at times all its programs pause. Times count from
// the fleet's beginning, in true time.
type machine struct {
	clocks simulate.Clocks
	began  time.Time

	mu    sync.Mutex
	clock *simulate.Clock
	legs  []drift.Leg // in order; the last one has no end yet

	drawStops *rand.Rand
	nextStop  []time.Duration // next pause of each kind
	stops     []stretch       // pauses drawn so far, in order
}

const never = drift.Never

// faults returns the clocks that the plan gives its machines.
func (p Plan) faults() simulate.Clocks {
	if p.Preset == "" {
		return simulate.Clocks{Low: -p.Spread / 2, High: p.Spread - p.Spread/2}
	}
	preset, _ := simulate.Lookup(p.Preset) // Validate has checked the name
	return preset.Clocks
}

// machines returns one machine for each slot of the fleet.
func (p Plan) machines(began time.Time) []*machine {
	clocks := p.faults()
	among := drift.Afflicted(clocks.Share, p.Clients)
	who := p.rand(streamClock, 0).Perm(p.Clients)
	all := make([]*machine, p.Clients)
	for slot := range all {
		all[slot] = newMachine(clocks, began, who[slot] < among, p.rand(streamClock, 2*slot+1),
			p.rand(streamClock, 2*slot+2))
	}
	return all
}

func newMachine(c simulate.Clocks, began time.Time, afflicted bool, draw, drawStops *rand.Rand) *machine {
	m := &machine{clocks: c, began: began, drawStops: drawStops}
	m.clock = simulate.NewClock(draw, &m.clocks, afflicted)
	m.legs = []drift.Leg{m.clock.First()}
	for _, p := range c.Pauses {
		m.nextStop = append(m.nextStop, drift.Until(drawStops, p.Every, false))
	}
	return m
}

// at returns the leg of a moment. It draws all events up to that moment in
// their order, so that the result does not depend on who asks when. Called with
// m.mu held.
func (m *machine) at(t time.Duration) drift.Leg {
	for m.clock.Next() <= t {
		m.legs = append(m.legs, m.clock.Leg(m.legs[len(m.legs)-1]))
	}
	for i := len(m.legs) - 1; ; i-- {
		if m.legs[i].From <= t || i == 0 {
			return m.legs[i]
		}
	}
}

// offsets returns the least and the greatest offset within a span.
func (m *machine) offsets(from, to time.Duration) (low, high time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(to)
	low, high = never, -never
	for i, l := range m.legs {
		end := to
		if i+1 < len(m.legs) {
			end = min(to, m.legs[i+1].From)
		}
		begin := max(from, l.From)
		if begin > end {
			continue
		}
		for _, o := range [2]time.Duration{l.OffsetAt(begin), l.OffsetAt(end)} {
			low, high = min(low, o), max(high, o)
		}
	}
	return low, high
}

// drawnStops returns all pauses that begin up to t. Called with m.mu held.
func (m *machine) drawnStops(t time.Duration) []stretch {
	for len(m.nextStop) > 0 {
		kind := 0
		for i := range m.nextStop {
			if m.nextStop[i] < m.nextStop[kind] {
				kind = i
			}
		}
		begin := m.nextStop[kind]
		if begin > t {
			break
		}
		// A machine that is paused cannot be paused again.
		if n := len(m.stops); n > 0 {
			begin = max(begin, m.stops[n-1].end)
		}
		end := begin + m.clocks.Pauses[kind].For
		m.stops = append(m.stops, stretch{begin, end})
		m.nextStop[kind] = end + drift.Until(m.drawStops, m.clocks.Pauses[kind].Every, false)
	}
	return m.stops
}

// awake returns when an event due at t happens: at the end of the pause that it
// falls into, or at t.
func (m *machine) awake(t time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	stops := m.drawnStops(t)
	for i := len(stops) - 1; i >= 0; i-- {
		if stops[i].start <= t {
			return max(t, stops[i].end)
		}
	}
	return t
}

// worked returns when work that begins at from ends: pauses are added to its
// length.
func (m *machine) worked(from, work time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := from + work
	for i := 0; i < len(m.drawnStops(end)); i++ {
		if s := m.stops[i]; s.end > from && s.start <= end {
			end += s.end - max(s.start, from)
		}
	}
	return end
}

// firstStop returns when, within a span, the first pause begins that lasts
// longer than that.
func (m *machine) firstStop(from, to, longer time.Duration) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.drawnStops(to) {
		if s.end > from && s.start < to && s.end-max(s.start, from) > longer {
			return max(s.start, from), true
		}
	}
	return 0, false
}

// troubles counts the steps and pauses until t.
func (m *machine) troubles(t time.Duration) (steps, stops int, longest time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(t)
	for _, s := range m.drawnStops(t) {
		if s.start <= t {
			stops++
			longest = max(longest, s.end-s.start)
		}
	}
	return m.clock.Steps(), stops, longest
}

// standStill returns when the machine runs, or done is closed.
func (m *machine) standStill(done <-chan struct{}) {
	now := time.Since(m.began)
	if end := m.awake(now); end > now {
		t := time.NewTimer(end - now)
		defer t.Stop()
		select {
		case <-t.C:
		case <-done:
		}
	}
}

// Now returns the time of the machine's wall clock.
func (m *machine) Now() time.Time {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := now.Sub(m.began)
	return now.Add(m.at(t).OffsetAt(t))
}

// farAhead bounds how far ahead pauses are drawn. Clients plan nothing later to
// the second.
const farAhead = time.Hour

// After is monotonic: it follows the clock's present rate, and no steps. A
// timer that falls due during a pause fires at the end of the pause.
func (m *machine) After(d time.Duration) <-chan time.Time {
	now := time.Since(m.began)
	if d > farAhead {
		return time.After(d)
	}
	m.mu.Lock()
	rate := m.at(now).Rate
	m.mu.Unlock()
	due := now + drift.Lasts(d, rate)
	if rate != 0 && d > 0 {
		due += 2 // never before Elapsed agrees: a client that wakes early would wait again, without end
	}
	return time.After(m.awake(due) - now)
}

// Elapsed returns the time since the beginning by the machine's monotonic
// clock.
func (m *machine) Elapsed() time.Duration {
	t := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(t).ElapsedAt(t)
}

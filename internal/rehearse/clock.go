package rehearse

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/skew"
)

// machine is what the programs in one place of the fleet run on: its clock is wrong in its own way,
// and now and then everything on it stands still. Spans count from the fleet's beginning, by true time.
type machine struct {
	clocks    skew.Clocks
	afflicted bool
	began     time.Time

	mu       sync.Mutex
	draw     *rand.Rand
	legs     []leg // in order; the last is the one that lasts
	nextStep time.Duration
	nextSlew time.Duration // its beginning, or its end while slewing
	slewing  bool
	own      float64 // rate without a slew
	steps    int

	drawStops *rand.Rand
	nextStop  []time.Duration // of each kind
	stops     []stretch       // in order, as far as they were asked for
}

// leg is a span in which a clock runs at one rate.
type leg struct {
	from    time.Duration
	offset  time.Duration // against true time, at its beginning
	elapsed time.Duration // what the monotonic clock says then
	rate    float64       // seconds gained a second
}

func (l leg) offsetAt(t time.Duration) time.Duration {
	return l.offset + time.Duration(l.rate*float64(t-l.from))
}

func (l leg) elapsedAt(t time.Duration) time.Duration {
	return l.elapsed + (t - l.from) + time.Duration(l.rate*float64(t-l.from))
}

const never = time.Duration(math.MaxInt64)

// faults are the clocks that the plan gives its machines.
func (p Plan) faults() skew.Clocks {
	if p.Preset == "" {
		return skew.Clocks{Low: -p.Spread / 2, High: p.Spread - p.Spread/2}
	}
	preset, _ := skew.Lookup(p.Preset) // Validate has looked
	return preset.Clocks
}

// machines are one for each place of the fleet.
func (p Plan) machines(began time.Time) []*machine {
	clocks := p.faults()
	share := clocks.Share
	if share == 0 {
		share = 1
	}
	among := max(1, int(math.Round(share*float64(p.Clients))))
	who := p.rand(streamClock, 0).Perm(p.Clients)
	all := make([]*machine, p.Clients)
	for slot := range all {
		m := &machine{
			clocks: clocks, afflicted: who[slot] < among, began: began,
			draw: p.rand(streamClock, 2*slot+1), drawStops: p.rand(streamClock, 2*slot+2),
		}
		m.set()
		all[slot] = m
	}
	return all
}

// set draws how the clock stands in the beginning, and when its troubles begin.
func (m *machine) set() {
	first := leg{}
	m.nextStep, m.nextSlew = never, never
	if m.afflicted {
		first.offset = m.drawOffset()
		if s := m.clocks.Step; s.Every > 0 {
			m.nextStep = until(m.draw, s.Every, s.Once)
		}
		if s := m.clocks.Slew; s.Every > 0 {
			m.nextSlew = until(m.draw, s.Every, s.Once)
		}
	}
	if m.clocks.PPM > 0 {
		m.own = (2*m.draw.Float64() - 1) * m.clocks.PPM / 1e6
		first.rate = m.own
		first.offset += time.Duration(m.own * float64(m.clocks.Age))
	}
	m.legs = []leg{first}
	for _, p := range m.clocks.Pauses {
		m.nextStop = append(m.nextStop, until(m.drawStops, p.Every, false))
	}
}

func (m *machine) drawOffset() time.Duration {
	c := m.clocks
	switch {
	case len(c.Choices) > 0:
		return c.Choices[m.draw.IntN(len(c.Choices))]
	case c.LogEven:
		low, high := math.Log(float64(c.Low)), math.Log(float64(c.High))
		size := time.Duration(math.Exp(low + m.draw.Float64()*(high-low)))
		if m.draw.IntN(2) == 0 {
			return -size
		}
		return size
	}
	return c.Low + time.Duration(m.draw.Int64N(int64(c.High-c.Low)+1))
}

// until is the time to the next trouble: memoryless, or the fixed one of a single trouble. It is never
// nothing, and ends within a century.
func until(r *rand.Rand, every time.Duration, once bool) time.Duration {
	if once {
		return every
	}
	return 1 + time.Duration(min(float64(every)*r.ExpFloat64(), float64(100*365*24*time.Hour)))
}

// at is the leg of a moment. Whatever comes up to then is drawn in the order in which it comes, so
// that nothing hangs on who asks when. Called with m.mu held.
func (m *machine) at(t time.Duration) leg {
	for next := min(m.nextStep, m.nextSlew); next <= t; next = min(m.nextStep, m.nextSlew) {
		last := m.legs[len(m.legs)-1]
		l := leg{from: next, offset: last.offsetAt(next), elapsed: last.elapsedAt(next), rate: last.rate}
		if next == m.nextStep {
			l.offset = m.stepFrom(l.offset)
			m.steps++
			m.nextStep = never
			if !m.clocks.Step.Once {
				m.nextStep = next + until(m.draw, m.clocks.Step.Every, false)
			}
		} else {
			l.rate = m.slew(next)
		}
		m.legs = append(m.legs, l)
	}
	for i := len(m.legs) - 1; ; i-- {
		if m.legs[i].from <= t || i == 0 {
			return m.legs[i]
		}
	}
}

func (m *machine) stepFrom(offset time.Duration) time.Duration {
	by := m.clocks.Step.By
	switch m.clocks.Step.Kind {
	case skew.StepBy:
		return offset + by
	case skew.StepInward:
		if offset > 0 {
			return offset - by
		}
		return offset + by
	case skew.StepRight:
		return 0
	}
	return m.drawOffset()
}

// slew begins or ends one, and returns the new rate.
func (m *machine) slew(now time.Duration) float64 {
	s := m.clocks.Slew
	if m.slewing {
		m.slewing, m.nextSlew = false, never
		if !s.Once {
			m.nextSlew = now + until(m.draw, s.Every-s.For, false)
		}
		return m.own
	}
	m.slewing, m.nextSlew = true, now+s.For
	if m.draw.IntN(2) == 0 {
		return m.own - s.PPM/1e6
	}
	return m.own + s.PPM/1e6
}

// offsets are the least and the greatest within a span.
func (m *machine) offsets(from, to time.Duration) (low, high time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(to)
	low, high = never, -never
	for i, l := range m.legs {
		end := to
		if i+1 < len(m.legs) {
			end = min(to, m.legs[i+1].from)
		}
		begin := max(from, l.from)
		if begin > end {
			continue
		}
		for _, o := range [2]time.Duration{l.offsetAt(begin), l.offsetAt(end)} {
			low, high = min(low, o), max(high, o)
		}
	}
	return low, high
}

// drawnStops are all stops that begin up to then. Called with m.mu held.
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
		// A machine that stands still cannot be stopped once more.
		if n := len(m.stops); n > 0 {
			begin = max(begin, m.stops[n-1].end)
		}
		end := begin + m.clocks.Pauses[kind].For
		m.stops = append(m.stops, stretch{begin, end})
		m.nextStop[kind] = end + until(m.drawStops, m.clocks.Pauses[kind].Every, false)
	}
	return m.stops
}

// awake is when what is due at t is done: at the end of the stop that it falls into, or at once.
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

// worked is when somebody is done who begins at from and works for so long: stops come on top.
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

// firstStop is when the first stop begins, within a span, that lasts for longer than so much.
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

// troubles counts what has happened until then.
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
	return m.steps, stops, longest
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

// Now is the wall clock.
func (m *machine) Now() time.Time {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := now.Sub(m.began)
	return now.Add(m.at(t).offsetAt(t))
}

// farAhead is how far ahead stops are asked for: nothing that clients plan for later is due to the
// second.
const farAhead = time.Hour

// After is monotonic: it follows the clock's rate as it is now, and no steps. What falls due while the
// machine stands still comes when it runs again.
func (m *machine) After(d time.Duration) <-chan time.Time {
	now := time.Since(m.began)
	if d > farAhead {
		return time.After(d)
	}
	m.mu.Lock()
	rate := m.at(now).rate
	m.mu.Unlock()
	due := now + time.Duration(math.Ceil(float64(d)/(1+rate)))
	if rate != 0 && d > 0 {
		due += 2 // never before Elapsed says so: who is woken early waits for nothing, without end
	}
	return time.After(m.awake(due) - now)
}

// Elapsed is monotonic too.
func (m *machine) Elapsed() time.Duration {
	t := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at(t).elapsedAt(t)
}

// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Fleet is old clients that contend for one key, and how long to watch them.
// The result is rates. The law and the explorer answer whether something can
// happen at all.
//
// Each client acquires, works, releases and rests, again and again, by the
// dialect's own commands and rules. It reads its own clock, which Clocks and
// Offsets make wrong; the server's clock is right but for Clocks.Server. If all
// Offsets lie on one side, the server is outside the fleet. A client whose
// acquire ends without the lock (wait over, error) rests and returns.
//
// HAZARD: rates are about the fleet as described. Two holders often come from a
// tail that the distribution lacks, such as the one job a month that takes an
// hour. No run will show that.
type Fleet struct {
	Dialect dialect.Dialect
	Clients int           // 1 to 10,000
	Lease   time.Duration // 0 means the dialect's own
	Job     Distribution  // from learning that the lock is held to sending the release
	Rest    Distribution  // from the release to the next acquire
	Latency Distribution  // one way between client and server, drawn for each message
	Poll    time.Duration // 0 means the dialect's own
	Clocks  Clocks
	// Offsets are added to those of Clocks for the first clients: exact fleets,
	// as the law has them.
	Offsets []time.Duration
	// SetEvery is how often clients' clocks are set back to what they showed at
	// the start. So a run of any length asks about clocks that drift and step
	// for no longer than that. Zero: never.
	SetEvery time.Duration

	// The run ends with whichever comes first; at least one is needed. Zero is
	// no limit.
	Acquisitions int64
	For          time.Duration // of simulated time, at most a century

	Seed uint64 // same seed, same result
}

// simulationStart is true time at the start of every run; old stamps need a
// plausible date.
const simulationStart = 1_770_000_000_000_000_000

// Simulator is a simulation under way, for callers that show progress. Its
// memory does not grow.
type Simulator struct {
	Fleet
	rules   simRules
	random  *rand.Rand
	clients []simClient
	queue   []int32 // heap of clients, ordered by their next event
	now     int64   // true time of the last event, in ns since 1970
	end     int64
	key     simKey
	serial  int64
	tally   tally
	server  simServer

	// tick is not 0 only while a test compares a run with the explorer, whose
	// time passes in ticks. Then a TTL ends with its last tick.
	tick int64
}

// New checks the parameters and puts all clients at their start. For an
// impossible fleet it fails with a *skew.ParameterError or the dialect's own
// error.
func New(s Fleet) (*Simulator, error) {
	s, err := s.filled()
	if err != nil {
		return nil, err
	}
	m := &Simulator{
		Fleet: s, rules: newSimRules(s), now: simulationStart,
		random: rand.New(rand.NewPCG(s.Seed, 0x6765747365746c6f)),
		end:    simulationStart + int64(s.For), clients: make([]simClient, s.Clients),
	}
	if s.For == 0 {
		m.end = never
	}
	m.key = simKey{owner: -1, expires: never}
	m.setServer()
	for i := range m.clients {
		c := &m.clients[i]
		c.name = int32(i)
		m.setClock(c)
		// No two clients start in lockstep: their starts are spread over one
		// poll and one rest.
		m.acquire(c, m.now+m.random.Int64N(max(1, int64(s.Poll)))+s.Rest.draw(m.random))
		m.queue = append(m.queue, int32(i))
	}
	m.order()
	return m, nil
}

// order makes the queue a heap.
func (m *Simulator) order() {
	for i := len(m.queue)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// Run simulates that many more events, and reports whether there are any left.
func (m *Simulator) Run(events int) bool {
	for range events {
		c := &m.clients[m.queue[0]]
		if c.next > m.end || m.Acquisitions > 0 && m.tally.acquisitions >= m.Acquisitions {
			return false
		}
		m.pass(c.next)
		m.act(c)
		m.sink(0)
	}
	return true
}

// Done returns the part of the run that is over, from 0 to 1.
func (m *Simulator) Done() float64 {
	done := 0.0
	if m.For > 0 {
		done = float64(m.now-simulationStart) / float64(m.For)
	}
	if m.Acquisitions > 0 {
		done = max(done, float64(m.tally.acquisitions)/float64(m.Acquisitions))
	}
	return min(done, 1)
}

// sink restores the heap after the client at i moved to a later event. Ties are
// ordered by number, so that a seed has one result.
func (m *Simulator) sink(i int) {
	q, c := m.queue, m.queue[i]
	next := m.clients[c].next
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		least := m.clients[q[child]].next
		if child+1 < len(q) {
			if other := m.clients[q[child+1]].next; other < least || other == least && q[child+1] < q[child] {
				child, least = child+1, other
			}
		}
		if next < least || next == least && c < q[child] {
			break
		}
		q[i], i = q[child], child
	}
	q[i] = c
}

// pass moves true time, and what is counted by time.
func (m *Simulator) pass(to int64) {
	if m.tally.holders == 0 && m.tally.waiting > 0 && m.key.present {
		end := m.trueEnd(m.key.expires)
		m.tally.blocked += min(to, end) - min(m.now, end)
	}
	m.passServer(to)
	m.now = to
	if m.server.time >= m.key.expires {
		m.expire()
	}
}

// filled fills in the dialect's own times and checks everything.
func (s Fleet) filled() (Fleet, error) {
	if err := s.Dialect.Validate(); err != nil {
		return s, err
	}
	if s.Lease == 0 {
		s.Lease = s.Dialect.Lease
	}
	if s.Poll == 0 {
		s.Poll = s.Dialect.Poll
	}
	for _, f := range []struct {
		name string
		d    Distribution
	}{{"Job", s.Job}, {"Rest", s.Rest}, {"Latency", s.Latency}} {
		if err := f.d.check(f.name); err != nil {
			return s, err
		}
	}
	return s, s.checkTimes()
}

// rule is a condition that a field's value must not meet.
type rule struct {
	broken bool
	field  string
	value  any
	bound  string // what the value has to be
}

// first returns the error of the first broken rule, or nil.
func first(rules ...rule) error {
	for _, r := range rules {
		if r.broken {
			return impossible(r.field, r.value, r.bound)
		}
	}
	return nil
}

// within reports low ≤ value ≤ high; false if value is not a number.
func within[T int | float64 | time.Duration](value, low, high T) bool {
	return value >= low && value <= high
}

func (s Fleet) checkTimes() error {
	for _, check := range []func() error{s.checkLease, s.checkPace, s.checkEnd} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, o := range s.Offsets {
		if o.Abs() > 3652*day {
			return impossible("Offsets", o, "within ten years")
		}
	}
	return nil
}

// checkLease checks that there are clients, and that their lease is possible.
func (s Fleet) checkLease() error {
	timed := s.Dialect.HasTakeover() || s.Dialect.ServerExpires()
	unit := s.Dialect.Unit.Step()
	return first(
		rule{!within(s.Clients, 1, 10_000), "Clients", s.Clients, "from 1 to 10000"},
		rule{!within(s.Lease, 0, dialect.LongestStamp), "Lease", s.Lease,
			fmt.Sprintf("from 0 to %v", dialect.LongestStamp)},
		rule{s.Lease == 0 && timed, "Lease", s.Lease,
			"more than 0: " + s.Dialect.Name + " has no lease of its own"},
		rule{unit > 0 && s.Lease%max(unit, 1) != 0 && !s.Dialect.CutLease, "Lease", s.Lease,
			fmt.Sprintf("a whole number of %v, the unit of %s", unit, s.Dialect.Name)},
	)
}

// checkPace checks that what the clients do takes time.
func (s Fleet) checkPace() error {
	never := func(d Distribution) bool { l := d.longest(); return l.Bounded && l.Bound == 0 }
	return first(
		rule{!within(s.Poll, 0, day), "Poll", s.Poll, "from 0 to 24h"},
		rule{s.Poll == 0 && never(s.Latency), "Latency", s.Latency,
			"more than 0, or Poll: otherwise a waiting client takes no time at all"},
		rule{never(s.Job) && never(s.Rest) && never(s.Latency), "Job", s.Job,
			"more than 0, or Rest, or Latency: otherwise an acquisition takes no time at all"},
		rule{len(s.Offsets) > s.Clients, "Offsets", len(s.Offsets),
			fmt.Sprintf("at most Clients, %d", s.Clients)},
	)
}

// checkEnd checks that the run ends.
func (s Fleet) checkEnd() error {
	const most = 100 * 366 * day
	return first(
		rule{s.Acquisitions < 0, "Acquisitions", s.Acquisitions, "at least 0"},
		rule{!within(s.SetEvery, 0, most), "SetEvery", s.SetEvery, fmt.Sprintf("from 0 to %v", most)},
		rule{!within(s.For, 0, most), "For", s.For, fmt.Sprintf("from 0 to %v", most)},
		rule{s.Acquisitions == 0 && s.For == 0, "For", s.For,
			"more than 0, or Acquisitions: otherwise the run has no end"},
		rule{s.For == 0 && s.Dialect.Release == dialect.ReleaseNever, "For", s.For,
			"more than 0: a key that no client frees may have no next acquisition"},
	)
}

// impossible returns the *skew.ParameterError of a field whose value cannot be
// simulated.
func impossible(field string, value any, bound string) error {
	return &skew.ParameterError{Field: field, Value: value, Bound: bound}
}

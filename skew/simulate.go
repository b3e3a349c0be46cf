package skew

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Simulation is a fleet of old clients that contend for one key, with ours beside them or alone, and how
// long to watch it. It gives rates; whether something can happen at all is the law's and the explorer's
// answer.
//
// Each client acquires, works, releases and rests, over and over, in the dialect's own commands and
// rules. It reads its own clock, which Clocks and Offsets put wrong; the server's is true but for
// Clocks.Server. Offsets that all lie on one side put the server outside the fleet. A client that
// its dialect sends away (wait over, error) rests and comes back.
//
// HAZARD: rates are about the fleet as described. A tail that a distribution does not have (the one
// job a month that takes an hour) is what two holders are made of, and no run will show it.
type Simulation struct {
	Dialect dialect.Dialect
	Clients int           // old ones, 1 to 10,000; 0 where there are Ours
	Lease   time.Duration // 0 takes the dialect's own
	Job     Distribution  // from knowing that the lock is held to sending the release
	Rest    Distribution  // from the release to the next acquire
	Latency Distribution  // one way between client and server, drawn for each message
	Poll    time.Duration // 0 takes the dialect's own
	Clocks  Clocks
	// Offsets are put on top of Clocks' for the first clients: exact fleets, as the law has them.
	Offsets []time.Duration
	// CrashShare is the share of holds that end in a crash of the holder, anywhere within its job. It
	// comes back after Restart.
	CrashShare float64
	Restart    Distribution
	Ours       SimulatedOurs // has the same jobs, rests and messages

	// The run ends with whichever comes first; at least one is needed. Zero does not end it.
	Acquisitions int64
	For          time.Duration // of simulated time, at most a century

	Seed uint64 // same seed, same result
}

// simulationStart is true time at the start of every run; old stamps need a plausible date.
const simulationStart = 1_770_000_000_000_000_000

// Simulate runs a simulation to its end. It fails with a *ParameterError, or dialect's own error for
// an impossible one.
func Simulate(s Simulation) (Rates, error) {
	m, err := NewSimulator(s)
	if err != nil {
		return Rates{}, err
	}
	for m.Run(1 << 20) {
	}
	return m.Rates(), nil
}

// Simulator is a simulation under way, for callers that show progress. Its memory does not grow.
type Simulator struct {
	Simulation
	rules   simRules
	random  *rand.Rand
	clients []simClient
	queue   []int32 // a heap of clients by their next event
	now     int64   // true time of the last event, in ns since 1970
	end     int64
	key     simKey
	serial  int64
	tally   tally

	// Of ours: nil, and M without an owner, where there are none.
	members   []simMember
	token     simToken
	ourAhead  int64
	ourBeyond int64
	ourGap    int64
	server    simServer
	looks     simLook
	ourTally  OurRates
	ourWaits  *histogram
	disturbed bool // the event has moved other clients' next ones
}

// NewSimulator checks the parameters and puts all clients at their start.
func NewSimulator(s Simulation) (*Simulator, error) {
	s, err := s.filled()
	if err != nil {
		return nil, err
	}
	m := &Simulator{
		Simulation: s, rules: newSimRules(s), now: simulationStart,
		random: rand.New(rand.NewPCG(s.Seed, 0x6765747365746c6f)),
		end:    simulationStart + int64(s.For), clients: make([]simClient, s.Clients+s.Ours.Clients),
		token: simToken{-1, never},
	}
	if s.For == 0 {
		m.end = never
	}
	m.key = simKey{owner: -1, expires: never}
	m.setServer()
	if s.Ours.Clients > 0 {
		m.members, m.ourWaits = make([]simMember, s.Ours.Clients), new(histogram)
		m.stamping()
		if p := m.ourPhase(); p >= sealed && p < clean {
			m.key.value, m.key.present = simValue{tombStamp, -1}, true
		}
	}
	for i := range m.clients {
		c := &m.clients[i]
		c.name = int32(i)
		m.setClock(c)
		// Nobody starts in lockstep: spread over one poll and one rest.
		m.acquire(c, m.now+m.random.Int64N(max(1, int64(s.Poll)))+s.Rest.draw(m.random))
		m.queue = append(m.queue, int32(i))
	}
	m.order()
	return m, nil
}

// order makes a heap of the queue, whatever it is.
func (m *Simulator) order() {
	for i := len(m.queue)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
}

// Run simulates so many events more, and reports whether there are any left.
func (m *Simulator) Run(events int) bool {
	for range events {
		c := &m.clients[m.queue[0]]
		if c.next > m.end || m.Acquisitions > 0 && m.tally.acquisitions >= m.Acquisitions {
			return false
		}
		m.pass(c.next)
		m.act(c)
		if m.disturbed {
			m.disturbed = false
			m.order()
			continue
		}
		m.sink(0)
	}
	return true
}

// Done is the part of the run that is over, from 0 to 1.
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

// sink restores the heap after the client at i moved to a later event. Ties go by number, so that a
// seed has one result.
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

// pass moves true time on, and with it what is counted by time.
func (m *Simulator) pass(to int64) {
	if m.tally.holders == 0 && m.tally.waiting > 0 {
		switch {
		case m.members != nil && m.token.owner >= 0:
			end := m.trueEnd(m.token.expires)
			m.tally.blocked += min(to, end) - min(m.now, end)
		case m.key.present && m.key.value.stamp != tombStamp:
			end := m.trueEnd(m.key.expires)
			m.tally.blocked += min(to, end) - min(m.now, end)
		}
	}
	m.passServer(to)
	m.now = to
	if m.server.time >= m.key.expires {
		m.expire()
	}
}

// filled puts in the dialect's own times and checks everything.
func (s Simulation) filled() (Simulation, error) {
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
	}{{"Job", s.Job}, {"Rest", s.Rest}, {"Latency", s.Latency}, {"Restart", s.Restart}} {
		if err := f.d.check(f.name); err != nil {
			return s, err
		}
	}
	if err := s.checkTimes(); err != nil {
		return s, err
	}
	var err error
	if s.Ours, err = s.filledOurs(); err != nil {
		return s, err
	}
	return s, s.Clocks.check()
}

func (s Simulation) checkTimes() error {
	const most = 100 * 366 * day
	timed := s.Dialect.HasTakeover() || s.Dialect.ServerExpires()
	never := func(d Distribution) bool { l := d.Longest(); return l.Bounded && l.Bound == 0 }
	switch unit := s.Dialect.Unit.Step(); {
	case s.Clients < 1 && s.Ours.Clients < 1 || s.Clients < 0 || s.Clients > 10_000:
		return &ParameterError{"Clients", s.Clients, "from 1 to 10000"}
	case s.Lease < 0 || s.Lease > dialect.LongestStamp:
		return &ParameterError{"Lease", s.Lease, fmt.Sprintf("from 0 to %v", dialect.LongestStamp)}
	case s.Lease == 0 && timed:
		return &ParameterError{"Lease", s.Lease, "more than 0: " + s.Dialect.Name + " has no lease of its own"}
	case unit > 0 && s.Lease%unit != 0 && !s.Dialect.CutLease:
		return &ParameterError{"Lease", s.Lease, fmt.Sprintf("a whole number of %v, the unit of %s", unit, s.Dialect.Name)}
	case s.Poll < 0 || s.Poll > day:
		return &ParameterError{"Poll", s.Poll, "from 0 to 24h"}
	case s.Poll == 0 && never(s.Latency):
		return &ParameterError{"Latency", s.Latency, "more than 0, or Poll: else a waiting client takes no time at all"}
	case never(s.Job) && never(s.Rest) && never(s.Latency):
		return &ParameterError{"Job", s.Job, "more than 0, or Rest, or Latency: else an acquisition takes no time at all"}
	case len(s.Offsets) > s.Clients:
		return &ParameterError{"Offsets", len(s.Offsets), fmt.Sprintf("at most Clients, %d: ours have no use for one", s.Clients)}
	case !(s.CrashShare >= 0 && s.CrashShare <= 1):
		return &ParameterError{"CrashShare", s.CrashShare, "from 0 to 1"}
	case s.Acquisitions < 0:
		return &ParameterError{"Acquisitions", s.Acquisitions, "at least 0"}
	case s.For < 0 || s.For > most:
		return &ParameterError{"For", s.For, fmt.Sprintf("from 0 to %v", most)}
	case s.Acquisitions == 0 && s.For == 0:
		return &ParameterError{"For", s.For, "more than 0, or Acquisitions: else the run has no end"}
	case s.Acquisitions > 0 && s.For == 0 && (s.CrashShare > 0 || s.Dialect.Release == dialect.ReleaseNever):
		return &ParameterError{"For", s.For, "more than 0: a key that nobody frees may have no next acquisition"}
	}
	for _, o := range s.Offsets {
		if o.Abs() > 3652*day {
			return &ParameterError{"Offsets", o, "within ten years"}
		}
	}
	return nil
}

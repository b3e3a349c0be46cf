package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Quorum is clients that contend for one key on several members, and how long
// to watch them. The result is how often two of them hold at once. What can
// happen at all is the question of package skew/votes.
//
// Each client asks, works, releases and rests, again and again. It holds with
// the votes of a majority, and trusts its lease for TTL less Margin from before
// it sent. It renews first and takes missing votes afterwards. A client that
// gets no majority deletes what it got, and asks again about Retry later. A
// vote that was taken again counts from the next renewal on; package quorum
// counts it from the one after that on.
//
// Clients measure their leases without an error: Margin is there for that. The
// members' clocks are wrong by Clocks, and free keys by what they show.
//
// HAZARD: as with Fleet, rates are about the members as described. Troubles
// strike each member by itself. One cause that strikes several at once is not
// simulated, such as a rack, an image or an operator. It is what breaks real
// quorums.
type Quorum struct {
	Members int // 1 to 31
	// Votes is how many members a client asks, drawn anew for each lease; 0
	// means all. Clients that stop at a majority ask no more.
	Votes   int
	Clients int           // 2 to 10,000
	TTL     time.Duration // at least 1 ms
	Margin  time.Duration // 0 means a tenth of TTL
	Renew   time.Duration // 0 means a third of TTL
	Job     Distribution  // from learning that the lock is held to sending the release
	Rest    Distribution  // from the release to the next attempt
	Latency Distribution  // one way between client and member, drawn for each message
	Retry   time.Duration // mean pause after an attempt that failed; 0 means 100 ms

	// Lost and Restarted are the mean times between two losses of a member's
	// data, and between two of its restarts without data. Zero means none.
	Lost, Restarted time.Duration
	Wait            bool   // a member does not vote until TTL after its restart
	Clocks          Clocks // the members': rates, steps, slews and pauses

	// The run ends with whichever comes first; at least one is needed. Zero is
	// no limit.
	Acquisitions int64
	For          time.Duration // of simulated time, at most a century

	Seed uint64 // same seed, same result
}

// QuorumRates is the result of a simulation of a quorum. Spans are of simulated
// time.
type QuorumRates struct {
	Span         time.Duration
	Acquisitions int64
	Refused      int64 // attempts that got no majority
	Messages     int64 // executed by a member
	EarlyEnds    int64 // votes that ended early while their client held
	Lost         int64 // leases that ended before their job

	// An episode is a maximal span in which two or more clients hold, each by
	// its own trust.
	Episodes       int64
	Entries        int64 // acquisitions while another client held
	EpisodeTime    time.Duration
	LongestEpisode time.Duration
}

// quorumSim is a simulation under way.
type quorumSim struct {
	Quorum
	sim      Simulator // its clocks are the members'
	random   *rand.Rand
	members  []quorumMember
	clients  []quorumClient
	heap     []quorumEvent
	now, end int64
	majority int
	holders  int
	since    int64 // beginning of the episode
	rates    QuorumRates
	// entered, if not nil, hears of each holder while another client becomes
	// one too. Tests compare that with the law.
	entered func(holder *quorumClient)
}

// quorumMember is one server.
type quorumMember struct {
	simClient       // its clock and pauses
	owner     int32 // client; −1 if the key is free
	serial    int32 // the lease of the owner
	until     int64 // what its clock shows when the key expires
	votes     int64 // true time from which it votes again
}

// quorumClient is one client. Sets of members are masks.
type quorumClient struct {
	serial  int32 // of its attempts; messages of earlier ones come to nothing
	round   int32
	holding bool
	asked   uint32 // members that it asked
	granted uint32 // members that granted in this round, at their execution
	replied uint32 // members whose reply to this round it read
	yes     uint32 // those of them that granted
	votes   uint32 // members that confirmed the last round that succeeded
	ended   uint32 // those of them whose vote ended early since
	lapsed  uint32 // members that granted in this round, and whose vote has ended early
	sent    int64  // beginning of this round
	trust   int64  // true time at which its trust ends
	done    int64  // true time at which its job ends
}

// quorumEvent is something that happens.
type quorumEvent struct {
	at     int64
	client int32
	serial int32
	round  int32
	member int8
	kind   quorumKind
	taking bool // the message takes a missing vote
	ok     bool // the reply says yes
}

type quorumKind uint8

const (
	quorumAsk     quorumKind = iota // a client begins an attempt
	quorumExec                      // a member executes SET or a renewal
	quorumReply                     // the client reads the reply
	quorumDel                       // a member executes the release
	quorumRenew                     // a client begins a renewal
	quorumTrust                     // a client's trust may have ended
	quorumDone                      // a client's job ends
	quorumClock                     // a member's clock changes
	quorumLose                      // a member loses its data
	quorumRestart                   // a member restarts without its data
)

// Run simulates a quorum to the end of its run, or until tell returns false.
// Tell hears now and then how much of it is over, from 0 to 1; it may be nil.
// For an impossible quorum Run fails with a *skew.ParameterError.
func (q Quorum) Run(tell func(done float64) bool) (QuorumRates, error) {
	m, err := newQuorum(q)
	if err != nil {
		return QuorumRates{}, err
	}
	for m.run(1 << 16) {
		if tell != nil && !tell(m.over()) {
			break
		}
	}
	return m.finish(), nil
}

func newQuorum(q Quorum) (*quorumSim, error) {
	q, err := q.filled()
	if err != nil {
		return nil, err
	}
	m := &quorumSim{
		Quorum: q, majority: q.Members/2 + 1, now: simulationStart, end: never,
		random:  rand.New(rand.NewPCG(q.Seed, 0x71756f72756d)),
		clients: make([]quorumClient, q.Clients), members: make([]quorumMember, q.Members),
	}
	if q.For > 0 {
		m.end = m.now + int64(q.For)
	}
	m.sim = Simulator{Fleet: Fleet{Clocks: q.Clocks, Clients: q.Members}, random: m.random, now: m.now}
	for i := range m.members {
		s := &m.members[i]
		s.owner, s.name = -1, int32(i)
		m.sim.setClock(&s.simClient)
		m.push(quorumEvent{at: s.clock.change, kind: quorumClock, member: int8(i)})
		m.trouble(quorumLose, int8(i), q.Lost)
		m.trouble(quorumRestart, int8(i), q.Restarted)
	}
	for i := range m.clients {
		m.push(quorumEvent{at: m.now + m.random.Int64N(int64(q.Retry)) + q.Rest.draw(m.random),
			kind: quorumAsk, client: int32(i)})
	}
	return m, nil
}

// trouble draws the next trouble of a member.
func (m *quorumSim) trouble(k quorumKind, member int8, every time.Duration) {
	if every > 0 {
		m.push(quorumEvent{at: m.now + m.sim.until(every, false), kind: k, member: member})
	}
}

// run simulates that many more events, and reports whether there are any left.
func (m *quorumSim) run(events int) bool {
	for range events {
		e := m.heap[0]
		if e.at > m.end || m.Acquisitions > 0 && m.rates.Acquisitions >= m.Acquisitions {
			return false
		}
		m.pop()
		m.now = e.at
		m.act(e)
	}
	return true
}

func (m *quorumSim) over() float64 {
	done := 0.0
	if m.For > 0 {
		done = float64(m.now-simulationStart) / float64(m.For)
	}
	if m.Acquisitions > 0 {
		done = max(done, float64(m.rates.Acquisitions)/float64(m.Acquisitions))
	}
	return min(done, 1)
}

func (m *quorumSim) finish() QuorumRates {
	if m.heap[0].at > m.end {
		m.now = m.end
	}
	m.rates.Span = time.Duration(m.now - simulationStart)
	if m.holders > 1 {
		m.episode()
	}
	return m.rates
}

// filled fills in what was left out, and checks everything.
func (q Quorum) filled() (Quorum, error) {
	if q.Votes == 0 {
		q.Votes = q.Members
	}
	if q.Margin == 0 {
		q.Margin = q.TTL / 10
	}
	if q.Renew == 0 {
		q.Renew = q.TTL / 3
	}
	if q.Retry == 0 {
		q.Retry = 100 * time.Millisecond
	}
	for _, f := range []struct {
		name string
		d    Distribution
	}{{"Job", q.Job}, {"Rest", q.Rest}, {"Latency", q.Latency}} {
		if err := f.d.check(f.name); err != nil {
			return q, err
		}
	}
	if err := q.checkCounts(); err != nil {
		return q, err
	}
	return q, q.Clocks.check()
}

func (q Quorum) checkCounts() error {
	const longest, century = dialect.LongestStamp, 100 * 366 * day
	return first(
		rule{!within(q.Members, 1, 31), "Members", q.Members, "from 1 to 31"},
		rule{!within(q.Votes, q.Members/2+1, q.Members), "Votes", q.Votes,
			fmt.Sprintf("from %d, the majority, to %d, all members", q.Members/2+1, q.Members)},
		rule{!within(q.Clients, 2, 10_000), "Clients", q.Clients, "from 2 to 10000"},
		rule{!within(q.TTL, time.Millisecond, longest), "TTL", q.TTL, fmt.Sprintf("from 1ms to %v", longest)},
		rule{!within(q.Margin, 0, q.TTL-1), "Margin", q.Margin, "at least 0 and less than TTL"},
		rule{!within(q.Renew, 1, longest), "Renew", q.Renew, "at least 0"},
		rule{!within(q.Retry, time.Microsecond, day), "Retry", q.Retry, "from 1µs to 24h"},
		rule{!within(q.Lost, 0, century), "Lost", q.Lost, fmt.Sprintf("from 0 to %v", century)},
		rule{!within(q.Restarted, 0, century), "Restarted", q.Restarted,
			fmt.Sprintf("from 0 to %v", century)},
		rule{q.Acquisitions < 0, "Acquisitions", q.Acquisitions, "at least 0"},
		rule{!within(q.For, 0, century), "For", q.For, fmt.Sprintf("from 0 to %v", century)},
		rule{q.Acquisitions == 0 && q.For == 0, "For", q.For,
			"more than 0, or Acquisitions: otherwise the run has no end"},
	)
}

// push and pop keep the earliest event first; of two at one instant, the one
// that compares less, so that a seed has one result.
func (m *quorumSim) push(e quorumEvent) {
	if e.at >= never {
		return
	}
	m.heap = append(m.heap, e)
	h, i := m.heap, len(m.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].at <= e.at {
			break
		}
		h[i], i = h[up], up
	}
	h[i] = e
}

func (m *quorumSim) pop() {
	last := len(m.heap) - 1
	e := m.heap[last]
	m.heap = m.heap[:last]
	h, i := m.heap, 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h[child+1].at < h[child].at {
			child++
		}
		if e.at <= h[child].at {
			break
		}
		h[i], i = h[child], child
	}
	if last > 0 {
		h[i] = e
	}
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// A crowd is a fleet of 1,000 members. Some are Members. The others are fields
// of the roster, which the test writes as their heartbeats would: so a minute
// of the whole crowd costs some milliseconds.

const (
	crowdSize   = 1000
	crowdLive   = 24 // Members among them
	crowdPeriod = 20 * time.Second
	crowdTTL    = 20 * time.Second
	crowdCycles = 5 // of which each ends in peace, or no gate would ever open
	crowdCycle  = 210
)

// soul is one of the crowd, by what the server would have of it.
type soul struct {
	m     *migrate.Member // nil: the test writes its field
	wire  *redistest.Wire
	clock *redistest.Clock

	said   migrate.MemberState // the field, where the test writes it
	next   time.Time           // when it is written again
	dead   bool
	paused time.Time // until then it does nothing
	cut    time.Time // until then the server does not hear it
	jobs   []job
}

// job is work under a lease that its process renews for as long as it may.
type job struct {
	phase migrate.Phase
	end   func()    // of the Member's account
	until time.Time // the server's end of the lease
	done  time.Time // when the work is over
}

// crowd is the fleet, the souls of it, and what has happened to it.
type crowd struct {
	*fleet
	r     *rand.Rand
	souls []*soul

	moves  int
	closed int // rounds without a step while a lease of another phase ran
}

// TestThousandMembersFindNoGateOpenBesideALease: they are killed, paused for
// longer than three periods and resumed, and cut off. Two operators run verbs
// at the same time. In the end every gate opens, on the way there and back.
func TestThousandMembersFindNoGateOpenBesideALease(t *testing.T) {
	inBubble(t, func(f *fleet) {
		c := &crowd{fleet: f, r: rand.New(rand.NewPCG(1, 15))}
		c.gather()
		for second := range crowdCycles * crowdCycle {
			switch n := second % crowdCycle; {
			case n == 0:
				c.losesHolders()
			case n > 45 && n < 60:
				c.suffers()
			}
			c.passes()
			if second%5 == 0 {
				c.operators([]verb{doAdvance, doBack}[second/crowdCycle%2])
			}
		}
		if c.moves < 4 || c.closed < 4 {
			t.Errorf(
				"%d steps, and %d rounds without one beside a lease of another phase: this run shows nothing", c.moves, c.closed)
		}
		c.everyGateOpens()
	})
}

// gather lets all of them join.
func (c *crowd) gather() {
	c.t.Helper()
	c.init(Options{})
	for i := range crowdSize {
		s := &soul{}
		if i < crowdLive {
			s.wire, s.clock = c.w.Wire(), c.w.Clock(redistest.Skew{})
			m, err := migrate.Join(bg, s.wire.Pool(),
				migrate.MemberConfig{Every: crowdPeriod, Clock: s.clock})
			if err != nil {
				c.t.Fatal(err)
			}
			m.Attach(func(context.Context, string) error { return nil })
			c.t.Cleanup(func() { _ = m.Leave() })
			s.m = m
		} else {
			s.said = migrate.MemberState{
				ID: fmt.Sprintf("paper%04d", i), Dialect: "Jedis", Every: crowdPeriod,
				Renews: record.RenewalsFor(crowdPeriod), TTL: crowdTTL,
				Probe: record.ProbeOK, Leases: map[migrate.Phase]int{},
			}
			s.next = c.w.ServerNow().Add(time.Duration(c.r.Int64N(int64(crowdPeriod))))
			c.beat(s)
		}
		c.souls = append(c.souls, s)
	}
}

// beat is a heartbeat of a member that the test writes. A Member writes its
// field first, reads the record, acts by it, and says so at once.
func (c *crowd) beat(s *soul) {
	now, r := c.w.ServerNow(), c.now()
	s.said.Seen, s.said.Phase, s.said.Epoch = now, r.Phase, r.Epoch
	clear(s.said.Leases)
	for _, j := range s.jobs {
		s.said.Leases[j.phase]++
	}
	c.w.Mini.HSet(record.RosterKey(""), s.said.ID, s.said.String())
}

// losesHolders lets some members take a lease and cuts them off at once. They
// may miss a step, and renew for as long as they may.
func (c *crowd) losesHolders() {
	for range 8 {
		s := c.any()
		c.works(s)
		for i := range s.jobs {
			s.jobs[i].done = c.w.ServerNow().Add(time.Hour)
		}
		c.cutOff(s, 110*time.Second)
	}
}

func (c *crowd) cutOff(s *soul, d time.Duration) {
	now := c.w.ServerNow()
	if s.dead || !s.free(now) {
		return
	}
	s.cut = now.Add(d)
	if s.wire != nil {
		s.wire.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
		s.wire.Cut()
	}
}

// suffers does something to some of them.
func (c *crowd) suffers() {
	now := c.w.ServerNow()
	if c.r.IntN(10) == 0 {
		c.any().kill()
	}
	if c.r.IntN(3) == 0 {
		if s := c.any(); !s.dead && s.free(now) {
			s.paused = now.Add(record.BeatsMissed*crowdPeriod + time.Duration(1+c.r.IntN(60))*time.Second)
			if s.clock != nil {
				s.clock.Suspend()
			}
		}
	}
	if c.r.IntN(3) == 0 {
		c.cutOff(c.any(), time.Duration(1+c.r.IntN(120))*time.Second)
	}
}

// any is one of them. Members are as likely as all others together.
func (c *crowd) any() *soul {
	if c.r.IntN(2) == 0 {
		return c.souls[c.r.IntN(crowdLive)]
	}
	return c.souls[c.r.IntN(len(c.souls))]
}

func (s *soul) free(now time.Time) bool { return !now.Before(s.paused) && !now.Before(s.cut) }

// kill ends a process. Its leases run until the server ends them.
func (s *soul) kill() {
	s.dead = true
	if s.m != nil {
		_ = s.m.Leave()
	}
}

// passes lets a second go by, for every member and for every lease.
func (c *crowd) passes() {
	c.t.Helper()
	c.live()
	for range 3 {
		c.works(c.any())
	}
}

func (c *crowd) live() {
	c.t.Helper()
	c.w.Pass(time.Second)
	now := c.w.ServerNow()
	for _, s := range c.souls {
		c.lives(s, now)
	}
}

// lives is what a process does each second: it comes back, beats, renews what
// it may, and ends what is done or lost.
func (c *crowd) lives(s *soul, now time.Time) {
	if s.m != nil && !s.dead {
		if !s.paused.IsZero() && !now.Before(s.paused) {
			s.paused = time.Time{}
			s.clock.Resume()
		}
		if !s.cut.IsZero() && !now.Before(s.cut) {
			s.cut = time.Time{}
			s.wire.Calm()
		}
	}
	runs := !s.dead && !now.Before(s.paused)
	if s.m == nil && runs && !now.Before(s.cut) && !now.Before(s.next) {
		s.next = now.Add(crowdPeriod)
		c.beat(s)
	}
	kept := s.jobs[:0]
	for _, j := range s.jobs {
		lost := !now.Before(j.until)
		switch state := s.state(); {
		case !runs && lost:
		case !runs:
			kept = append(kept, j)
			continue
		case !lost && now.Before(j.done):
			if now.Sub(state.Seen) <= state.Renews {
				j.until = now.Add(crowdTTL) // the lease's key may be on another server, which still answers
			}
			kept = append(kept, j)
			continue
		}
		if !s.dead {
			j.end()
		}
	}
	s.jobs = kept
}

func (s *soul) state() migrate.MemberState {
	if s.m != nil {
		return s.m.State()
	}
	return s.said
}

// works lets one of them take a lease, if it may.
func (c *crowd) works(s *soul) {
	now := c.w.ServerNow()
	if s.dead || now.Before(s.paused) {
		return
	}
	j := job{phase: s.said.Phase, end: func() {}, until: now.Add(crowdTTL),
		done: now.Add(time.Duration(1+c.r.IntN(30)) * time.Second)}
	if s.m != nil {
		var err error
		if j.phase, j.end, err = s.m.Begin(bg, crowdTTL); err != nil {
			return
		}
	} else if now.Sub(s.said.Seen) > record.BeatsMissed*s.said.Every {
		return
	}
	s.jobs = append(s.jobs, j)
}

// operators are two, each with a verb of its own at the same time: mostly the
// same one.
func (c *crowd) operators(way verb) {
	c.t.Helper()
	from := c.now()
	reports := make(chan *Report, 2)
	for range cap(reports) {
		v := way
		if c.r.IntN(6) == 0 {
			v = []verb{doAdvance, doBack}[c.r.IntN(2)]
		}
		o := c.options(Options{Go: true, Forget: []string{allDead}})
		go func() {
			r, err := v(bg, &fleet{t: c.t, w: c.w, operator: o.Clock.(*redistest.Clock)}, o)
			if err != nil {
				c.t.Error(err)
			}
			reports <- r
		}()
	}
	moved := map[int64]migrate.Phase{}
	for range cap(reports) {
		if r := <-reports; r != nil && r.Moved {
			moved[r.Epoch] = r.Phase
		}
	}
	c.moves += len(moved)
	far := func(from, to migrate.Phase) (j job, found bool) {
		now := c.w.ServerNow()
		for _, s := range c.souls {
			for _, j := range s.jobs {
				if now.Before(j.until) && j.phase != from && j.phase != to {
					return j, true
				}
			}
		}
		return job{}, false
	}
	if len(moved) == 0 {
		if _, found := far(from.Phase, from.Phase); found {
			c.closed++
		}
	}
	for epoch, before := from.Epoch+1, from.Phase; moved[epoch] != migrate.NoPhase; epoch++ {
		if j, found := far(before, moved[epoch]); found {
			c.t.Errorf("from %v to %v beside a lease of %v, for another %v", before, moved[epoch], j.phase,
				j.until.Sub(c.w.ServerNow()))
		}
		before = moved[epoch]
	}
}

// everyGateOpens once nothing happens to anybody any more, as far as modern and
// back again.
func (c *crowd) everyGateOpens() {
	c.t.Helper()
	for _, way := range []struct {
		verb verb
		to   migrate.Phase
	}{{doAdvance, migrate.Modern}, {doBack, migrate.Observe}} {
		for seconds := 0; c.now().Phase != way.to; seconds++ {
			if seconds > 2000 {
				c.t.Fatalf("from %v no gate opens: %v", c.now().Phase,
					c.must(way.verb, Options{}).Gate.Blocks)
			}
			c.live()
			if seconds%10 == 0 {
				c.must(way.verb, Options{Go: true, Forget: []string{allDead}})
			}
		}
	}
}

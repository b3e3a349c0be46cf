package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// displaced is a fleet of old clients whose clocks are that far from the
// server's and which often crash while they hold. Three getsetlock clients find
// what they leave.
func displaced(d dialect.Dialect, p skew.Phase, by time.Duration) Fleet {
	s := mixed(d, p)
	s.Lease, s.Job, s.CrashShare, s.Restart = 5*sec, Constant(4500*ms), 0.2, Constant(20*sec)
	s.Clients = 1
	s.Ours.Job = Constant(200 * ms)
	s.Ours.Terms = dialect.Terms{Spread: dialect.Zero, Gap: 300 * ms}
	s.Acquisitions, s.For = less(int64(5000)), 10*day
	s.Offsets = slices.Repeat([]time.Duration{by}, s.Clients)
	return s
}

// Wherever the server's clock is: with nothing claimed, no client of either
// kind loses its lock to the other. What crashed holders leave is taken over.
// (Where they are minutes ahead of the server, they return before it is past
// their stamps.)
func TestLooksTakeNoHeldLockAtAnyOffset(t *testing.T) {
	for _, d := range few([]dialect.Dialect{dialect.Jedis(), dialect.PageNil(), dialect.Faye()}) {
		for _, p := range []skew.Phase{skew.PhaseObserve, skew.PhaseDual} {
			for _, by := range []time.Duration{
				-2 * time.Minute, -3 * sec, 2 * time.Minute, 10 * time.Minute} {
				r := mustSimulate(t, displaced(d, p, by))
				if o := r.Ours; r.Episodes > 0 || o.Lost.Clock > 0 || o.BesideOld > 0 ||
					by < 0 && o.Takeovers == 0 {
					t.Errorf("%s, %s, %v: %d episodes, %+v", d, p, by, r.Episodes, r.Ours)
				}
			}
		}
	}
}

// A false claim lets getsetlock clients take held locks; a true one makes them
// quick.
func TestFalseClaimOfBehindTakesHeldLocks(t *testing.T) {
	for _, by := range []time.Duration{3 * sec, 2 * time.Minute} {
		s := displaced(dialect.Jedis(), skew.PhaseDual, -by)
		unknown := mustSimulate(t, s).Ours
		s.Ours.Terms.Behind = dialect.Zero
		if o := mustSimulate(t, s).Ours; o.BesideOld == 0 {
			t.Errorf("%v behind, claimed to be none: %+v", by, o)
		}
		s.Ours.Terms.Behind = by
		o := mustSimulate(t, s).Ours
		if o.BesideOld > 0 || o.Takeovers == 0 {
			t.Errorf("%v behind, claimed: %+v", by, o)
		}
		if by == 3*sec && (o.WaitMost == 0 || o.Takeovers < unknown.Takeovers/2) {
			t.Errorf("claimed %+v\nunknown %+v", o, unknown)
		}
	}
}

// A server whose clock steps, slews or is replaced by another: getsetlock
// clients that have seen it still take no held lock, with a claimed bound and
// with none. A claim would have to speak of the server that is promoted too.
func TestServerTroublesTakeNoHeldLock(t *testing.T) {
	for _, p := range few(serverPresets()) {
		for _, behind := range []time.Duration{0, dialect.Zero} {
			if behind != 0 && p.Clocks.Server.FailOver {
				continue
			}
			s := displaced(dialect.Jedis(), skew.PhaseDual, 0)
			s.Clocks, s.Ours.Terms.Behind = p.Clocks, behind
			r := mustSimulate(t, s)
			// A step forwards ends leases early, and only that may let two
			// clients hold together.
			if most := int64(2); r.Ours.BesideOld > most || r.Ours.Takeovers == 0 {
				t.Errorf("%s, behind %v: %+v", p.Name, behind, r.Ours)
			}
		}
	}
}

// Getsetlock clients take no held lock because a step is added to the claim.
func TestClientsHearStepsOfTheServer(t *testing.T) {
	s := displaced(dialect.Jedis(), skew.PhaseDual, 0)
	s.Clocks.Server = ServerTroubles{
		Step: Steps{Kind: StepBy, By: 2 * time.Minute, Every: time.Minute, Once: true}}
	s.Ours.Terms.Behind = dialect.Zero
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	for m.Run(1 << 10) {
	}
	for i, g := range m.members {
		if g.knows.gained != int64(2*time.Minute) {
			t.Errorf("ours%d has seen %v of the step", i+1, time.Duration(g.knows.gained))
		}
	}
}

// TTLs follow the server's clock.
func TestServerStepShortensEveryTTL(t *testing.T) {
	s := mixed(dialect.Jedis(), skew.PhaseDual)
	s.Clocks.Server = ServerTroubles{Step: Steps{Kind: StepBy, By: sec, Every: time.Hour, Once: true}}
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	m.token = simToken{3, m.server.time + int64(10*sec)}
	m.passServer(m.now + int64(time.Hour))
	if left := m.token.expires - m.server.time; left != int64(10*sec-time.Hour-sec) {
		t.Errorf("%v left", time.Duration(left))
	}
}

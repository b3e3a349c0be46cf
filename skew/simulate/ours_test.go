package simulate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// mixed is a healthy fleet, half of it getsetlock clients.
func mixed(d dialect.Dialect, p skew.Phase) Fleet {
	s := plainFleet()
	s.Dialect, s.Lease, s.Poll, s.Clients, s.Acquisitions = d, 30*sec, 20*ms, 3, 4000
	s.Ours = Ours{Clients: 3, Phase: p}
	return s
}

var allPhases = []skew.Phase{skew.PhaseObserve, skew.PhaseDual, skew.PhaseSealed, skew.PhaseModern,
	skew.PhaseClean}

// Promises 1 and 2 as rates: honest fleets of every dialect, at the lease
// rule's bound.
func TestHonestFleetNeverHasTwoHolders(t *testing.T) {
	for _, d := range few(dialect.Presets()) {
		if d.OrMine || d.NeverReleases() {
			continue
		}
		for _, p := range allPhases {
			s := mixed(d, p)
			if p == skew.PhaseClean {
				s.Clients = 0 // with M alone old clients are not kept out
			}
			s.Job = mustParse(t, "10ms..300ms")
			r := mustSimulate(t, s)
			o := r.Ours
			if r.Episodes > 0 || o.BesideOurs+o.BesideOld > 0 || o.Acquisitions < 300 ||
				o.Lost.Pause+o.Lost.Overrun+o.Lost.Clock+o.Lost.Own > 0 {
				t.Errorf("%s, %s: %+v", d, p, r)
			}
			if kept := p == skew.PhaseSealed ||
				p == skew.PhaseModern; kept && o.Acquisitions != r.Acquisitions ||
				!kept && p != skew.PhaseClean && o.Acquisitions == r.Acquisitions {
				t.Errorf("%s, %s: %d of %d acquisitions are of getsetlock clients", d, p, o.Acquisitions,
					r.Acquisitions)
			}
		}
	}
}

// Whatever old clients do: jobs beyond their lease, a large clock spread,
// pauses beyond the gap.
func TestTwoGetsetlockClientsNeverHoldTogether(t *testing.T) {
	for _, d := range few([]dialect.Dialect{
		dialect.Jedis(), dialect.JedisUUID(), dialect.PageNil(), dialect.SetDel(), dialect.RedisPy(),
		dialect.BareExpire()}) {
		for _, p := range []skew.Phase{skew.PhaseObserve, skew.PhaseDual, skew.PhaseSealed} {
			s := mixed(d, p)
			s.Lease, s.Job, s.Acquisitions = 4*sec, mustParse(t, "exp:2s"), less(int64(3000))
			s.For = 2 * time.Hour // where all waiters send EXPIRE, a mark without a holder stays for ever
			s.Clocks = Clocks{Low: -sec, High: sec, Pauses: []Pause{{1500 * ms, 20 * sec}}}
			s.Ours.Stop = 100 * ms
			r := mustSimulate(t, s)
			if r.Ours.BesideOurs > 0 || r.Ours.Acquisitions == 0 {
				t.Errorf("%s, %s: %+v", d, p, r.Ours)
			}
			if p != skew.PhaseSealed && r.Ours.Lost.Total() == 0 && !raceEnabled {
				t.Errorf("%s, %s: no lease was lost with such a fleet: %+v", d, p, r)
			}
		}
	}
}

// Each cause alone takes getsetlock leases, under its own name and no other.
func TestLossesAreCountedByCause(t *testing.T) {
	for _, c := range few([]struct {
		name   string
		change func(*Fleet)
		count  func(*Losses) *int64
	}{
		{"pause", func(s *Fleet) {
			// Takeovers that can be lost need a crash now and then, and enough
			// time.
			s.CrashShare, s.Clocks.Pauses, s.Latency = 0.3, []Pause{{1900 * ms, 7 * sec}}, Constant(50*ms)
			s.Lease, s.Ours.Terms.Gap, s.Ours.RenewEvery = 20*sec, 500*ms, 2*sec
		}, func(l *Losses) *int64 { return &l.Pause }},
		{"overrun", func(s *Fleet) { s.Job = mustParse(t, "1ms..6s") },
			func(l *Losses) *int64 { return &l.Overrun }},
		{"overrun, found by a renewal", func(s *Fleet) {
			s.Job, s.Ours.Polls = mustParse(t, "1ms..6s"), true
		}, func(l *Losses) *int64 { return &l.Overrun }},
		{"missing", func(s *Fleet) { s.Dialect, s.Latency = dialect.PageNil(), mustParse(t, "exp:5ms") },
			func(l *Losses) *int64 { return &l.Missing }},
		// For that a clock has to be more than a day ahead.
		{"clock", func(s *Fleet) {
			s.Offsets, s.Job = []time.Duration{0, 0, day + 3900*ms}, Constant(500*ms)
		}, func(l *Losses) *int64 { return &l.Clock }},
	}) {
		t.Run(c.name, func(t *testing.T) {
			s := mixed(dialect.Jedis(), skew.PhaseObserve)
			s.Lease, s.For, s.Acquisitions = 4*sec, 2*day, 20_000
			c.change(&s)
			lost := mustSimulate(t, s).Ours.Lost
			n, others := *c.count(&lost), lost
			*c.count(&others) = 0
			if n == 0 || 4*others.Total() > n {
				t.Errorf("%+v", lost)
			}
		})
	}
}

func TestSameSeedGivesSameGetsetlockRates(t *testing.T) {
	s := mixed(dialect.PageNil(), skew.PhaseDual)
	s.Lease, s.Job, s.Latency, s.CrashShare, s.For, s.Acquisitions = 4*sec, mustParse(t, "exp:1s"),
		mustParse(t, "exp:300us"), 0.01, day, less(int64(3000))
	for _, p := range few(Presets()) {
		s.Clocks = p.Clocks
		if a, b := fmt.Sprintf("%+v", mustSimulate(t, s)), fmt.Sprintf("%+v", mustSimulate(t, s)); a != b {
			t.Errorf("%s: %s\nand %s", p.Name, a, b)
		}
	}
}

// A lease that breaks the lease rule, and an omitted settle, show what the
// rules prevent.
func TestLeaseBeyondRuleLosesLocks(t *testing.T) {
	s := mixed(dialect.Jedis(), skew.PhaseDual)
	s.Lease, s.Job, s.CrashShare, s.For, s.Acquisitions = 10*sec, Constant(500*ms), 0.3, day,
		less(int64(20_000))
	s.Latency, s.Clocks.Pauses = Constant(50*ms), []Pause{{2 * sec, 7 * sec}}
	s.Ours.Terms = dialect.Terms{Spread: 100 * ms, Gap: 2500 * ms}
	s.Ours.Job, s.Ours.Polls, s.Ours.Settle, s.Ours.Margin = Constant(20*sec), true, 1, 3*sec
	s.Ours.TTL, s.Ours.RenewEvery, s.Ours.AnyLease = 25*sec, 20*sec, true
	beyond := mustSimulate(t, s)
	s.Ours.TTL, s.Ours.RenewEvery, s.Ours.AnyLease = 7*sec, 3*sec, false
	within := mustSimulate(t, s)
	if beyond.Ours.BesideOld < less(int64(10)) || within.Ours.BesideOld > 0 {
		t.Errorf("together with an old client: %d beyond the rule, %d within it", beyond.Ours.BesideOld,
			within.Ours.BesideOld)
	}
}

// In an or-mine dialect, a client that overwrote the key takes its own uuid at
// its next poll. A getsetlock client that settled longer than the gap, which
// includes that poll, saw it. One that did not settle held together with it.
func TestSettlePreventsHoldingWithOrMineClients(t *testing.T) {
	s := mixed(dialect.JedisUUID(), skew.PhaseDual)
	s.Clients, s.Lease, s.Job, s.Latency, s.Acquisitions = 1, 10*sec, mustParse(t, "exp:200ms"),
		mustParse(t, "exp:5ms"), less(int64(20_000))
	s.Ours.Terms.Gap, s.Ours.Polls = 500*ms, true
	settled := mustSimulate(t, s)
	s.Ours.Settle = 1
	not := mustSimulate(t, s)
	if settled.Ours.BesideOld > 0 || settled.Ours.Retried.Total() == 0 || not.Ours.BesideOld == 0 {
		t.Errorf("settled %+v\nnot %+v", settled.Ours, not.Ours)
	}
}

func TestImpossibleOursNameFieldAndBound(t *testing.T) {
	for field, change := range map[string]func(*Ours){
		"Ours.Clients":    func(o *Ours) { o.Clients = -1 },
		"Ours.Phase":      func(o *Ours) { o.Phase = "sometime" },
		"Ours.TTL":        func(o *Ours) { o.TTL = 30 * sec },
		"Ours.Margin":     func(o *Ours) { o.Margin = 15 * sec },
		"Ours.RetryEvery": func(o *Ours) { o.RetryEvery = -1 },
		"Ours.Terms":      func(o *Ours) { o.Terms.Spread = time.Minute },
	} {
		s := mixed(dialect.Jedis(), skew.PhaseObserve)
		change(&s.Ours)
		_, err := Run(s)
		var parameter *skew.ParameterError
		if !errors.As(err, &parameter) || parameter.Field != field || parameter.Bound == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// An EXPIRE that cuts the mark shows only by its effect: the key ends while M
// exists.
func TestMarkEndedByEXPIRECountsAsExpire(t *testing.T) {
	s := mixed(dialect.SetDel(), skew.PhaseDual)
	s.Job = Constant(20 * sec)
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	for m.Run(1) && !m.clients[3].holding {
	}
	m.key.expires = m.now + int64(100*ms)
	m.Run(200)
	if lost := m.Rates().Ours.Lost; lost.Expire != 1 || lost.Total() != 1 {
		t.Errorf("%+v", lost)
	}
}

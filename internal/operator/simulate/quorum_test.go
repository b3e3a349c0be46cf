package simulate

import (
	"errors"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/votes"
)

// plainQuorum is five members and four clients that are always eager.
func plainQuorum() Quorum {
	return Quorum{Members: 5, Clients: 4, TTL: 3 * sec, Job: Constant(2 * sec), Rest: Constant(10 * ms),
		Latency: Constant(ms), Retry: 50 * ms, Acquisitions: less(int64(1500))}
}

// mustQuorum runs a simulation. At each acquisition while another client holds
// it asks the law.
func mustQuorum(t *testing.T, q Quorum) QuorumRates {
	t.Helper()
	m, err := newQuorum(q)
	if err != nil {
		t.Fatal(err)
	}
	m.entered = func(c *quorumClient) {
		v, err := votes.Law{Members: m.Members, Votes: bits.OnesCount32(c.votes),
			Lost: bits.OnesCount32(c.ended)}.Verdict()
		if err != nil || !v.TwoHold {
			t.Errorf("another client holds with votes %05b, of which %05b ended early: %+v, %v", c.votes, c.ended,
				v, err)
		}
	}
	for m.run(1 << 16) {
	}
	r := m.finish()
	if r.Acquisitions == 0 || r.Span == 0 {
		t.Fatalf("%+v", r)
	}
	return r
}

// Members that lose nothing never let two in, though clients contend for every
// vote.
func TestQuorumOfSoundMembersHasOneHolder(t *testing.T) {
	for _, all := range []int{3, 5} {
		q := plainQuorum()
		q.Votes, q.Latency = all, mustParse(t, "exp:2ms")
		r := mustQuorum(t, q)
		if r.Entries > 0 || r.EarlyEnds > 0 || r.Lost > 0 || r.Refused < r.Acquisitions {
			t.Errorf("%d votes: %+v", all, r)
		}
	}
}

// One member is an ordinary server. Each restart during a job lets the next
// client in, so the counts are those of the arithmetic.
func TestOneMemberLetsOneInAtEachRestart(t *testing.T) {
	q := plainQuorum()
	q.Members, q.TTL, q.Restarted, q.Acquisitions = 1, 30*sec, 20*sec, less(int64(8000))
	q.Retry = 20 * ms
	r := mustQuorum(t, q)
	want := float64(r.Acquisitions) * 2 / 20
	if !raceEnabled && (float64(r.EarlyEnds) < 0.9*want || float64(r.EarlyEnds) > 1.1*want) {
		t.Errorf("%d early ends, want about %.0f", r.EarlyEnds, want)
	}
	if r.Entries > r.EarlyEnds || float64(r.Entries) < 0.95*float64(r.EarlyEnds) {
		t.Errorf("%d entries by %d early ends", r.Entries, r.EarlyEnds)
	}
}

// Three members with all votes: two of them have to restart within one job of
// 10 s. Each does with probability 1 − exp(−0.1), so both kinds of outcome are
// counted by a binomial distribution.
func TestRateOfThreeMembersIsBinomial(t *testing.T) {
	q := plainQuorum()
	q.Members, q.TTL, q.Job, q.Restarted, q.Retry = 3, 40*sec, Constant(10*sec), 100*sec, 100*ms
	q.Acquisitions = 6000
	if raceEnabled {
		q.Acquisitions = 100
		mustQuorum(t, q)
		return
	}
	r := mustQuorum(t, q)
	const p = 0.0952
	want := float64(r.Acquisitions) * (3*p*p*(1-p) + p*p*p)
	if got := float64(r.Entries); got < 0.75*want || got > 1.35*want {
		t.Errorf("%.0f entries, want about %.0f", got, want)
	}
}

// The rules of package quorum, and what they bring: all votes make two holders
// rarer, and members that wait after a restart make them impossible.
func TestQuorumRulesMakeTwoHoldersRarer(t *testing.T) {
	q := plainQuorum()
	q.Job, q.Restarted, q.Votes, q.Acquisitions = Constant(10*sec), 20*sec, 3, less(int64(600))
	bare := mustQuorum(t, q)
	q.Votes = 5
	all := mustQuorum(t, q)
	q.Wait = true
	waits := mustQuorum(t, q)
	if bare.Entries < 10*max(1, all.Entries) || waits.Entries > 0 || waits.EarlyEnds == 0 {
		t.Errorf("bare majority %+v\nall votes %+v\nmembers wait %+v", bare, all, waits)
	}
	if bare.Episodes == 0 || bare.LongestEpisode > q.TTL || bare.EpisodeTime < bare.LongestEpisode {
		t.Errorf("episodes: %+v", bare)
	}
}

// A member's clock frees keys. Steps beyond the margin, a tenth of the lease,
// end votes early; steps within it do not, nor does a rate that is off. Steps
// within one lease add up, so the small ones are rare.
func TestStepsOfMembersBeyondTheMarginCount(t *testing.T) {
	q := plainQuorum()
	q.Job, q.Votes, q.Acquisitions = Constant(10*sec), 3, less(int64(500))
	for _, c := range []struct {
		by, every time.Duration
		ppm       float64
		renew     time.Duration // an hour: each lease runs to its end
		breaks    bool
	}{
		{290 * ms, 10 * sec, 0, 0, false},
		{90 * ms, time.Minute, 0, time.Hour, false},
		{0, 0, 80_000, time.Hour, false},
		{3 * sec, 10 * sec, 0, 0, true},
		{-3 * sec, 10 * sec, 0, 0, false},
	} {
		q.Renew, q.Clocks = c.renew, Clocks{PPM: c.ppm, Step: Steps{Kind: StepBy, By: c.by, Every: c.every}}
		if r := mustQuorum(t, q); (r.Entries > 0) != c.breaks {
			t.Errorf("steps of %v, rates of %v: %+v", c.by, c.ppm, r)
		}
	}
}

// The same seed has the same result, and a run can be stopped.
func TestQuorumRunIsRepeatedByItsSeed(t *testing.T) {
	q := plainQuorum()
	q.Lost, q.Votes, q.Acquisitions = 20*sec, 3, 200
	q.Clocks = Clocks{Pauses: []Pause{{10 * ms, sec}}}
	run := func() string {
		r, err := q.Run(nil)
		return fmt.Sprint(r, err)
	}
	first := run()
	if second := run(); first != second {
		t.Errorf("%s\n%s", first, second)
	}
	if q.Seed = 2; run() == first {
		t.Error("another seed changed nothing")
	}
	asked := 0
	r, err := q.Run(func(done float64) bool { asked++; return false })
	if err != nil || asked != 1 || r.Acquisitions >= 200 {
		t.Errorf("stopped: %+v, %v", r, err)
	}
}

func TestImpossibleQuorumsAreNamed(t *testing.T) {
	for field, change := range map[string]func(*Quorum){
		"Members":      func(q *Quorum) { q.Members = 32 },
		"Votes":        func(q *Quorum) { q.Votes = 2 },
		"Clients":      func(q *Quorum) { q.Clients = 1 },
		"TTL":          func(q *Quorum) { q.TTL = 0 },
		"Margin":       func(q *Quorum) { q.Margin = q.TTL },
		"Job":          func(q *Quorum) { q.Job = Constant(-1) },
		"Restarted":    func(q *Quorum) { q.Restarted = -1 },
		"For":          func(q *Quorum) { q.Acquisitions = 0 },
		"Clocks.PPM":   func(q *Quorum) { q.Clocks.PPM = -1 },
		"Acquisitions": func(q *Quorum) { q.Acquisitions = -1 },
	} {
		q := plainQuorum()
		change(&q)
		_, err := q.Run(nil)
		var bad *skew.ParameterError
		if !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

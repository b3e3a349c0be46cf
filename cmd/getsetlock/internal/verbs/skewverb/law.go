package skewverb

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

// skewAnswer is what is known about a question; the parts that were not asked for are nil.
type skewAnswer struct {
	skewQuestion
	law      skew.Law
	verdict  skew.Verdict
	jobs     []time.Duration // drawn or measured, sorted
	cause    string
	explored *skewExplored
	rates    *simulate.Rates // simulated, nil where ours refuse
	played   simulate.Fleet  // what rates are of
	unkept   bool            // ours are played by the default terms, which the fleet does not keep
	curves   []curve
}

// The causes, as the answer's field has them.
const (
	causeNone = "none" // two do not hold, or the dialect's own clients let it happen by themselves
	causeJob  = "job"
	causeSkew = "skew"
	causeJump = "jump"
)

// draws is how many jobs stand for a distribution.
const draws = 100_000

// modernLease is the lease of ours where none is given and there are no old clients to keep clear of.
const modernLease = 30 * time.Second

func (q skewQuestion) answer() (*skewAnswer, error) {
	a := &skewAnswer{skewQuestion: q}
	a.jobs = q.drawJobs()
	late := value(q.delay) + q.pause
	a.law = skew.Law{Dialect: q.dialect, Lease: q.lease, Job: q.longestJob(a.jobs) + q.pause, Delay: late, Reply: late, Spread: value(q.spread), Behind: q.behind, Ahead: q.ahead}
	if a.law.Lease == 0 {
		a.law.Lease = q.dialect.Lease
		if q.protocol == "modern" {
			a.law.Lease = modernLease
		}
	}
	var err error
	if a.verdict, err = a.law.Verdict(); err != nil {
		return nil, err
	}
	if !q.oldHold() {
		a.verdict = oursAlone(a.law, q.protocol)
	}
	a.cause = a.findCause()
	return a, nil
}

// value is what a flag says; an absent one counts as zero where the law is asked.
func value(claim time.Duration) time.Duration {
	d, _ := dialect.Claimed(claim)
	return d
}

func (q skewQuestion) drawJobs() []time.Duration {
	jobs := slices.Clone(q.holds)
	if jobs == nil {
		r := rand.New(rand.NewPCG(q.seed, 0))
		for range draws {
			jobs = append(jobs, q.job.Draw(r))
		}
	}
	slices.Sort(jobs)
	return jobs
}

// longestJob is the longest that can be drawn. Of shapes without an end that is a bound that nobody
// meets; of those it is the longest that was.
func (q skewQuestion) longestJob(sorted []time.Duration) time.Duration {
	text := q.job.String()
	if q.holds != nil || strings.HasPrefix(text, "exp:") || strings.HasPrefix(text, "lognormal:") {
		return sorted[len(sorted)-1]
	}
	return q.job.Most()
}

// oldHold says that old clients take the lock in this protocol, so that the law of theirs applies.
func (q skewQuestion) oldHold() bool { return q.protocol != "modern" && q.protocol != "sealed" }

// ours says that our own clients take part.
func (q skewQuestion) ours() bool { return q.protocol != "verbatim" }

// oursAlone is the verdict on clients that compare a token on the server and trust a lease by their own
// elapsed time, from before they asked for it: no clock of theirs and no job is in it. A renewed lease
// lasts as long as its job.
func oursAlone(law skew.Law, protocol string) skew.Verdict {
	ttl := law.Lease
	if protocol == "sealed" {
		ttl = min(modernLease, law.Lease/2)
	}
	return skew.Verdict{Recovery: skew.Recovery{Earliest: ttl, Latest: ttl}}
}

// twoHold is the whole answer in one word.
func (a *skewAnswer) twoHold() bool {
	return a.verdict.Possible || a.explored != nil && a.explored.Found || a.rates != nil && beside(*a.rates) > 0
}

// findCause takes one thing after another away and looks whether two hold still.
func (a *skewAnswer) findCause() string {
	if !a.verdict.Possible || a.verdict.Unconditional {
		return causeNone
	}
	if a.possibleWithout(func(l *skew.Law) { l.Spread = 0 }) {
		return causeJob
	}
	if a.preset != nil {
		steady := a.preset.Clocks
		steady.Step = simulate.Steps{}
		if !a.possibleWithout(func(l *skew.Law) { l.Spread = steady.Spread(presetSpan) }) {
			return causeJump
		}
	}
	return causeSkew
}

// possibleWithout asks the law about the same fleet with something changed.
func (a *skewAnswer) possibleWithout(change func(*skew.Law)) bool {
	law := a.law
	change(&law)
	v, err := law.Verdict()
	return err == nil && v.Possible
}

// blameWhatIsSeen corrects the cause where the worst job is to blame by the law, and nearly all that
// happens is somebody else's fault.
func (a *skewAnswer) blameWhatIsSeen() {
	const enough = 20 // episodes; of fewer nobody can say which kind is the common one
	if a.cause != causeJob || a.rates == nil || a.rates.Episodes < enough {
		return
	}
	switch a.rates.Causes.Main() {
	case simulate.CauseSkew:
		a.cause = causeSkew
	case simulate.CauseJump:
		a.cause = causeJump
	}
}

// tooLong is the share of jobs that a limit leaves unsafe.
func (a *skewAnswer) tooLong(l skew.Limit) float64 {
	if !l.Bounded {
		return 0
	}
	// Jobs are durations: the first one that is too long is the first above the bound.
	n, _ := slices.BinarySearch(a.jobs, l.Bound-a.pause+1)
	return float64(len(a.jobs)-n) / float64(len(a.jobs))
}

// unsafeShare is the share of acquisitions that can be followed by a second holder, if a waiter with
// the worst clock and the worst delay is always there.
func (a *skewAnswer) unsafeShare(v skew.Verdict) float64 {
	if v.Unconditional || v.LateWinner {
		return 1
	}
	return a.tooLong(v.LongestJob)
}

// safeLease is the shortest lease with which this fleet would be safe.
func (a *skewAnswer) safeLease() (lease time.Duration, ok bool) {
	if !a.verdict.LongestJob.Bounded || a.verdict.Unconditional || a.dialect.ServerExpires() && !a.dialect.HasTakeover() {
		return a.law.Job, !a.verdict.Unconditional
	}
	law := a.law
	law.Lease += law.Job - a.verdict.LongestJob.Bound
	if step := a.dialect.Unit.Step(); step > 0 && law.Lease%step != 0 {
		law.Lease += step - law.Lease%step
	}
	// What the two conditions of the law ask for may differ by more than the overlap.
	for range 4 {
		v, err := law.Verdict()
		if err != nil {
			return 0, false
		}
		if !v.Possible {
			return law.Lease, true
		}
		law.Lease += max(law.Job-v.LongestJob.Bound, 2*law.Delay+law.Reply)
	}
	return 0, false
}

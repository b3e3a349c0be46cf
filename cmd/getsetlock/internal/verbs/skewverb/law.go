// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/skew"
)

// skewAnswer is the answer to a question. Parts that the user did not ask for
// are nil.
type skewAnswer struct {
	skewQuestion
	law      skew.Law
	verdict  skew.Verdict
	jobs     []time.Duration // drawn or measured jobs, sorted
	cause    string
	explored *skewExplored
	rates    *simulate.Rates // result of the simulation; nil where old clients do not take the lock
}

// Causes, as the field cause has them.
const (
	causeNone = "none" // two do not hold, or the dialect's own clients let it happen by themselves
	causeJob  = "job"
	causeSkew = "skew"
	causeJump = "jump"
)

// draws is the number of jobs drawn from a distribution.
const draws = 100_000

// modernLease is the default lease of getsetlock clients where there are no old
// clients.
const modernLease = 30 * time.Second

func (q skewQuestion) answer() (*skewAnswer, error) {
	a := &skewAnswer{skewQuestion: q}
	a.jobs = q.drawJobs()
	late := value(q.delay) + q.pause
	a.law = skew.Law{Dialect: q.dialect, Lease: q.lease, Job: q.longestJob(a.jobs) + q.pause, Delay: late,
		Reply: late, Spread: value(q.spread), Behind: q.behind, Ahead: q.ahead}
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

// value returns the duration of a claim. An absent claim counts as zero for the
// law.
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

// longestJob returns the longest job that can be drawn. For a distribution
// without an upper end, it returns the longest job that was drawn.
func (q skewQuestion) longestJob(sorted []time.Duration) time.Duration {
	text := q.job.String()
	if q.holds != nil || strings.HasPrefix(text, "exp:") || strings.HasPrefix(text, "lognormal:") {
		return sorted[len(sorted)-1]
	}
	return q.job.Most()
}

// oldHold reports whether old clients take the lock in this protocol, so that
// their law applies.
func (q skewQuestion) oldHold() bool { return q.protocol != "modern" && q.protocol != "sealed" }

// ours reports whether getsetlock clients take part.
func (q skewQuestion) ours() bool { return q.protocol != "verbatim" }

// oursAlone returns the verdict on getsetlock clients alone. They compare a
// token on the server, and measure their lease by elapsed time from before they
// asked for it. So the verdict depends neither on their clocks nor on their
// jobs, and a renewed lease lasts as long as its job.
func oursAlone(law skew.Law, protocol string) skew.Verdict {
	ttl := law.Lease
	if protocol == "sealed" {
		ttl = min(modernLease, law.Lease/2)
	}
	return skew.Verdict{Recovery: skew.Recovery{Earliest: ttl, Latest: ttl}}
}

// twoHold reports whether two clients can hold the lock at once, by any of the
// answers.
func (a *skewAnswer) twoHold() bool {
	return a.verdict.Possible || a.explored != nil && a.explored.Found ||
		a.rates != nil && a.rates.Entries > 0
}

// findCause removes one possible cause after another and checks whether two
// clients can still hold at once.
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

// possibleWithout asks the law about the same fleet with a change.
func (a *skewAnswer) possibleWithout(change func(*skew.Law)) bool {
	law := a.law
	change(&law)
	v, err := law.Verdict()
	return err == nil && v.Possible
}

// blameWhatIsSeen corrects the cause. By the law the longest job may be the
// cause, while another cause makes nearly all simulated episodes.
func (a *skewAnswer) blameWhatIsSeen() {
	const enough = 20 // episodes; fewer do not show which cause is common
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

// tooLong returns the share of jobs that are too long for a limit.
func (a *skewAnswer) tooLong(l skew.Limit) float64 {
	if !l.Bounded {
		return 0
	}
	// Jobs are sorted, so the first job above the bound begins the ones that
	// are too long.
	n, _ := slices.BinarySearch(a.jobs, l.Bound-a.pause+1)
	return float64(len(a.jobs)-n) / float64(len(a.jobs))
}

// unsafeShare returns the share of acquisitions that a second holder can
// follow, if a waiter with the worst clock and the worst delay is always there.
func (a *skewAnswer) unsafeShare(v skew.Verdict) float64 {
	if v.Unconditional || v.LateWinner {
		return 1
	}
	return a.tooLong(v.LongestJob)
}

// safeLease returns the shortest lease with which this fleet would be safe.
func (a *skewAnswer) safeLease() (lease time.Duration, ok bool) {
	if !a.verdict.LongestJob.Bounded || a.verdict.Unconditional ||
		a.dialect.ServerExpires() && !a.dialect.HasTakeover() {
		return a.law.Job, !a.verdict.Unconditional
	}
	law := a.law
	law.Lease += law.Job - a.verdict.LongestJob.Bound
	if step := a.dialect.Unit.Step(); step > 0 && law.Lease%step != 0 {
		law.Lease += step - law.Lease%step
	}
	// The two conditions of the law may require more than the overlap.
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

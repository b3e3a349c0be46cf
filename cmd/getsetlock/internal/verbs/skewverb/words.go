// SPDX-License-Identifier: Apache-2.0

package skewverb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// sentence returns the answer in one sentence.
func (a *skewAnswer) sentence() string {
	switch {
	case a.verdict.Unconditional:
		return "YES: two clients can hold the lock at once, even with perfect clocks and short jobs."
	case a.twoHold():
		return "YES: two clients can hold the lock at once."
	}
	return "NO: two clients cannot hold the lock at once."
}

// words returns the explanation, a paragraph each: why, how often, the cause,
// and what to change.
func (a *skewAnswer) words() []string {
	if !a.oldHold() {
		return append(a.wordsOfOurs(), a.rehearses())
	}
	var says []string
	if a.verdict.Possible {
		says = append(says, a.why(), a.howOften(), a.whoseFault())
		says = append(says, a.whatToChange()...)
	} else {
		says = append(says, a.whyNot()...)
	}
	if a.rates != nil {
		says = slices.Insert(says, min(2, len(says)), a.seen())
	}
	if a.ours() {
		says = append(says, a.besideOurs())
		says = append(says, a.besideServer()...)
		says = append(says, a.rehearses())
	}
	if a.verdict.Recovery.Never {
		says = append(says, "A holder that crashes leaves the key for ever: only a person can free it.")
	}
	return says
}

func (a *skewAnswer) why() string {
	v := a.verdict
	switch {
	case v.Unconditional:
		return fmt.Sprintf("Why: a %s client takes over a key that holds its own id, and the loser of a race leaves its id there.", a.dialect)
	case v.LateWinner:
		return fmt.Sprintf("Why: a %s client reads its clock again to judge the reply of GETSET. If it does so %s late, it takes a lock for expired that was live when it replaced it.",
			a.dialect, out.Short(a.law.Delay))
	case !a.dialect.HasTakeover():
		return fmt.Sprintf("Why: the server frees the key after %s, and a job runs for up to %s. Two clients hold the lock at once for up to %s.",
			out.Short(a.law.Lease), out.Short(a.law.Job), out.Short(a.verdict.Overlap))
	}
	return fmt.Sprintf("Why: a job may run for %s. With a clock spread of %s and writes up to %s late, another client may take the key over %s after it was written. Two clients hold the lock at once for up to %s.",
		out.Short(a.law.Job), out.Short(a.law.Spread), out.Short(a.law.Delay),
		out.Short(max(0, v.LongestJob.Bound)), out.Short(a.verdict.Overlap))
}

func (a *skewAnswer) howOften() string {
	if a.verdict.Unconditional || a.verdict.LateWinner {
		return "How often: whenever clients race for a lock that has expired, however long jobs are."
	}
	return fmt.Sprintf("How often: %s of jobs run longer than that. During each of them a second client holds the lock, if a waiter with the worst clock and delay is there.",
		percent(a.unsafeShare(a.verdict)))
}

func (a *skewAnswer) whoseFault() string {
	byLaw := a.findCause()
	switch {
	case a.cause != byLaw:
		which := map[string]string{causeSkew: "skew", causeJump: "jumps of clocks"}[a.cause]
		return fmt.Sprintf("The problem is %s: it causes most of the simulated episodes. The longest jobs would do it even with perfect clocks.", which)
	case a.cause == causeJump:
		return "The problem is jumps of clocks: without jumps the clock spread would be small enough."
	case a.cause == causeSkew:
		return fmt.Sprintf("The problem is skew: with a clock spread of at most %s it would not happen.",
			out.Short(a.verdict.GreatestSpread.Bound))
	case a.verdict.Unconditional:
		return "Neither skew nor long jobs nor jumps of clocks are the problem: these clients do not exclude each other."
	case !a.possibleWithout(func(l *skew.Law) { l.Spread, l.Delay, l.Reply, l.Job = 0, 0, 0, l.Job-a.pause }):
		return "The problem is long pauses, which lengthen jobs: it happens even with perfect clocks, and would not happen without the pauses."
	}
	return "The problem is long jobs: it happens even with perfect clocks."
}

func (a *skewAnswer) whatToChange() []string {
	v := a.verdict
	if v.Unconditional {
		return []string{"To change: no setting helps. Take the lock by getsetlock run, which waits until races are over, and replace the old clients."}
	}
	var ways []string
	if lease, ok := a.safeLease(); ok {
		ways = append(ways, fmt.Sprintf("give every client a lease of %s or more", out.Short(lease)))
	}
	if v.LongestJob.Bounded && v.LongestJob.Bound > 0 && !v.LateWinner {
		ways = append(ways, fmt.Sprintf("or let no job hold the lock for more than %s",
			out.Short(v.LongestJob.Bound)))
	}
	if v.GreatestSpread.Bounded && v.GreatestSpread.Bound >= 0 && v.GreatestSpread.Bound < a.law.Spread {
		ways = append(ways, fmt.Sprintf("or keep the clock spread within %s",
			out.Short(v.GreatestSpread.Bound)))
	}
	if len(ways) == 0 {
		return nil
	}
	return []string{"To change: " + strings.Join(ways, "; ") + "."}
}

func (a *skewAnswer) whyNot() []string {
	v := a.verdict
	if !v.LongestJob.Bounded {
		return []string{
			"Why: these clients take a key only when it does not exist, and only its holder deletes it."}
	}
	text := fmt.Sprintf("Why: no job runs for more than %s, and with a clock spread of %s and writes up to %s late, no client takes the key over before %s.",
		out.Short(a.law.Job), out.Short(a.law.Spread), out.Short(a.law.Delay), out.Short(v.LongestJob.Bound))
	room := fmt.Sprintf("Room: jobs of up to %s are safe", out.Short(v.LongestJob.Bound))
	if v.GreatestSpread.Bounded {
		room += fmt.Sprintf(", or a clock spread of up to %s", out.Short(v.GreatestSpread.Bound))
	}
	return []string{text, room + ". Beyond that, a job, a pause or a clock's jump can lead to two holders."}
}

func (a *skewAnswer) wordsOfOurs() []string {
	says := []string{
		"Why: the server compares a token before it renews or releases a lock. A client measures its lease by elapsed time, from before it sent the request. No clock is compared with another, and a lease is renewed as long as its job runs.",
		"This assumes that the server loses no write, and that its clock does not jump by more than the margin at the end of a lease.",
	}
	if a.protocol == "sealed" {
		says = append(says, "Old clients wait: the value on key L looks held to all of them, however wrong their clocks are. An old client's job that began earlier and still runs deletes that value when it ends.")
	}
	return says
}

func (a *skewAnswer) besideOurs() string {
	mark := "a stamp that old clients read"
	if a.protocol == "dual" {
		mark = "a guard that no old client's clock takes for expired"
	}
	text :=
		"Two getsetlock clients never hold the lock together, whatever old clients do. They write on key L " + mark
	if l := a.verdict.LongestLease; l.Bounded && l.Bound > 0 {
		text += fmt.Sprintf("; their lease may be %s at most", out.Short(l.Bound))
	} else if l.Bounded {
		text += "; but for this fleet no lease of theirs is short enough, so they refuse to take part"
	}
	if a.verdict.Possible {
		return text + ". Where an old client overruns its lease, the getsetlock client learns that it lost the lock; it cannot keep the old client out."
	}
	return text + "."
}

// besideServer says what the server's clock means for old clients and
// getsetlock clients together.
func (a *skewAnswer) besideServer() []string {
	if !a.dialect.HasTakeover() {
		return nil
	}
	b := a.verdict.Beside
	text := fmt.Sprintf("The server's clock: it is unknown how far the old clients' clocks are off it. So a getsetlock client takes an old client's lock over only after it saw the same value twice, more than %s apart. Then no working old client loses its lock to it, however wrong the server's clock is. With --behind it need not wait for that.%s", out.Short(b.LookAge), a.unstated())
	if b.LookAge == 0 {
		text = fmt.Sprintf("The server's clock: a getsetlock client takes an old client's lock over when the server's clock is more than %s past its stamp.", out.Short(b.Margin))
		if limit := b.GreatestBehind.Bound; limit >= 0 {
			text += fmt.Sprintf(" An old client whose clock is more than %s behind the server's would lose its lock while it works: --behind must cover every server that may be promoted.", out.Short(limit))
		}
	}
	says := []string{text}
	if a.protocol != "dual" {
		says = append(says, fmt.Sprintf("The stamp of a getsetlock client lies %s beyond the end of its lease: only an old client whose clock is further than that ahead of the server's takes the lock while the lease runs.", out.Short(b.StampAhead)))
	}
	return says
}

// unstated says what a getsetlock client needs for a second look where the
// question names no lease, and so is answered for the dialect's own.
func (a *skewAnswer) unstated() string {
	if a.lease > 0 {
		return ""
	}
	return fmt.Sprintf(" The time between the looks is by a lease of %s, the dialect's own. That is not known to be the fleet's greatest. Until somebody states that (--lease or --greatest of getsetlock run, or the record of a migration), a getsetlock client takes no old client's lock over by a second look.", out.Short(a.law.Lease))
}

// percent returns a share with enough digits to differ from none and from all.
func percent(share float64) string {
	p := share * 100
	text := strconv.FormatFloat(p, 'f', 1, 64)
	switch {
	case p > 0 && p < 0.1:
		text = strconv.FormatFloat(p, 'g', 2, 64)
	case text == "100.0" && p < 100:
		text = "99.9"
	}
	return text + " %"
}

// lawRows returns the law's numbers.
func (a *skewAnswer) lawRows() [][]string {
	v := a.verdict
	clocks := "as given"
	if a.preset != nil {
		clocks = a.preset.Name + ", " + a.preset.Shape
	}
	rows := [][]string{
		{"protocol", a.protocol},
		{"dialect", a.dialect.Name},
		{"clocks", clocks},
		{"lease", out.Short(a.law.Lease)},
		{"longest job", out.Short(a.law.Job)},
		{"clock spread", out.Short(a.law.Spread)},
		{"writes late by up to", out.Short(a.law.Delay)},
		{"longest safe job", bound(v.LongestJob)},
		{"jobs that are longer", percent(a.unsafeShare(v))},
		{"greatest safe spread", bound(v.GreatestSpread)},
		{"two holders for up to", out.Short(a.verdict.Overlap)},
		{"free after a crash", recovery(v.Recovery)},
	}
	if v.Unconditional {
		rows = append(rows[:7], rows[len(rows)-1]) // these clients need no limit to be exceeded
	}
	if a.ours() && a.oldHold() {
		rows = append(rows, []string{"longest getsetlock lease", bound(v.LongestLease)})
		rows = append(rows, a.rowsOfServer()...)
	}
	return rows
}

// rowsOfServer returns what getsetlock clients assume where the server's clock
// counts.
func (a *skewAnswer) rowsOfServer() [][]string {
	if !a.dialect.HasTakeover() {
		return nil
	}
	known := func(claim time.Duration) string {
		d, ok := dialect.Claimed(claim)
		if !ok {
			return "unknown"
		}
		return out.Short(d)
	}
	b := a.verdict.Beside
	rows := [][]string{
		{"slowest clock behind the server's", known(a.behind)},
		{"fastest clock ahead of the server's", known(a.ahead)},
	}
	if b.LookAge > 0 {
		later := out.Short(b.LookAge) + " later"
		if a.lease == 0 {
			later += ", if a lease is stated"
		}
		rows = append(rows, []string{"takeover after a second look", later})
	} else {
		rows = append(rows, []string{"takeover past a stamp by", out.Short(b.Margin)})
	}
	if a.protocol != "dual" {
		rows = append(rows, []string{"getsetlock's stamp beyond the lease", out.Short(b.StampAhead)})
	}
	return rows
}

func bound(l skew.Limit) string {
	switch {
	case !l.Bounded:
		return "no limit"
	case l.Bound < 0:
		return "none is safe"
	}
	return out.Short(l.Bound)
}

func recovery(r skew.Recovery) string {
	switch {
	case r.Never:
		return "never"
	case r.Earliest == r.Latest:
		return out.Short(r.Latest)
	}
	return out.Short(r.Earliest) + " to " + out.Short(r.Latest)
}

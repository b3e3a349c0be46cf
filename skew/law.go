// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Law is the closed form of a timestamp lock. Given how long leases and jobs
// are, how late commands may come and how far clocks are apart: can two clients
// hold at once?
//
// The letters in comments are those of the formulas. E is Lease, J is Job, d is
// Delay and Δ is Spread. c is the dialect's slack, less one unit where equal
// counts as expired; see [dialect.Dialect.C].
//
// All times are the worst that happen, not averages. Only differences between
// the fleet's clocks count; how far all of them are from true time does not.
// With getsetlock clients the server is one of the clocks: see Behind and
// [Beside].
type Law struct {
	Dialect dialect.Dialect
	Lease   time.Duration // E, what the clients add to their clock; 0 means the dialect's own
	Job     time.Duration // J, from the winning write to the server executing the release
	// Delay is d, the longest time from any client's clock reading to the
	// server executing the write with that reading. The late GETSET of a paused
	// client counts too.
	Delay time.Duration
	// Reply is the longest time from the server executing a GETSET to its
	// sender judging the reply. It counts only in dialects that judge by a new
	// clock reading. There a value that was live when the GETSET replaced it
	// may have expired when its sender judges it, and another client may
	// already be working.
	Reply time.Duration
	// Spread is Δ, the fastest clock of the fleet less the slowest. It may
	// exceed the lease.
	Spread time.Duration
	// Behind and Ahead are how far the slowest clock is behind and the fastest
	// ahead of the server's clock. They matter only to getsetlock clients,
	// which use that clock. As in [dialect.Terms], 0 is unknown and
	// [dialect.Zero] is none.
	Behind, Ahead time.Duration
}

// Verdict is the law's answer. Spans that can be negative stay so: a LongestJob
// of −2 s says by how much the fleet exceeds any safe job.
type Verdict struct {
	// Possible says that two clients can hold at once.
	Possible bool
	// Unconditional says that two can hold even with perfect clocks, instant
	// commands and short jobs, because the dialect's own clients do not exclude
	// each other.
	Unconditional bool
	// LateWinner says that a client whose GETSET lost can take it for won. That
	// is so in dialects that judge by a new clock reading if Reply is more than
	// 0 and 2·Delay + Reply exceeds E + c − Δ. Then no job is safe, however
	// short.
	LateWinner bool
	// Overlap is how long two clients can hold together. The second client's
	// poll, which comes late, makes it shorter. Overlap is never longer than
	// the job. It is zero if two cannot hold together. It is also zero if only
	// Unconditional says that they can: then they do until a job ends.
	Overlap time.Duration

	Recovery Recovery

	// LongestJob is the longest safe job for this spread and delay.
	// GreatestSpread is the greatest safe spread for this job and delay; it is
	// not bounded where no spread does harm.
	LongestJob     Limit
	GreatestSpread Limit
	// LongestLease is the longest lease of a getsetlock client together with
	// this fleet, by the lease rule.
	LongestLease Limit

	Beside Beside
}

// Beside is what getsetlock clients do alongside this fleet if they believe
// these numbers. It also has the bounds on old clients' clocks beyond which one
// kind of client takes a lock from the other.
type Beside struct {
	// Margin is how far the server's clock must be past an old client's stamp
	// before a takeover.
	Margin time.Duration
	// LookAge is how long ago a look must have shown the same bytes; 0 if
	// Behind is known.
	LookAge time.Duration
	// StampAhead is how far a getsetlock stamp lies beyond the end of its
	// lease.
	StampAhead time.Duration
	// GreatestBehind is how far an old client's clock may be behind the
	// server's before its lock is taken during its job. It is not bounded while
	// LookAge applies and the fleet's own law holds.
	GreatestBehind Limit
	// GreatestAhead is how far an old client's clock may be ahead of the
	// server's before that client takes the stamp of a getsetlock client at
	// work. No clock takes a guard.
	GreatestAhead Limit
}

// Limit is a bound, or says that there is none.
type Limit struct {
	Bound   time.Duration
	Bounded bool
}

// String returns the bound, or "none".
func (l Limit) String() string {
	if !l.Bounded {
		return "none"
	}
	return l.Bound.String()
}

// Recovery is how long after its holder crashed a key becomes free for another
// client, counted from the holder's winning write. The clients' poll adds to
// it.
type Recovery struct {
	Earliest time.Duration // for the challenger whose clock is furthest ahead; never less than zero
	Latest   time.Duration // for the challenger whose clock is furthest behind
	// Never says that only a human frees the key. In the dialect whose waiters
	// all send EXPIRE, that is so only while a client waits.
	Never bool
}

// ParameterError reports a value for which the question makes no sense. A
// spread beyond the lease is not such a value: it has an answer.
type ParameterError struct {
	Field string
	Value any
	Bound string // what the value has to be
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("skew: %s %v: must be %s", e.Field, e.Value, e.Bound)
}

// Verdict computes the law's answer. Its error is a *ParameterError, or the
// dialect's.
func (l Law) Verdict() (Verdict, error) {
	l, err := l.filled()
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{Unconditional: !l.Dialect.Excludes(), Recovery: l.recovery()}
	v.LongestLease.Bound, v.LongestLease.Bounded = l.Dialect.LongestLease(dialect.Terms{
		Lease: l.Lease, Greatest: l.Lease, Spread: l.Spread, Gap: l.Delay,
	})
	if l.Dialect.HasTakeover() {
		room := l.Lease + l.Dialect.EffectiveSlack()
		v.LongestJob = Limit{room - l.Spread - l.Delay, true}
		v.GreatestSpread = Limit{room - l.Job - l.Delay, true}
	}
	// A value that was live when it was replaced has to expire before its
	// sender judges it, which takes a moment.
	if late := 2*l.Delay + l.Reply; l.judgesReplyAnew() && l.Reply > 0 {
		v.LateWinner = late > l.Lease+l.Dialect.EffectiveSlack()-l.Spread
		v.GreatestSpread.Bound = min(v.GreatestSpread.Bound, l.Lease+l.Dialect.EffectiveSlack()-late)
	}
	// The server frees a key by its own clock, without regard to any client's.
	if l.Dialect.ServerExpires() && (!v.LongestJob.Bounded || v.LongestJob.Bound > l.Lease) {
		v.LongestJob = Limit{l.Lease, true}
	}
	if v.outlasted(l.Job) {
		v.Overlap = min(l.Job-v.LongestJob.Bound, l.Job)
	}
	if v.LateWinner {
		v.Overlap = l.Job
	}
	v.Possible = v.Unconditional || v.LateWinner || v.outlasted(l.Job)
	v.Beside = l.beside()
	return v, nil
}

// outlasted reports whether a job is longer than the longest safe one. Even a
// job of length zero can be, where no lease is safe.
func (v Verdict) outlasted(job time.Duration) bool {
	return v.LongestJob.Bounded && job > v.LongestJob.Bound
}

// beside computes what getsetlock clients do alongside the fleet.
func (l Law) beside() Beside {
	if !l.Dialect.HasTakeover() {
		return Beside{}
	}
	terms := dialect.Terms{Lease: l.Lease, Greatest: l.Lease, Spread: l.Spread, Behind: l.Behind,
		Ahead: l.Ahead}
	b := Beside{Margin: terms.TakeoverMargin(), StampAhead: terms.StampAhead()}
	b.GreatestAhead = Limit{b.StampAhead + max(l.Dialect.EffectiveSlack(), 0), true}
	if _, known := dialect.Claimed(l.Behind); !known {
		b.LookAge, _ = terms.LookAge(l.Dialect)
		return b
	}
	// A getsetlock client waits for more than the margin, even where old
	// clients take an equal time for past.
	b.GreatestBehind = Limit{l.Lease + l.Dialect.Slack + b.Margin - l.Job - l.Delay, true}
	return b
}

// judgesReplyAnew reports whether the value that GETSET returned decides, by a
// clock reading made afterwards.
func (l Law) judgesReplyAnew() bool {
	d := l.Dialect
	return d.JudgesAnew && (d.Wins == dialect.WinsExpired || d.Wins == dialect.WinsExpiredOrNil)
}

// recovery computes when the key of a crashed holder becomes free.
func (l Law) recovery() Recovery {
	d := l.Dialect
	byServer := d.ServerExpires() && d.KeyTTL != dialect.TTLEverybody
	switch {
	case d.HasTakeover():
		room := l.Lease + d.EffectiveSlack()
		r := Recovery{Earliest: max(0, room-l.Spread-l.Delay), Latest: room + l.Spread}
		if byServer {
			r.Earliest, r.Latest = min(r.Earliest, l.Lease), min(r.Latest, l.Lease)
		}
		return r
	case byServer:
		return Recovery{Earliest: l.Lease, Latest: l.Lease}
	}
	return Recovery{Never: true}
}

// said returns what a field like those of dialect.Terms claims, 0 where it
// claims nothing.
func said(field time.Duration) time.Duration {
	d, _ := dialect.Claimed(field)
	return d
}

// filled fills in the dialect's own lease, checks all fields, and cuts the
// lease as the clients do.
func (l Law) filled() (Law, error) {
	if err := l.Dialect.Validate(); err != nil {
		return l, err
	}
	if l.Lease == 0 {
		l.Lease = l.Dialect.Lease
	}
	timed := l.Dialect.HasTakeover() || l.Dialect.ServerExpires()
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Lease", l.Lease}, {"Job", l.Job}, {"Delay", l.Delay}, {"Reply", l.Reply}, {"Spread", l.Spread},
		{"Behind", said(l.Behind)}, {"Ahead", said(l.Ahead)}} {
		if f.value < 0 {
			return l, &ParameterError{f.name, f.value, "at least 0"}
		}
		if f.value > dialect.LongestStamp {
			return l, &ParameterError{f.name, f.value, fmt.Sprintf("at most %v", dialect.LongestStamp)}
		}
	}
	if l.Lease == 0 && timed {
		return l, &ParameterError{"Lease", l.Lease,
			"more than 0: " + l.Dialect.Name + " has no lease of its own"}
	}
	if step := l.Dialect.Unit.Step(); step > 0 && l.Lease%step != 0 {
		if !l.Dialect.CutLease {
			return l, &ParameterError{
				"Lease", l.Lease, fmt.Sprintf("a whole number of %v, the unit of %s", step, l.Dialect.Name)}
		}
		l.Lease -= l.Lease % step
	}
	return l, nil
}

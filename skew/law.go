package skew

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Law is the closed form of a timestamp lock: given how long leases and jobs are, how late commands
// may come and how far clocks are apart, can two clients hold at once?
//
// All times are the worst that happen, not averages. Only differences between the fleet's clocks
// count; how far all of them are from true time together does not. Beside getsetlock clients the server is one of
// the clocks: see Behind and [Beside].
type Law struct {
	Dialect dialect.Dialect
	Lease   time.Duration // E, what the clients add to their clock; 0 takes the dialect's own
	Job     time.Duration // J, from the winning write to the server executing the release
	// Delay is d, the longest time from any client's clock reading to the server executing the write
	// that carries it. A paused loser's late GETSET counts.
	Delay time.Duration
	// Reply is the longest time from the server executing a GETSET to its sender judging what it returned.
	// It counts in dialects that judge that by a new clock reading: a value that was live when it was
	// replaced may have expired when it is looked at, and the replaced holder's successor may be working.
	Reply  time.Duration
	Spread time.Duration // Δ, the greatest clock of the fleet less the smallest; at most a lease makes sense, more is answered
	// Behind and Ahead are how far the slowest clock is behind, the fastest ahead of the server's. They are nothing to old
	// clients alone: only getsetlock clients beside them go by the server's clock. As in [dialect.Terms], 0 is
	// not known, and [dialect.Zero] is none.
	Behind, Ahead time.Duration
}

// Verdict is what the law says. Spans that can come out negative are left so: a LongestJob of −2 s says
// by how much the fleet is beyond any safe job.
type Verdict struct {
	// Possible: two clients can hold at once.
	Possible bool
	// Unconditional: they can with perfect clocks, instant commands and short jobs too, because the
	// dialect's own clients do not exclude each other.
	Unconditional bool
	// LateWinner: a client whose GETSET lost can take it for won, because Reply is not nothing and
	// 2·Delay + Reply exceeds E + c − Δ. No job is safe then, however short.
	LateWinner bool
	// Overlap is how long two can hold together, before what the challenger loses by polling late.
	// Zero if they can't, or if Unconditional alone says that they can: then jobs end it. It is never
	// longer than the job, in which the first of the two ends.
	Overlap time.Duration

	Recovery Recovery

	// LongestJob is the longest safe one for this spread and delay, GreatestSpread the greatest
	// tolerable one for this job and delay. Of the second, ok is false where no spread does harm.
	LongestJob     Limit
	GreatestSpread Limit
	// LongestLease is the longest lease of ours beside this fleet, by the lease rule.
	LongestLease Limit

	Beside Beside
}

// Beside is what getsetlock clients go by beside this fleet, who believe its numbers, and what else the clocks may be before
// one of the two robs the other.
type Beside struct {
	// Margin is how far the server's clock has to be past an old client's stamp before it is taken over.
	Margin time.Duration
	// LookAge is how long ago, while Behind is not known, a look must have shown the same bytes; 0 where it is.
	LookAge time.Duration
	// StampAhead is how far beyond the end of its lease a stamp lies.
	StampAhead time.Duration
	// GreatestBehind bounds what a clock may be behind the server's before its client's job is robbed. Nothing bounds
	// it where LookAge does, and the fleet's own law holds.
	GreatestBehind Limit
	// GreatestAhead bounds what a clock may be ahead of the server's before its client takes a stamp of a
	// getsetlock client that is at work. No clock takes a guard.
	GreatestAhead Limit
}

// Limit is a bound, or says that nothing bounds.
type Limit struct {
	Bound   time.Duration
	Bounded bool
}

// String is the bound, or "none".
func (l Limit) String() string {
	if !l.Bounded {
		return "none"
	}
	return l.Bound.String()
}

// Recovery is how long after its holder crashed a key becomes free for somebody else, counted from the
// holder's winning write. The clients' poll comes on top.
type Recovery struct {
	Earliest time.Duration // for the challenger that is furthest ahead; never less than zero
	Latest   time.Duration // for the one that is furthest behind
	// Never: only a human frees it. In the dialect whose waiters all send EXPIRE, while any waits.
	Never bool
}

// ParameterError is a value for which there is no question to answer. A spread beyond the lease is
// none: it has an answer.
type ParameterError struct {
	Field string
	Value any
	Bound string // what the value has to be
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("skew: %s %v: must be %s", e.Field, e.Value, e.Bound)
}

// Verdict works the law out. It fails with a *ParameterError.
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
		room := l.Lease + l.Dialect.C()
		v.LongestJob = Limit{room - l.Spread - l.Delay, true}
		v.GreatestSpread = Limit{room - l.Job - l.Delay, true}
	}
	// What was live when it was replaced has to expire before it is looked at: that takes a moment.
	if late := 2*l.Delay + l.Reply; l.judgesReplyAnew() && l.Reply > 0 {
		v.LateWinner = late > l.Lease+l.Dialect.C()-l.Spread
		v.GreatestSpread.Bound = min(v.GreatestSpread.Bound, l.Lease+l.Dialect.C()-late)
	}
	// The server frees a key without asking anybody's clock but its own.
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

// outlasted says that a job is longer than the longest safe one. A job of no
// length can be, where no lease is safe.
func (v Verdict) outlasted(job time.Duration) bool {
	return v.LongestJob.Bounded && job > v.LongestJob.Bound
}

func (l Law) beside() Beside {
	if !l.Dialect.HasTakeover() {
		return Beside{}
	}
	terms := dialect.Terms{Lease: l.Lease, Greatest: l.Lease, Spread: l.Spread, Behind: l.Behind, Ahead: l.Ahead}
	b := Beside{Margin: terms.TakeoverMargin(), StampAhead: terms.StampAhead()}
	b.GreatestAhead = Limit{b.StampAhead + max(l.Dialect.C(), 0), true}
	if _, known := dialect.Claimed(l.Behind); !known {
		b.LookAge = terms.LookAge(l.Dialect)
		return b
	}
	// A getsetlock client asks for more than the margin, also where old clients take an equal time for past.
	b.GreatestBehind = Limit{l.Lease + l.Dialect.Slack + b.Margin - l.Job - l.Delay, true}
	return b
}

// judgesReplyAnew: the value that GETSET returned decides, by what the clock says when it is looked at.
func (l Law) judgesReplyAnew() bool {
	d := l.Dialect
	return d.JudgesAnew && (d.Wins == dialect.WinsExpired || d.Wins == dialect.WinsExpiredOrNil)
}

func (l Law) recovery() Recovery {
	d := l.Dialect
	byServer := d.ServerExpires() && d.KeyTTL != dialect.TTLEverybody
	switch {
	case d.HasTakeover():
		room := l.Lease + d.C()
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

// filled puts the dialect's own lease in, checks all fields, and cuts the lease as the clients do.
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
	}{{"Lease", l.Lease}, {"Job", l.Job}, {"Delay", l.Delay}, {"Reply", l.Reply}, {"Spread", l.Spread}, {"Behind", model.Said(l.Behind)}, {"Ahead", model.Said(l.Ahead)}} {
		if f.value < 0 {
			return l, &ParameterError{f.name, f.value, "at least 0"}
		}
		if f.value > dialect.LongestStamp {
			return l, &ParameterError{f.name, f.value, fmt.Sprintf("at most %v", dialect.LongestStamp)}
		}
	}
	if l.Lease == 0 && timed {
		return l, &ParameterError{"Lease", l.Lease, "more than 0: " + l.Dialect.Name + " has no lease of its own"}
	}
	if step := l.Dialect.Unit.Step(); step > 0 && l.Lease%step != 0 {
		if !l.Dialect.CutLease {
			return l, &ParameterError{"Lease", l.Lease, fmt.Sprintf("a whole number of %v, the unit of %s", step, l.Dialect.Name)}
		}
		l.Lease -= l.Lease % step
	}
	return l, nil
}

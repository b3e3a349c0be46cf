package simulate

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Ours are getsetlock clients beside a simulation's old ones, or alone. They hold a token on M and
// their mark on L by the rules of docs/protocol.md: both or neither, takeover by the server's clock and a
// second look, settle, renewal, trust from before sending. They are told of changes of a held or awaited key,
// a message's way later. A lease in phase modern is no longer than in sealed.
//
// They keep time by elapsed time and are right about it; machines that stand still stop them like old
// clients.
//
// HAZARD: one that stands still beyond its lease holds, for the count, until it goes on and is
// told: what it had under way cannot be called back, by no lock. Only fencing helps against that.
type Ours struct {
	Clients int        // 0 to 10,000
	Phase   skew.Phase // "" is observe, which is hardened; clean is the token lock alone

	// Terms are what ours believe of the old clients; Lease is the simulation's, the rest defaults as
	// [dialect.Dialect.Terms] has it. While Behind is unset ours take over by a second look.
	Terms dialect.Terms
	// Measured: Terms.Behind was measured, and says nothing of another server. Else it is a claim.
	Measured bool

	Job Distribution // zero: as that of the old ones

	TTL            time.Duration // defaults to the lesser of 30 s and half the old lease
	Margin         time.Duration // before its end a lease is no longer trusted; defaults to Terms.DefaultMargin
	RenewEvery     time.Duration // defaults to a third of TTL
	RetryEvery     time.Duration // of waiters that nobody woke; defaults to 100 ms
	Settle         time.Duration // defaults to Terms.Settle
	TakeoverMargin time.Duration // defaults to Terms.TakeoverMargin
	Stop           time.Duration // from told lost to the job having stopped
	SettleAlways   bool          // after every acquisition, not only after takeovers
	Polls          bool          // nobody is woken or told; waiters poll, losses are found by renewals
	// AnyLease takes a TTL that breaks the lease rule, to show what that does.
	AnyLease bool
}

// Losses counts leases of ours that ended by something else than their holder, by what it was.
type Losses struct {
	Pause   int64 // a GETSET that came longer than the gap after its sender's clock reading
	Overrun int64 // the DEL of an old client that did not hold any more
	Missing int64 // a GETSET by a client that had found the key missing, within the gap
	Race    int64 // a GETSET by a client that had found an older value expired, within the gap
	Clock   int64 // a takeover by a client whose clock took our stamp for expired
	Expire  int64 // an EXPIRE of theirs, or the server's, ended the mark
	Own     int64 // trust ran out: our own machine stood still, or messages took too long
}

// Total is all of them.
func (l Losses) Total() int64 {
	return l.Pause + l.Overrun + l.Missing + l.Race + l.Clock + l.Expire + l.Own
}

// count adds one of a kind.
func (l *Losses) count(k loss) {
	switch k {
	case lossPause:
		l.Pause++
	case lossOverrun:
		l.Overrun++
	case lossMissing:
		l.Missing++
	case lossRace:
		l.Race++
	case lossClock:
		l.Clock++
	case lossExpire:
		l.Expire++
	default:
		l.Own++
	}
}

type loss uint8

const (
	lossOwn loss = iota
	lossPause
	lossOverrun
	lossMissing
	lossRace
	lossClock
	lossExpire
)

// OurRates is what a simulation saw of ours; all of it is in Rates, too.
type OurRates struct {
	Acquisitions int64
	Takeovers    int64
	// Retried are acquisitions whose mark was gone when they had settled: by what, as with Lost. Nobody was
	// told that it held.
	Retried Losses
	Lost    Losses // leases told lost
	// BesideOurs are acquisitions of ours while another of ours held; BesideOld are those of either kind
	// while one of the other kind held; BesideStopped those of either kind while nobody else held but one of
	// ours whose machine stood still beyond the end of its trust, and which was told when it went on.
	BesideOurs, BesideOld, BesideStopped int64

	WaitP50, WaitP99, WaitMost time.Duration
}

// filledOurs puts in what the rules have for the dialect and checks it.
func (s Fleet) filledOurs() (Ours, error) {
	o := s.Ours
	if _, ok := model.PhaseOf(string(o.Phase)); !ok {
		return o, impossible("Ours.Phase", o.Phase, "one of observe, dual, sealed, modern, clean")
	}
	if o.Clients < 0 || o.Clients > 10_000 {
		return o, impossible("Ours.Clients", o.Clients, "from 0 to 10000")
	}
	if o.Clients == 0 {
		return o, nil
	}
	if o.Job.kind == constant && o.Job.a == 0 {
		o.Job = s.Job
	}
	if err := o.Job.check("Ours.Job"); err != nil {
		return o, err
	}
	o.Terms.Lease = s.Lease
	terms, err := s.Dialect.Terms(o.Terms)
	if err != nil {
		return o, impossible("Ours.Terms", fmt.Sprintf("(spread %v, gap %v)", model.Said(o.Terms.Spread), model.Said(o.Terms.Gap)), "such that they leave something of a lease of "+s.Lease.String())
	}
	o.Terms = terms
	setZero(&o.TTL, terms.DefaultTTL())
	setZero(&o.Margin, terms.DefaultMargin(o.TTL))
	setZero(&o.RenewEvery, dialect.DefaultRenewal(o.TTL))
	setZero(&o.RetryEvery, 100*time.Millisecond)
	setZero(&o.Settle, terms.Settle())
	setZero(&o.TakeoverMargin, terms.TakeoverMargin())
	return o, s.checkOurs(o)
}

func setZero(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

func (s Fleet) checkOurs(o Ours) error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"Ours.TTL", o.TTL}, {"Ours.Margin", o.Margin}, {"Ours.RenewEvery", o.RenewEvery}, {"Ours.RetryEvery", o.RetryEvery},
		{"Ours.Settle", o.Settle}, {"Ours.TakeoverMargin", o.TakeoverMargin}, {"Ours.Stop", o.Stop},
	} {
		if f.d < 0 || f.d > dialect.LongestStamp {
			return impossible(f.name, f.d, fmt.Sprintf("from 0 to %v", dialect.LongestStamp))
		}
	}
	if o.TTL <= o.Margin {
		return impossible("Ours.Margin", o.Margin, fmt.Sprintf("less than TTL, %v", o.TTL))
	}
	if o.Phase == skew.PhaseClean || o.AnyLease {
		return nil
	}
	if longest, bound := s.Dialect.LongestLease(o.Terms); bound && o.TTL > longest {
		return impossible("Ours.TTL", o.TTL, fmt.Sprintf("at most %v by the lease rule", longest))
	}
	return nil
}

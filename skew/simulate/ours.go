package simulate

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
	"github.com/getsetlock/getsetlock/skew/internal/model"
)

// Ours are getsetlock clients together with a simulation's old ones, or alone.
// They hold a token on M and their mark on L by the rules of docs/protocol.md:
// both or neither, takeover by the server's clock and a second look, settle,
// renewal, trust from before sending. They learn of changes of a held or
// awaited key a message's way later. A lease in phase modern is no longer than
// in sealed.
//
// They measure elapsed time correctly. A machine that stands still stops them
// like old clients.
//
// HAZARD: a client whose machine stands still beyond its lease counts as a
// holder until the machine continues and the client learns of the loss. No lock
// can call back what it had under way; only fencing helps.
type Ours struct {
	Clients int        // 0 to 10,000
	Phase   skew.Phase // "" is observe, which is hardened; clean is the token lock alone

	// Terms are what these clients believe of the old ones. Lease is the
	// simulation's; other defaults are those of [dialect.Dialect.Terms]. While
	// Behind is unset they take over by a second look.
	Terms dialect.Terms

	Job Distribution // zero: the old clients' jobs

	TTL time.Duration // defaults to the lesser of 30 s and half the old lease
	// how long before its end a lease is no longer trusted; defaults to
	// Terms.DefaultMargin
	Margin         time.Duration
	RenewEvery     time.Duration // defaults to a third of TTL
	RetryEvery     time.Duration // of waiters that were not woken; defaults to 100 ms
	Settle         time.Duration // defaults to Terms.Settle
	TakeoverMargin time.Duration // defaults to Terms.TakeoverMargin
	Stop           time.Duration // from learning of a loss to the job having stopped
	SettleAlways   bool          // settle after every acquisition, not only after takeovers
	Polls          bool          // no client is woken or told; waiters poll, renewals find losses
	// AnyLease accepts a TTL that breaks the lease rule, to show the effect.
	AnyLease bool
}

// Losses counts getsetlock leases that something other than their holder ended,
// by what it was.
type Losses struct {
	Pause   int64 // a GETSET that came longer than the gap after its sender's clock reading
	Overrun int64 // a DEL by an old client that did not hold any more
	Missing int64 // a GETSET by a client that had found the key missing, within the gap
	Race    int64 // a GETSET by a client that had found an older value expired, within the gap
	Clock   int64 // a takeover by a client whose clock took the getsetlock stamp for expired
	Expire  int64 // an old client's EXPIRE, or the server's clock, ended the mark
	Own     int64 // trust ran out: the client's own machine stood still, or messages took too long
}

// Total returns the sum of all.
func (l Losses) Total() int64 {
	return l.Pause + l.Overrun + l.Missing + l.Race + l.Clock + l.Expire + l.Own
}

// count adds a loss of one kind.
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

// OurRates is what a simulation saw of the getsetlock clients; Rates includes
// all of it.
type OurRates struct {
	Acquisitions int64
	Takeovers    int64
	// Retried are acquisitions whose mark was gone after the settle, by cause
	// as in Lost. Their clients never held.
	Retried Losses
	Lost    Losses // leases that holders lost
	// BesideOurs are acquisitions of getsetlock clients while another one held.
	// BesideOld are acquisitions of either kind while a client of the other
	// kind held. BesideStopped are those of either kind while the only other
	// holder was a getsetlock client whose machine stood still beyond the end
	// of its trust, and which learned of it later.
	BesideOurs, BesideOld, BesideStopped int64

	WaitP50, WaitP99, WaitMost time.Duration
}

// filledOurs fills in the rules' values for the dialect and checks all fields.
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
		return o, impossible("Ours.Terms",
			fmt.Sprintf("(spread %v, gap %v)", model.Said(o.Terms.Spread), model.Said(o.Terms.Gap)),
			"such that they leave something of a lease of "+s.Lease.String())
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
		{"Ours.TTL", o.TTL}, {"Ours.Margin", o.Margin}, {"Ours.RenewEvery", o.RenewEvery},
		{"Ours.RetryEvery", o.RetryEvery},
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

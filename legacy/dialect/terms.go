package dialect

import (
	"errors"
	"fmt"
	"time"
)

// Terms are what is known of the fleet of old clients, as claimed or measured. The zero value of a
// field takes its default in [Dialect.Terms].
//
// HAZARD: exclusion beside legacy clients hangs on these. A lease smaller or a pause longer than
// stated lets two hold, and nothing on the wire shows it beforehand.
type Terms struct {
	Lease    time.Duration // E, the smallest lease of any old client; defaults to the dialect's own
	Greatest time.Duration // the greatest lease of any old client; defaults to Lease
	Spread   time.Duration // S, greatest less smallest clock of the fleet; defaults to the lesser of 1 s and Lease/20
	// Gap is g, the longest time from an old client's clock reading to the server executing its
	// GETSET, pauses included; defaults to the lesser of 1 s and Lease/20.
	Gap time.Duration
}

// Errors of the arithmetic. The texts name both fields and the bound.
var (
	ErrNoLease   = errors.New("lease must be given")
	ErrTerms     = errors.New("terms don't fit")
	ErrLeaseRule = errors.New("lease rule")
)

// settleBeyondGap makes a settle strictly longer than the gap, also on machines that wake late: in
// or-mine dialects an equal one is not enough.
const settleBeyondGap = 100 * time.Millisecond

// Terms fills in the defaults and checks the result. It fails with ErrNoLease where the dialect has no
// lease of its own and t names none, and with ErrTerms where fields contradict each other. In dialects
// without takeover all four may stay zero.
func (d Dialect) Terms(t Terms) (Terms, error) {
	if t.Lease < 0 || t.Greatest < 0 || t.Spread < 0 || t.Gap < 0 {
		return Terms{}, fmt.Errorf("%w: Lease, Greatest, Spread and Gap can't be negative", ErrTerms)
	}
	if t.Lease == 0 {
		t.Lease = d.Lease
	}
	if t.Lease == 0 && d.leaseBound() {
		return Terms{}, fmt.Errorf("%w: %s has no default, so Lease has to state the old clients' smallest", ErrNoLease, d.Name)
	}
	if t.Greatest == 0 {
		t.Greatest = t.Lease
	}
	if t.Greatest < t.Lease {
		return Terms{}, fmt.Errorf("%w: Greatest %s is less than Lease %s", ErrTerms, t.Greatest, t.Lease)
	}
	if t.Spread == 0 {
		t.Spread = min(time.Second, t.Lease/20)
	}
	if t.Gap == 0 {
		t.Gap = min(time.Second, t.Lease/20)
	}
	if longest, bound := d.LongestLease(t); bound && longest <= 0 {
		return Terms{}, fmt.Errorf("%w: Spread %s and Gap %s leave nothing of Lease %s", ErrTerms, t.Spread, t.Gap, t.Lease)
	}
	return t, nil
}

// C is the dialect's slack in the law of the timestamp lock: what is added to the lease, less one unit
// where equal counts as expired. Float dialects have no unit to lose. It can be negative.
func (d Dialect) C() time.Duration {
	if d.Inclusive && d.Unit != UnitFloatSeconds {
		return d.Slack - d.Unit.Step()
	}
	return d.Slack
}

// LongestLease is E + c - S - g: the longest lease of ours beside honest clients of the dialect, and
// the longest job of theirs for which they are honest. It says false where nothing bounds it: in
// dialects without takeover, except where every waiter's EXPIRE cuts the key to the lease.
func (d Dialect) LongestLease(t Terms) (time.Duration, bool) {
	switch {
	case d.HasTakeover():
		return t.Lease + d.C() - t.Spread - t.Gap, true
	case d.KeyTTL == TTLEverybody:
		return t.Lease, true
	}
	return 0, false
}

func (d Dialect) leaseBound() bool { return d.HasTakeover() || d.KeyTTL == TTLEverybody }

// Settle is how long ours looks again after a takeover before it says "held".
func (t Terms) Settle() time.Duration { return t.Gap + settleBeyondGap }

// TakeoverMargin is how far past a stamp the server's clock must be before ours takes over.
func (t Terms) TakeoverMargin() time.Duration { return t.Spread }

// DefaultTTL is the lease of ours where none is given: the lesser of 30 s and half the old clients'.
// Without a Lease it is 30 s.
func (t Terms) DefaultTTL() time.Duration {
	const longest = 30 * time.Second
	if t.Lease == 0 {
		return longest
	}
	return min(longest, t.Lease/2)
}

// DefaultMargin is the trust margin: a tenth of the TTL for the job to stop in, and with a stamp on L
// the spread beside it. The greater of the two is not enough: the fastest old client may take the stamp
// over by so much early, while the job that was told so still stops (package skew has the trace).
func (t Terms) DefaultMargin(ttl time.Duration, stamp bool) time.Duration {
	if stamp {
		return ttl/10 + t.Spread
	}
	return ttl / 10
}

// DefaultRenewal is every third of the TTL.
func DefaultRenewal(ttl time.Duration) time.Duration { return ttl / 3 }

// CheckLease is the lease rule: ours may not outlive a stamp that a stalled loser could leave over
// our mark. ttl is ours; the error wraps ErrLeaseRule and names TTL, the terms and the bound.
func (d Dialect) CheckLease(ttl time.Duration, t Terms) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: TTL %s is not positive", ErrLeaseRule, ttl)
	}
	longest, bound := d.LongestLease(t)
	switch {
	case !bound || ttl <= longest:
		return nil
	case !d.HasTakeover():
		return fmt.Errorf("%w: TTL %s exceeds Lease %s, to which every waiting %s client cuts the key",
			ErrLeaseRule, ttl, t.Lease, d.Name)
	}
	return fmt.Errorf("%w: TTL %s exceeds %s, which Lease %s of %s allows (Lease + c %s - Spread %s - Gap %s)",
		ErrLeaseRule, ttl, longest, t.Lease, d.Name, d.C(), t.Spread, t.Gap)
}

// CheckTimes asks that a lease is longer than what it must pay for before it can be used: the settle,
// the trust margin and one renewal period. settle is zero where there is none.
func CheckTimes(ttl, settle, margin, renewEvery time.Duration) error {
	if need := settle + margin + renewEvery; ttl <= need {
		return fmt.Errorf("%w: TTL %s must be longer than %s: settle %s + Margin %s + RenewEvery %s",
			ErrLeaseRule, ttl, need, settle, margin, renewEvery)
	}
	return nil
}

// Fits checks a lease of ours against the fleet: the lease rule, and CheckTimes with the settle where
// the dialect has takeovers.
func (d Dialect) Fits(ttl, renewEvery, margin time.Duration, t Terms) error {
	if err := d.CheckLease(ttl, t); err != nil {
		return err
	}
	settle := time.Duration(0)
	if d.HasTakeover() {
		settle = t.Settle()
	}
	return CheckTimes(ttl, settle, margin, renewEvery)
}

// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Terms are what is known of the fleet of old clients, as claimed or measured.
//
// A field that is zero is unset. Lease, Greatest, Spread and Gap then take the
// default of [Dialect.Terms]; an unset Behind or Ahead stays unknown. [Zero]
// claims that the quantity is zero, which an unset field never does.
//
// HAZARD: exclusion together with old clients depends on these. If an old
// client has a smaller lease or a longer pause than stated, two clients can
// hold the lock, and nothing on the wire shows it beforehand. The same holds
// for a claimed Behind that is too small.
type Terms struct {
	Lease time.Duration // E, the smallest lease of any old client; defaults to the dialect's own
	// Greatest is Emax, the greatest lease of any old client. Defaults to Lease
	// where that is stated. Where neither is, it is [Unstated]: the lease that
	// a library ships with says nothing of the fleet's greatest.
	Greatest time.Duration
	// Spread is S, the fastest old client's clock less the slowest one's. It
	// says nothing of the server's clock. Defaults to the lesser of 1 s and
	// Lease/20.
	Spread time.Duration
	// Gap is g, the longest time from an old client's clock reading to the
	// server executing its GETSET, pauses included. Defaults to the lesser of 1
	// s and Lease/20.
	Gap time.Duration
	// Behind is B, how far the slowest old client's clock is behind the
	// server's clock. While it is unknown, a takeover waits for a second look
	// (see [Terms.LookAge]).
	Behind time.Duration
	// Ahead is A, how far the fastest old client's clock is ahead of the
	// server's clock. A stamp that a getsetlock client writes lies a day and A
	// beyond the end of its lease.
	Ahead time.Duration
}

// Zero claims that a quantity of [Terms] is zero, as in
// Terms{Behind: dialect.Zero}. An unset field claims nothing.
const Zero time.Duration = math.MinInt64

// Unstated is a completed [Terms].Greatest that nobody stated. Without it no
// age of a look permits a takeover.
const Unstated time.Duration = math.MinInt64 + 1

// Claimed returns what a field of [Terms] claims, and false where it is unset.
func Claimed(field time.Duration) (time.Duration, bool) {
	if field == Zero {
		return 0, true
	}
	return field, field != 0
}

// Claim returns the field of [Terms] that claims d: Zero where d is 0.
func Claim(d time.Duration) time.Duration {
	if d == 0 {
		return Zero
	}
	return d
}

// Bound returns what a field of [Terms] claims; an unset field counts as zero.
func Bound(field time.Duration) time.Duration {
	d, _ := Claimed(field)
	return d
}

// ErrNoLease is wrapped by the error of [Dialect.Terms] when Lease is unset and
// the dialect has no default.
var ErrNoLease = errors.New("lease must be given")

// The other errors of this file. Their texts name both fields and the bound.
var (
	errTerms     = errors.New("terms don't fit")
	errLeaseRule = errors.New("lease rule")
)

// settleBeyondGap makes a settle strictly longer than the gap, even on machines
// that wake late. In or-mine dialects an equal one is not enough.
const settleBeyondGap = 100 * time.Millisecond

// Terms fills in the defaults and checks the result. Behind and Ahead have no
// default: an unknown bound stays unset. The error wraps ErrNoLease where
// neither the dialect nor t has a lease; other errors name fields that
// contradict each other. In dialects without takeover all fields may stay
// unset. A completed Terms is returned unchanged.
func (d Dialect) Terms(t Terms) (Terms, error) {
	if err := t.signs(); err != nil {
		return Terms{}, err
	}
	if err := d.leases(&t); err != nil {
		return Terms{}, err
	}
	if t.Spread == 0 {
		t.Spread = min(time.Second, t.Lease/20)
	}
	if t.Gap == 0 {
		t.Gap = min(time.Second, t.Lease/20)
	}
	if longest, bounded := d.LongestLease(t); bounded && longest <= 0 {
		return Terms{}, fmt.Errorf("%w: Spread %s and Gap %s leave nothing of Lease %s", errTerms,
			Bound(t.Spread), Bound(t.Gap), t.Lease)
	}
	return t, nil
}

// leases fills in Lease and Greatest and checks them.
func (d Dialect) leases(t *Terms) error {
	switch {
	case d.StartTime && (t.Lease != 0 && t.Lease != d.Lease || t.Greatest > 0 && t.Greatest != d.Lease):
		return fmt.Errorf(
			"%w: Lease and Greatest of %s are %s, which its readers add to the start in a value",
			errTerms, d.Name, d.Lease)
	case t.Lease == 0:
		if t.Lease = d.Lease; t.Greatest == 0 && !d.StartTime {
			t.Greatest = Unstated
		}
	}
	if t.Lease == 0 && d.leaseBound() {
		return fmt.Errorf("%w: %s has no default, so Lease has to state the old clients' smallest",
			ErrNoLease, d.Name)
	}
	if t.Greatest == 0 {
		t.Greatest = t.Lease
	}
	if t.Greatest < t.Lease && t.Greatest != Unstated {
		return fmt.Errorf("%w: Greatest %s is less than Lease %s", errTerms, t.Greatest, t.Lease)
	}
	return nil
}

// signs refuses negative fields. If a whole fleet is ahead, its Behind is zero;
// if a whole fleet is behind, its Ahead is zero.
func (t Terms) signs() error {
	if t.Lease < 0 || t.Greatest < 0 && t.Greatest != Unstated {
		return fmt.Errorf("%w: Lease and Greatest can't be negative", errTerms)
	}
	for _, field := range []time.Duration{t.Spread, t.Gap, t.Behind, t.Ahead} {
		if Bound(field) < 0 {
			return fmt.Errorf("%w: Spread, Gap, Behind and Ahead can't be negative", errTerms)
		}
	}
	return nil
}

// EffectiveSlack is c in the law of the timestamp lock: what the dialect adds
// to the lease, less one unit where equal counts as expired. Float dialects
// have no unit to subtract. It can be negative.
func (d Dialect) EffectiveSlack() time.Duration {
	if d.Inclusive && d.Unit != UnitFloatSeconds {
		return d.Slack - d.Unit.Step()
	}
	return d.Slack
}

// LongestLease returns E + c - S - g. That is the longest lease of a getsetlock
// client that shares the lock with honest old clients. It is also the longest
// job for which an old client is honest. The result is false in dialects
// without takeover, unless every waiter's EXPIRE cuts the key to the lease.
func (d Dialect) LongestLease(t Terms) (time.Duration, bool) {
	switch {
	case d.HasTakeover():
		return t.Lease + d.EffectiveSlack() - Bound(t.Spread) - Bound(t.Gap), true
	case d.KeyTTL == TTLEverybody:
		return t.Lease, true
	}
	return 0, false
}

func (d Dialect) leaseBound() bool { return d.HasTakeover() || d.KeyTTL == TTLEverybody }

// Settle is how long a getsetlock client waits after a takeover before it looks
// again and says "held".
func (t Terms) Settle() time.Duration { return Bound(t.Gap) + settleBeyondGap }

// TakeoverMargin is how far past a stamp the server's clock must be before a
// getsetlock client takes over: the greater of Spread and Behind. Where Behind
// is unknown this margin is not enough; see [Terms.LookAge].
func (t Terms) TakeoverMargin() time.Duration { return max(Bound(t.Spread), Bound(t.Behind)) }

// LookAge returns how long ago a look must have shown the present bytes before
// a getsetlock client that does not know Behind may take them over. It is the
// greatest lease, the dialect's slack c and one unit. By then an honest holder
// has ended, whatever any clock says: it read its clock before the look, and an
// honest lease runs no longer. It is unknown where the greatest lease is
// [Unstated] or zero.
func (t Terms) LookAge(d Dialect) (age time.Duration, known bool) {
	if t.Greatest <= 0 {
		return 0, false
	}
	return t.Greatest + max(d.EffectiveSlack(), 0) + max(d.Unit.Step(), time.Microsecond), true
}

// StampAhead returns how far a getsetlock client's stamp lies beyond the end of
// its lease: a day, and Ahead where that is known. No old client whose clock is
// less than that ahead of the server's takes the stamp for expired.
func (t Terms) StampAhead() time.Duration { return stampDay + Bound(t.Ahead) }

// stampDay exceeds every clock error that NTP corrects and most that people
// make; a clock in the wrong time zone is hours off.
const stampDay = 24 * time.Hour

// DefaultTTL returns the default lease of a getsetlock client: the lesser of 30
// s and half the old clients' lease. Without a Lease it is 30 s.
func (t Terms) DefaultTTL() time.Duration {
	const longest = 30 * time.Second
	if t.Lease == 0 {
		return longest
	}
	return min(longest, t.Lease/2)
}

// DefaultMargin returns the trust margin: a tenth of the TTL, within which a
// job that learns of its loss stops. It need not cover how far old clients'
// clocks are ahead, since the stamp lies that far beyond the lease (see
// [Terms.StampAhead]).
func (t Terms) DefaultMargin(ttl time.Duration) time.Duration { return ttl / 10 }

// CheckLease applies the lease rule: a getsetlock client's lease may not
// outlast the stamp that a delayed old client may write over its value. ttl is
// the getsetlock client's. The error names TTL, the terms and the bound.
func (d Dialect) CheckLease(ttl time.Duration, t Terms) error {
	if ttl <= 0 {
		return fmt.Errorf("%w: TTL %s is not positive", errLeaseRule, ttl)
	}
	longest, bounded := d.LongestLease(t)
	switch {
	case !bounded || ttl <= longest:
		return nil
	case !d.HasTakeover():
		return fmt.Errorf("%w: TTL %s exceeds Lease %s, to which every waiting %s client cuts the key",
			errLeaseRule, ttl, t.Lease, d.Name)
	}
	return fmt.Errorf("%w: TTL %s is too long: alongside %s clients with Lease %s at most %s is safe (Lease + c %s - Spread %s - Gap %s)",
		errLeaseRule, ttl, d.Name, t.Lease, longest, d.EffectiveSlack(), Bound(t.Spread), Bound(t.Gap))
}

// CheckTimes refuses a lease that is not longer than the settle, the trust
// margin and one renewal period together. settle is zero where there is none.
func CheckTimes(ttl, settle, margin, renewEvery time.Duration) error {
	if need := settle + margin + renewEvery; ttl <= need {
		return fmt.Errorf("%w: TTL %s must be longer than %s: settle %s + Margin %s + RenewEvery %s",
			errLeaseRule, ttl, need, settle, margin, renewEvery)
	}
	return nil
}

// Fits checks a getsetlock client's lease against the fleet: the lease rule,
// and CheckTimes with the settle where the dialect has takeovers.
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

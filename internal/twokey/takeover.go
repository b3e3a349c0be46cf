// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Takeover decides whether the stamp that an old client left on a key has
// expired. It is asked only about values that the dialect reads as a plausible
// stamp ([Observation.Err] is nil). Everything else counts as held and is left
// to a human. A Takeover is pure: it gives the same answer for the same
// Observation.
type Takeover interface {
	Expired(Observation) bool
}

// patient is a Takeover that knows for how long it will refuse if nothing
// changes.
type patient interface {
	left(Observation) time.Duration
}

// ServerClock is that of package legacy.
func ServerClock(margin time.Duration) Takeover { return serverClock{max(margin, 0)} }

type serverClock struct{ margin time.Duration }

func (p serverClock) Expired(o Observation) bool {
	return o.Seen.Behind <= p.margin && o.ServerMicros != 0 &&
		o.Dialect.PastBy(o.Stamp, o.ServerNow(), p.margin+o.Gained)
}

func (p serverClock) left(o Observation) time.Duration {
	end := o.Stamp.Expiry.Add(p.margin + o.Gained + o.Dialect.Unit.Step())
	return max(end.Sub(o.ServerNow()), 0)
}

// LocalClock is that of package legacy.
func LocalClock(margin time.Duration) Takeover { return localClock{max(margin, 0)} }

type localClock struct{ margin time.Duration }

func (p localClock) Expired(o Observation) bool {
	return o.Dialect.PastBy(o.Stamp, o.Local, p.margin)
}

func (p localClock) left(o Observation) time.Duration {
	return max(o.Stamp.Expiry.Add(p.margin+o.Dialect.Unit.Step()).Sub(o.Local), 0)
}

// Unchanged is that of package legacy.
func Unchanged(lease time.Duration) Takeover { return unchanged{lease} }

type unchanged struct{ lease time.Duration }

func (p unchanged) need(d dialect.Dialect) time.Duration { return p.lease + max(d.EffectiveSlack(), 0) }

func (p unchanged) Expired(o Observation) bool { return o.Unchanged() > p.need(o.Dialect) }

func (p unchanged) left(o Observation) time.Duration {
	return max(p.need(o.Dialect)-o.Unchanged(), 0)
}

// byTerms is the default rule. Its margin is the greater of Spread and Behind.
// The server's clock has to be past the stamp by more than the margin. Further,
// either Behind is claimed (and grows by what that clock gained), or a look
// more than age ago saw the same bytes on the key. What was seen of old clients
// contradicts both claims, Behind and the greatest lease behind age: see
// [dialect.Terms.Against].
//
// The remembered look may come from another process, and any number of looks
// may have been made since. By then every honest holder of those bytes has
// ended, whatever any clock says (see [dialect.Terms.LookAge]). Dense looks of
// this process count too, as in [Unchanged].
type byTerms struct {
	dialect dialect.Dialect
	terms   dialect.Terms

	margin time.Duration
	known  bool // Behind is known
	age    time.Duration
	aged   bool // age is known
}

func newByTerms(d dialect.Dialect, t dialect.Terms) byTerms {
	_, known := dialect.Claimed(t.Behind)
	age, aged := t.LookAge(d)
	return byTerms{d, t, t.TakeoverMargin(), known, age, aged}
}

// against returns the rule without the claims that an Observation contradicts.
func (p byTerms) against(o Observation) byTerms {
	if o.Seen == (dialect.Seen{}) {
		return p
	}
	return newByTerms(p.dialect, p.terms.Against(o.Seen))
}

func (p byTerms) Expired(o Observation) bool {
	p = p.against(o)
	return p.passed(o) && (p.known && serverClock{p.margin}.Expired(o) || p.aged && p.seen(o) > p.age)
}

// passed reports whether the stamp has passed by the server's clock.
func (p byTerms) passed(o Observation) bool {
	return o.ServerMicros != 0 && o.Dialect.PastBy(o.Stamp, o.ServerNow(), p.margin)
}

func (p byTerms) seen(o Observation) time.Duration { return max(o.Looked, o.Unchanged()) }

// left returns 0, unknown, where no wait is long enough.
func (p byTerms) left(o Observation) time.Duration {
	p = p.against(o)
	server := serverClock{p.margin}.left(o)
	switch {
	case !p.aged && !p.known:
		return 0
	case p.known && (!p.aged || !p.passed(o)):
		return server
	case !p.passed(o):
		toPass := o.Stamp.Expiry.Add(p.margin + o.Dialect.Unit.Step()).Sub(o.ServerNow())
		return max(0, toPass) + p.age // the look can begin only when the stamp has passed
	}
	second := max(p.age-p.seen(o)+time.Microsecond, 0)
	if p.known {
		return min(server, second)
	}
	return second
}

// All is that of package legacy.
func All(policies ...Takeover) Takeover { return all(policies) }

type all []Takeover

func (a all) Expired(o Observation) bool {
	for _, p := range a {
		if !p.Expired(o) {
			return false
		}
	}
	return len(a) > 0
}

func (a all) left(o Observation) (most time.Duration) {
	for _, p := range a {
		if q, ok := p.(patient); ok {
			most = max(most, q.left(o))
		}
	}
	return most
}

// flatten lists the policies within All, at any depth.
func flatten(t Takeover) (list []Takeover) {
	if a, ok := t.(all); ok {
		for _, p := range a {
			list = append(list, flatten(p)...)
		}
		return list
	}
	return []Takeover{t}
}

// uses reports whether one of the policies in t is a P.
func uses[P Takeover](t Takeover) bool {
	for _, p := range flatten(t) {
		if _, ok := p.(P); ok {
			return true
		}
	}
	return false
}

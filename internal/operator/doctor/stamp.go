// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// lookAtStamp examines a lock by the expiry in its stamp.
func (x *examiner) lookAtStamp(p *keys.Key, form reading.Form, names []string) {
	d, stamp, ok := x.read(p, form, names)
	if !ok || d.NeverReleases() {
		return // in such a dialect the key means "done" and simply expires
	}
	left := stamp.Expiry.Sub(p.Now)
	fits := reading.Fitting(p.Value, p.Now, x.cfg.Dialects)
	if p.HasTTL && reading.StampOfOurs(p.Value, p.Now, p.TTL, x.cfg.Dialects) {
		return // written by a getsetlock client: its TTL frees it
	}
	ahead, _ := x.aheadOf()
	switch soon := max(x.cfg.Spread, ahead); {
	case left < 0:
		if !p.HasTTL { // else the server frees it
			x.lookAtPast(p, -left, fits)
		}
	case x.ghosts[p.Name] == p.Value:
		x.complain(p, census.SeverityWarning, "ghost", fmt.Sprintf("is a ghost: a late GETSET left the value on a free key; no client holds the lock, and all wait for it%s", untilWords(left)),
			"wait; once its stamp is past, it is judged like any other", nil)
	case left <= soon:
		x.complain(p, census.SeverityWarning, "stolen_soon", fmt.Sprintf("ends in %s by the server's clock, and a client's clock may be %s ahead%s: such a client already takes it for expired", roughly(left), roughly(soon), x.assumed(soon)),
			"a longer lease or shorter jobs; getsetlock skew says by how much", nil)
	case !p.HasTTL && reading.PerhapsOurs(left, x.cfg.greatest(), ahead):
		x.complain(p, census.SeverityWarning, "perhaps_ours",
			fmt.Sprintf("holds %s, %s", reading.ShortQuote(p.Value), reading.PerhapsOursIs),
			reading.PerhapsOursAdvice, nil)
	case reading.TooFar(left-ahead, x.leaseOrShipped(d)):
		x.complainFar(p, left, x.shorten(p, d, stamp, fits))
	}
}

// leaseOrShipped returns the greatest lease, or the lease that the named
// dialect ships with. That is good enough to report a stamp as far ahead, but
// not to move it.
func (x *examiner) leaseOrShipped(d dialect.Dialect) time.Duration {
	if greatest := x.cfg.greatest(); greatest > 0 || len(x.cfg.Dialects) == 0 {
		return greatest
	}
	return d.Lease
}

// complainFar reports a stamp that is further ahead than a lease explains.
func (x *examiner) complainFar(p *keys.Key, left time.Duration, fix *Fix) {
	what := fmt.Sprintf("ends only in %s: written by a clock that is far ahead, with a much longer lease, or forged; if its holder has crashed, the lock blocks until then", roughly(left))
	advice := "its holder may live, with a clock that is far ahead: give the fastest clock's lead over the server's (--ahead) and the greatest lease (--lease or --greatest), and --fix can move it"
	switch _, known := x.aheadOf(); {
	case fix != nil:
		advice = fmt.Sprintf(
			"--fix lets it end in %s: a holder that lives keeps a whole lease by every clock",
			roughly(fix.lease))
	case known && x.cfg.greatest() > 0:
		advice = "wait: a client whose clock is as far ahead as claimed could have written it"
	}
	x.complain(p, census.SeverityWarning, "far", what, advice, fix)
}

func untilWords(ahead time.Duration) string {
	if ahead <= 0 {
		return ""
	}
	return " for another " + roughly(ahead)
}

// read decodes the stamp with the likeliest dialect. It returns false if none
// reads it.
func (x *examiner) read(p *keys.Key, form reading.Form, names []string) (dialect.Dialect, dialect.Stamp,
	bool) {
	for _, name := range names {
		d, err := dialect.Lookup(name)
		for _, own := range x.cfg.Dialects {
			if own.Name == name {
				d, err = own, nil
			}
		}
		if err != nil {
			continue
		}
		d.ValueEncoding = form.Encoding
		if s, err := d.Decode(p.Value, p.Now); err == nil {
			return d, s, true
		}
	}
	return dialect.Dialect{}, dialect.Stamp{}, false
}

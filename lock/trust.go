// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// The three parts of a lease's state below are plain values with pure methods:
// instants go in, instants and answers come out. Elapsed times are those of the
// Client's clock; the constant never means "not planned".

// trust is the time for which a lease may be trusted: for span after sent, by
// the clock that ran further.
type trust struct {
	sent reading
	span time.Duration
}

// trustIn returns the trust in a term. asked, the instant before the call,
// replaces a Sent that the backend left out or that lies ahead of now by
// elapsed time. If the wall clock was set back meanwhile, Sent can lie ahead of
// now by the wall clock but not by elapsed time. Elapsed time decides. A term
// that was given has nothing left without its Sent: it began before asked.
func (c *Client) trustIn(t backend.Term, asked, now reading) trust {
	ttl := c.cfg.TTL
	if t.TTL > 0 {
		ttl = min(ttl, t.TTL)
	}
	in := trust{sent: asked, span: ttl - max(c.cfg.Margin, 0)}
	if t.Given {
		in.sent = reading{asked.wall - ttl, asked.elapsed - ttl}
	}
	if t.Sent.Wall.IsZero() {
		return in.awake(now)
	}
	sent := c.core.keeper.reading(t.Sent)
	if passed := now.elapsed - sent.elapsed; passed >= 0 {
		in.sent = reading{min(sent.wall, now.wall-passed), sent.elapsed}
	}
	return in.awake(now)
}

// holds reports whether the lease can be trusted at now.
func (t trust) holds(now reading) bool { return t.sent.age(now) < t.span }

// left is how much trust is left at now.
func (t trust) left(now reading) time.Duration { return t.span - t.sent.age(now) }

// awake counts time that only the wall clock has shown, as after the machine
// slept, as elapsed time too: timers do not know of it, and the server has
// counted it.
func (t trust) awake(now reading) trust {
	t.sent.elapsed = now.elapsed - t.sent.age(now)
	return t
}

// end is when trust ends, in elapsed time, if the wall clock does not step.
func (t trust) end() time.Duration { return t.sent.elapsed + t.span }

// renewEvery is how long after sent a lease is renewed.
func (t trust) renewEvery(cfg *Config) time.Duration {
	if t.span < cfg.TTL-max(cfg.Margin, 0) {
		return min(cfg.RenewEvery, t.span/2) // the store granted less than was asked for
	}
	return cfg.RenewEvery
}

// retryAfter is the pause before a failed renewal is tried again, counted from
// now. It leaves room for another attempt or two before trust ends.
func (t trust) retryAfter(cfg *Config, now time.Duration) time.Duration {
	left := t.end() - now
	return max(min(max(cfg.RenewEvery/4, retryRenewal), left/2), lastRetries)
}

// warnAt is when the holder is warned, in elapsed time: halfway between the
// latest time at which a renewal was due and the end of trust.
func (t trust) warnAt(cfg *Config) time.Duration {
	every := t.renewEvery(cfg)
	return t.sent.elapsed + every + (t.span-every)/2
}

// renewal is when a lease is renewed next, and how the last renewal went.
type renewal struct {
	next  time.Duration // elapsed time, never: not at all
	busy  bool          // an Extend is under way
	warns bool          // the holder is to be warned if the next renewal fails
	err   error         // error of the last renewal
}

// wanted reports whether the next renewal should begin at now. It may begin up
// to slack before it is due.
func (r renewal) wanted(now, slack time.Duration) bool { return !r.busy && r.next <= now+slack }

// watch is the store's watch over the key of a lease.
type watch struct {
	next    time.Duration // elapsed time of the next look at the key, never: none
	touched time.Duration // elapsed time of the look that the last touch caused
	looking bool          // a look is under way, or about to be
	armed   bool          // the store reports changes
}

// wanted reports whether the next look at the key should begin at now.
func (w watch) wanted(now time.Duration) bool { return !w.looking && w.next <= now }

// touch plans a look at a key that was touched at now. The first touch causes a
// look at once; after that there is at most one look in each watchPause.
func (w watch) touch(now time.Duration) watch {
	w.next = min(w.next, max(now, w.touched+watchPause))
	w.touched = w.next
	return w
}

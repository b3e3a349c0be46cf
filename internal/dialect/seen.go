// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Seen is what stamps of old clients contradict in [Terms]. Each field is a
// lower bound; zero: nothing was seen. A Seen voids a smaller claim, and it
// permits nothing (see [Terms.Against]).
//
// Both bounds hold for a stamp whatever the delay of its write within Gap: a
// longer delay contradicts Gap. If Lease is a library's default, and the true
// lease is less, Behind may be too great. That costs time after a crash, and
// the trust in Lease was wrong as well.
type Seen struct {
	// Behind is how far some old client's clock was behind the server's, if no
	// lease is less than Terms.Lease and no attempt takes longer than
	// Terms.Gap. The start of a lease, taken for its end, looks like such a
	// clock.
	Behind time.Duration
	// Ahead is how far some old client's clock was ahead of the server's.
	Ahead time.Duration
	// Greatest is how long some old client's lease was, if no clock is further
	// ahead than Terms.Ahead.
	Greatest time.Duration
}

// Add notes a stamp that an old client wrote. The key carried it when the
// server's clock showed now, and something else when the server's clock showed
// since. A zero since is unknown: the stamp may have been written long ago.
func (s *Seen) Add(d Dialect, t Terms, stamp Stamp, since, now time.Time) {
	if !d.HasStamp() {
		return
	}
	// The client's clock showed least to most when it was read: a lease of E
	// made a stamp of that reading + E + slack, cut to the unit.
	if !since.IsZero() {
		most := stamp.Expiry.Add(d.Unit.Step() - d.Slack - t.Lease)
		s.Behind = max(s.Behind, since.Add(-Bound(t.Gap)).Sub(most))
	}
	left := stamp.Expiry.Sub(now)
	lease, greatest := left-d.Slack-Bound(t.Ahead), max(t.Greatest, t.Lease)
	ours := (left - t.StampAhead()).Abs() <= max(greatest, time.Hour) // perhaps a getsetlock client's
	if lease > greatest && !ours {
		s.Greatest = max(s.Greatest, lease)
	}
}

// Against returns the terms without what seen contradicts. A smaller claim of
// Behind or Ahead becomes unknown. A smaller greatest lease is raised, and
// stays Unstated where nobody stated it. t has been completed by
// [Dialect.Terms].
func (t Terms) Against(seen Seen) Terms {
	if behind, claimed := Claimed(t.Behind); claimed && seen.Behind > behind {
		t.Behind = 0
	}
	if ahead, claimed := Claimed(t.Ahead); claimed && seen.Ahead > ahead {
		t.Ahead = 0
	}
	if t.Greatest != Unstated {
		t.Greatest = max(t.Greatest, seen.Greatest)
	}
	return t
}

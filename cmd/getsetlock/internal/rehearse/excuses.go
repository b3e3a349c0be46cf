// SPDX-License-Identifier: Apache-2.0

package rehearse

import "time"

// excuses finds out why clients could begin while other clients held the key.
//
// One client that holds for longer than its lease starts a chain. Another
// client takes over its stamp. The first client's release, which does not
// compare, deletes that client's value. A third client takes the free key, and
// the second client's release deletes the third's value. Each link is a release
// that deleted another client's value, so an excuse follows these links. A
// client that began without such a release, and without a fault of its own
// kind, has no excuse, however close in time another client overran.
type excuses struct {
	rules
	holds []*hold
	late  []write
	guilt map[*hold]string // why its release may delete another client's value; "": it does not
}

func (r rules) excuses(holds []*hold, late []write) *excuses {
	return &excuses{rules: r, holds: holds, late: late, guilt: make(map[*hold]string)}
}

// episode judges a stretch of time. Each pair of holds in it needs an excuse.
func (c *excuses) episode(s stretch) episode {
	e := episode{start: s.start, end: s.end}
	excused := true
	for i, b := range c.holds {
		if b.stop <= b.start || b.start >= s.end || b.stop <= s.start {
			continue
		}
		e.holds = append(e.holds, b)
		e.new = e.new || b.kind == newClient
		for _, a := range c.holds[:i] {
			if a.stop <= b.start || a.stop <= a.start {
				continue
			}
			cause := c.excuse(a, b)
			excused = excused && cause != ""
			if e.cause == "" {
				e.cause = cause
			}
		}
	}
	if !excused {
		e.cause = ""
	}
	return e
}

// excuse returns why b could begin while a, which had begun earlier, was at
// work. It returns "" if there is no excuse.
func (c *excuses) excuse(a, b *hold) string {
	switch {
	case c.free != "":
		return c.free
	case c.overran(a) && b.start-a.asked >= c.honest:
		return causeOverrun
	case c.sharing && a.kind == oldClient && b.kind == oldClient:
		return causeSharing
	}
	if still, long := c.stoodStill(a); long && a.kind == newClient && still < b.start {
		return causeStill
	}
	// A stamp counts for a lease: a clock that was wrong when the stamp was
	// written matters until then.
	if cause := c.misled(a.asked-c.lease, b.start, c.late); cause != "" {
		return cause
	}
	return c.robbed(a, b.start)
}

// robbed returns why another client's release may have deleted the value of h
// until then, and "" if none did.
func (c *excuses) robbed(h *hold, until time.Duration) string {
	for _, d := range c.holds {
		if d != h && d.deletes && d.freed >= h.asked && d.stop <= until {
			if cause := c.guilty(d); cause != "" {
				return cause
			}
		}
	}
	return ""
}

// guilty returns why the key may have held another client's value when the
// release of d, which does not compare, deleted it.
func (c *excuses) guilty(d *hold) string {
	if cause, known := c.guilt[d]; known {
		return cause
	}
	c.guilt[d] = "" // two simultaneous releases do not explain each other
	cause := ""
	switch {
	case c.overran(d):
		cause = causeOverrun
	case c.sharing && c.shared(d):
		cause = causeSharing
	default:
		if cause = c.misled(d.asked-c.lease, d.freed, c.late); cause == "" {
			cause = c.robbed(d, d.freed)
		}
	}
	c.guilt[d] = cause
	return cause
}

// overran reports whether h is an old client's hold that lasted longer than an
// honest one.
func (c *excuses) overran(h *hold) bool {
	return h.kind == oldClient && c.honest > 0 && h.freed-h.start > c.honest
}

// shared reports whether h and the hold of another old client overlapped.
func (c *excuses) shared(h *hold) bool {
	for _, o := range c.holds {
		if o != h && o.kind == oldClient && o.start < h.stop && h.start < o.stop {
			return true
		}
	}
	return false
}

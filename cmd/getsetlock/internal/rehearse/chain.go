package rehearse

import "time"

// chain finds out why clients could begin beside others.
//
// One client that holds beyond its lease starts a chain: another takes over its
// stamp; its release, which does not compare, deletes that client's value; a
// third takes the free key, and the second one's release deletes the third's
// value. Each link is a release that deleted another client's value. So an
// excuse follows who deleted whose value: a client that began beside another
// without such a release, and without a fault of its own kind, has none, however
// close in time somebody else overran.
type chain struct {
	rules
	holds []*hold
	late  []write
	guilt map[*hold]string // why its release may delete another client's value; empty: it does not
}

func (r rules) chain(holds []*hold, late []write) *chain {
	return &chain{rules: r, holds: holds, late: late, guilt: make(map[*hold]string)}
}

// episode judges a stretch of time: each pair in it needs an excuse.
func (c *chain) episode(s stretch) episode {
	e := episode{start: s.start, end: s.end}
	excused := true
	for i, b := range c.holds {
		if b.stop <= b.start || b.start >= s.end || b.stop <= s.start {
			continue
		}
		e.holds = append(e.holds, b)
		e.new = e.new || c.ours(b.group)
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

// excuse is why b could begin while a, which had begun earlier, was at work.
func (c *chain) excuse(a, b *hold) string {
	switch {
	case c.free != "":
		return c.free
	case c.overran(a) && b.start-a.asked >= c.honest:
		return causeOverrun
	case c.sharing && c.old(a.group) && c.old(b.group):
		return causeSharing
	}
	if still, long := c.stoodStill(a); long && c.ours(a.group) && still < b.start {
		return causeStill
	}
	// A stamp counts for a lease, so what was wrong when it was written is wrong until then.
	if cause := c.misled(a.asked-c.lease, b.start, c.late); cause != "" {
		return cause
	}
	return c.robbed(a, b.start)
}

// robbed is why somebody else's release may have deleted the value of h up to
// that time; empty: none did.
func (c *chain) robbed(h *hold, until time.Duration) string {
	for _, d := range c.holds {
		if d != h && d.deletes && d.freed >= h.asked && d.stop <= until {
			if cause := c.guilty(d); cause != "" {
				return cause
			}
		}
	}
	return ""
}

// guilty is why the key may have had another client's value when d, which does
// not compare, deleted it.
func (c *chain) guilty(d *hold) string {
	if cause, known := c.guilt[d]; known {
		return cause
	}
	c.guilt[d] = "" // two releases at one time explain each other by nothing
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

// overran says whether an old client held for longer than is honest.
func (c *chain) overran(h *hold) bool {
	return c.old(h.group) && c.honest > 0 && h.freed-h.start > c.honest
}

// shared says whether two old clients held at once, of whom h was one.
func (c *chain) shared(h *hold) bool {
	for _, o := range c.holds {
		if o != h && c.old(o.group) && o.start < h.stop && h.start < o.stop {
			return true
		}
	}
	return false
}

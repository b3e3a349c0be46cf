// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

// besides is what the judges know of old clients and of a fleet's record.
type besides struct {
	holds   map[int]*oldHold
	tainted map[int]string        // getsetlock's tokens that a broken rule exposed → who broke which
	lost    map[int]time.Duration // tokens whose mark an old client removed → when
	phase   migrate.Phase         // of the record
	before  migrate.Phase         // … and before its last change
	left    bool                  // clean was reached: nothing need keep old clients out

}

// oldHold is an old client's operation, from its winning write on.
type oldHold struct {
	op    Op
	won   time.Duration // when the server executed its last write
	by    string        // … and its command
	took  bool          // the client knows that it holds
	over  bool          // the client holds no more
	alone bool          // since then nobody else has written to the key
	gives time.Duration // when it has let go, and its value is on the key; 0: not so
	taint string        // who broke which rule so that this hold may overlap
}

// beside hears the events of plans with old clients.
func (b *bench) beside(e Event) {
	if b.p.Old == nil {
		return
	}
	if b.old == nil {
		b.old = &besides{phase: b.p.Old.Begins, before: b.p.Old.Begins, left: b.p.Old.Begins == migrate.Clean,
			holds: map[int]*oldHold{}, tainted: map[int]string{}, lost: map[int]time.Duration{}}
	}
	b.keeps(e.At)
	switch e.Kind {
	case Wrote:
		b.wrote(e)
	case Took:
		b.took(e)
	case Dropped, Refused:
		b.letGo(e)
	case Recorded:
		b.recorded(e)
	case Acts:
		b.acts(e)
	case Stepped:
		b.answered(e)
	case Spoiled:
		b.complain("marks", e, "p%d: %s", e.Proc, e.Text)
	case Acquired, Looked:
		b.clash(e)
	case Ended, Releasing:
		b.oldOver(e)
	}
}

// letGo ends an old client's hold. If the client was honest, its value leaves
// the key, too.
func (b *bench) letGo(e Event) {
	h := b.old.holds[e.Op]
	if h == nil {
		return
	}
	alone := h.alone && b.keys[e.Key].since < h.won
	if h.over = true; alone && e.Kind == Dropped && e.Text == "" && e.At-h.won < b.p.Old.honest() {
		h.gives = e.At
	}
}

// keeps judges that an old client's release deletes its key, unless another
// client was there before.
func (b *bench) keeps(at time.Duration) {
	for _, h := range b.old.holds {
		proc, late := h.op.Proc, h.gives > 0 && at > h.gives+time.Second
		if late && !b.p.hit(proc, h.won, at) && !b.shaken(proc, h.won, at) {
			b.complain("law", Event{At: at}, "#%d of p%d has let its key go at %v, and it is there", h.op.ID, proc,
				h.gives)
			h.gives = 0
		}
	}
}

// wrote judges nothing: it follows who removed whose protection.
func (b *bench) wrote(e Event) {
	for _, h := range b.old.holds {
		if h.op.Key == e.Key {
			h.alone, h.gives = false, 0
		}
	}
	h := b.old.holds[e.Op]
	if h == nil {
		h = &oldHold{op: b.op(e.Op)}
		b.old.holds[e.Op] = h
	}
	why := b.dishonest(h, e.At)
	switch e.Text {
	case "SETNX", "SET":
		h.won, h.by, h.alone = e.At, e.Text, true
		return
	case "GETSET":
		h.won, h.by, h.alone = e.At, e.Text, true
		if gap := dialect.Bound(b.p.Old.Truth.Gap); e.Until > gap {
			why = "an old client paused for longer than the gap"
			h.taint = why
		}
	}
	token := b.keys[e.Key].token
	b.robbed(token, e)
	if why == "" {
		return
	}
	for _, other := range b.old.holds {
		if other != h && other.op.Key == e.Key && !other.over && other.taint == "" {
			other.taint = why
		}
	}
	if token != 0 && b.old.tainted[token] == "" {
		b.old.tainted[token] = why
	}
}

// robbed notes when a lease lost what it depends on.
func (b *bench) robbed(token int, e Event) {
	if _, known := b.old.lost[token]; token != 0 && e.Stands && !known {
		b.old.lost[token] = e.At
	}
}

// robbedOf reports whether an old client has removed what a token depends on.
func (b *bench) robbedOf(token int) bool {
	if b.old == nil {
		return false
	}
	_, lost := b.old.lost[token]
	return lost
}

// dishonest says which rule an old client has broken by an instant.
func (b *bench) dishonest(h *oldHold, at time.Duration) string {
	switch {
	case h.taint != "":
		return h.taint
	case h.by != "" && at-h.won > b.p.Old.honest():
		return "an old client overran its lease"
	case h.op.Late && b.old.left:
		return "an old client came back after clean"
	}
	return ""
}

func (b *bench) took(e Event) {
	h := b.old.holds[e.Op]
	h.took = true
	alone := true
	for _, other := range b.old.holds {
		if other == h || !other.took || other.over || other.op.Key != e.Key {
			continue
		}
		alone = false
		switch why := b.why(h, other, e.At); {
		case !b.p.Old.Dialect.Excludes():
			h.taint, other.taint = "a double grant of old clients", "a double grant of old clients"
		case why == "":
			b.complain("law", e, "#%d of p%d and #%d of p%d, honest old clients, hold together", e.Op, e.Proc,
				other.op.ID, other.op.Proc)
		default:
			b.h.Seen["excused: "+why]++
		}
	}
	if alone && h.by == "GETSET" {
		b.h.Seen["an old client robbed nobody"]++
	}
}

// why returns who broke a rule so that one of two old clients may overlap.
func (b *bench) why(one, other *oldHold, at time.Duration) string {
	if why := b.dishonest(one, at); why != "" {
		return why
	}
	if why := b.dishonest(other, at); why != "" || b.p.Old.False == "" {
		return why
	}
	return "the claim of " + b.p.Old.False + " is false"
}

// clash judges that no lease is trusted while an honest old client holds.
func (b *bench) clash(e Event) {
	l := b.lives[e.Op]
	if l == nil {
		l = &life{op: b.op(e.Op), token: e.Token, at: e.At} // just acquired
	}
	if !e.Trusted {
		return
	}
	for _, h := range b.old.holds {
		if !h.took || h.over || h.op.Key != e.Key {
			continue
		}
		if why := b.allowed(h, l, e); why != "" {
			b.h.Seen["excused: "+why]++
			continue
		}
		b.complain("besides", e, "#%d of p%d trusts its lease, and #%d of p%d, an honest old client, holds",
			e.Op, e.Proc, h.op.ID, h.op.Proc)
	}
}

// allowed returns who broke which rule so that an old client and a lease may
// overlap.
func (b *bench) allowed(h *oldHold, l *life, e Event) string {
	why := cmp.Or(b.dishonest(h, e.At), b.old.tainted[e.Token])
	if why == "" && b.p.Old.False != "" {
		why = "the claim of " + b.p.Old.False + " is false"
	}
	return cmp.Or(why, b.excuse(b.keys[e.Key], l, e.At))
}

// oldOver judges that a holder learns at its next renewal that an old client
// removed its mark.
func (b *bench) oldOver(e Event) {
	l := b.lives[e.Op]
	at, lost := b.old.lost[l.token]
	if !lost || at < l.at {
		return
	}
	b.learned(l, at, e, "an old client took the key")
}

// oldHolds reports whether an old client has a key.
func (b *bench) oldHolds(key int) bool {
	if b.old == nil {
		return false
	}
	for _, h := range b.old.holds {
		if h.took && !h.over && h.op.Key == key {
			return true
		}
	}
	return false
}

// oldGap is how much longer a key may stay without a holder because of old
// clients: a stamp that a dead one left must be seen for its whole lease.
func (p *Plan) oldGap() time.Duration {
	switch {
	case p.Form == Quorum:
		gap := greatestTTL + 5*time.Second // for so long a server does not vote after a restart
		if p.Strange == Fresh {
			gap += freshRest
		}
		return gap
	case p.Old == nil:
		return 0
	}
	t, rushes := p.Old.Truth, time.Duration(0)
	for _, o := range p.Ops {
		if o.Rushes { // it may spoil a takeover, and write a stamp
			rushes++
		}
	}
	seen := t.Greatest + dialect.Bound(t.Spread) + dialect.Bound(t.Behind) + dialect.Bound(t.Ahead)
	return 2*t.Greatest + seen + rushes*(seen+2*time.Second)
}

// recorded judges that no gate opens in sight of old clients that still try,
// and that a step leads to a neighbour.
func (b *bench) recorded(e Event) {
	to, err := migrate.ParsePhase(e.Text)
	if err != nil {
		b.complain("gates", e, "the record says %q", e.Text)
		return
	}
	from := b.old.phase
	if to != from || !e.Stands { // a lost record that is written as it was is no step
		b.old.before = from
	}
	b.old.phase = to
	b.old.left = b.old.left || to == migrate.Clean
	if !near(from, to) && !e.Stands {
		b.complain("gates", e, "the record goes from %v to %v", from, to)
	}
	if to < migrate.Sealed || to <= from || e.Stands {
		return
	}
	// What came after the watcher's last look was not seen.
	if need := b.p.Old.window(to); e.Until < need && b.p.Old.False == "" {
		b.complain("gates", e, "the step to %v was taken %v after an old client had tried, not %v", to,
			e.Until, need)
	}
}

// near reports whether the record may go from one phase to another.
func near(from, to migrate.Phase) bool {
	return to == from || to == from+1 || to == from-1 && from != migrate.Clean ||
		from == migrate.Clean && to == migrate.Observe
}

// acts judges that members and leases are at most one phase away from the step
// that was just taken.
func (b *bench) acts(e Event) {
	by, err := migrate.ParsePhase(e.Text)
	if err != nil || by == b.old.phase || by == b.old.before ||
		b.p.Old.unmended() && max(by-b.old.phase, b.old.phase-by) == 1 {
		return
	}
	what := "acts"
	if e.Done {
		what = "has a lease"
	}
	b.complain("gates", e, "p%d %s by %v, and the record has gone from %v to %v", e.Proc, what, by,
		b.old.before, b.old.phase)
}

// never are rules that close no gate of the simulation: all is claimed of the
// old clients, there is one server with one namespace, and no clock was seen to
// be off.
var never = []string{"lease", "greatest", "spread", "gap", "job", "behind", "ahead", "idle", "lease-rule",
	"dialect", "cluster", "eviction", "slot", "target", "getset-first", "namespace"}

// alone are rules that close no gate while nothing goes wrong.
var alone = []string{"vanished", "clock", "epoch", "lost", "forget"}

// answered judges that no gate is closed without a reason.
func (b *bench) answered(e Event) {
	_, rules, refused := strings.Cut(e.Text, ": refused to ")
	if !refused || b.p.Old.Disorder > 0 {
		return
	}
	_, rules, _ = strings.Cut(rules, ": ")
	for _, rule := range strings.Split(rules, ", ") {
		if rule == "target" && b.p.composed() {
			continue
		}
		calm := len(b.p.Faults) == 0 && !b.p.ends()
		if slices.Contains(never, rule) || calm && slices.Contains(alone, rule) {
			b.complain("gates", e, "a gate is closed by the rule %q", rule)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// marks are the two keys of a lock as they were before a command.
type marks struct {
	k            *key // nil: the command is on no lock
	l, m         string
	lLeft, mLeft time.Duration
}

// marks reads the keys of the lock that a command is on.
func (w *world) marks(c []string, node int) marks {
	if !w.plan.Form.besides() || node > 0 {
		return marks{}
	}
	for _, k := range w.keys {
		for _, name := range keysOf(c) {
			if name == k.name {
				w.redis.ServerNow()
				return w.read(k)
			}
		}
	}
	return marks{}
}

func (w *world) read(k *key) marks {
	l, _ := w.redis.Mini.Get(k.name)
	mark := legacy.MarkKey(k.name)
	m, _ := w.redis.Mini.Get(mark)
	return marks{k, l, m, w.redis.Mini.TTL(k.name), w.redis.Mini.TTL(mark)}
}

// on is what a lease depends on by the value of M: bytes on L, or nothing.
func on(m string) string {
	if parts := strings.Split(m, " "); len(parts) > 1 && parts[0] != "left" {
		return parts[1]
	}
	return ""
}

// grant is who wrote a token, and by which phase.
type grant struct {
	proc    int
	phase   migrate.Phase
	taken   time.Duration // when the server executed that; 0: it is granted
	settles time.Duration // until when old clients that judged the same value may write
	settled bool          // a look after that found both keys unchanged
	epoch   int64         // of the record when it was granted
	lost    bool          // the lease had ended before its holder gave it back
}

// touch is a command of a getsetlock client on a lock, and what it did.
type touch struct {
	w         *world
	p         *process
	sent      sent   // when, and by which phase its member acted
	name, did string // its name, and the outcome
	request   []string
	px        time.Duration // the TTL that it asks for; 0: none
	was, now  marks
	own, took bool // the token before was the process's; it has taken the lock
}

func (t touch) spoil(text string, args ...any) {
	t.w.h.add(Event{Kind: Spoiled, Proc: t.p.id, Op: None, Key: t.was.k.number,
		Text: t.name + " " + fmt.Sprintf(text, args...)})
}

// marked judges what a command of a getsetlock client did to a lock: rules 1,
// 7, 8, 9 and 10 of docs/internals/protocol.md, and what a phase leaves on L.
// w.mu is held.
func (w *world) marked(p *process, m message, name, did string, was marks) {
	if was.k == nil || w.plan.Procs[p.id].Kind == OldClient {
		return
	}
	t := touch{w: w, p: p, sent: m.sent, name: name, did: did, was: was, now: w.read(was.k),
		request: m.name, px: asksFor(m.name)}
	if t.now.m != was.m || t.now.mLeft != was.mLeft {
		w.ends(was.k)
	}
	before, after := word(was.m), word(t.now.m)
	g, known := w.grants[before]
	t.own = known && g.proc == p.id
	if t.took = after != before && after != "" && after != "left"; t.took {
		w.grants[after] = t.grant()
		if !taking(name) && name != "bridge_done" {
			t.spoil("takes the lock")
		}
	}
	if known && after != before && !t.own {
		t.spoil("removes the token of p%d", g.proc)
	}
	t.settles()
	t.changes()
	t.leaves()
	t.spares()
	t.counts()
}

// settles notes the look by which a takeover may be granted.
func (t touch) settles() {
	token := word(t.was.m)
	g, known := t.w.grants[token]
	if known && (t.name == "check" || t.name == "bridge_check") && t.did == "1" {
		shaken := t.w.plan.hit(t.p.id, 0, t.w.h.now(), Freeze, Suspend, Step)
		g.settled = shaken || t.w.h.now() >= g.settles-t.w.plan.Procs[t.p.id].TTL/500
		t.w.grants[token] = g
	}
}

// counts judges that a member counts a lock for as long as its token stands,
// also where no answer told it so. What the network holds for longer than the
// member waits for an answer is counted for too short a time.
func (t touch) counts() {
	now, held := t.w.h.now(), []FaultKind{Hold, HoldRequest, Stall, Slow, Silence, Freeze, Suspend}
	if !t.own && !t.took || t.p.joined() == nil || t.p.closed.Load() || t.p.dead.Load() ||
		t.w.plan.hit(t.p.id, now-2*t.w.plan.Procs[t.p.id].TTL, now, held...) {
		return
	}
	if len(t.p.member.State().Leases) == 0 {
		t.spoil("is for a lock that the member does not count")
	}
}

// grant is what is known of a lock that was just taken.
func (t touch) grant() grant {
	w := t.w
	g := grant{proc: t.p.id, phase: w.actsBy(t.sent.phase, t.name, t.now), taken: w.h.now()}
	always := w.plan.Old.Dialect.NeedsSettleEvery() && g.phase < migrate.Clean && t.now.l != w.tomb()
	if t.did == "2" || always {
		g.settles = w.h.now() + w.plan.Old.Claims.Settle()
	}
	switch end := t.was.k.stamped + w.plan.Old.honest(); {
	case t.did != "2":
	case t.was.l != judged(t.request, t.name):
		t.spoil("replaces what it did not judge")
	case w.h.now() < end && w.plan.Old.False == "":
		t.spoil("takes over a stamp whose holder may work until %v", end)
	}
	return g
}

// changes judges the change of L.
func (t touch) changes() {
	tomb := t.w.tomb()
	switch {
	case t.now.l == t.was.l || t.was.l == "" && t.took || t.own && t.was.l == on(t.was.m):
	case t.took && (t.did == "2" || t.was.l == tomb && t.now.l != ""):
	case t.name == "sweep" && t.was.l == tomb && t.w.sweeps(t.was):
	default:
		t.spoil("changes L from %.9q, which is not its own", t.was.l)
	}
}

// parted reports whether the process had said goodbye before it sent this.
func (t touch) parted() bool {
	bye := time.Duration(t.p.bye.Load())
	return bye > 0 && t.sent.at > bye+time.Second && !t.w.plan.hit(t.p.id, bye, t.sent.at)
}

// leaves judges what is on both keys afterwards.
func (t touch) leaves() {
	switch {
	case t.took && t.w.plan.composed() && on(t.now.m) == "":
		t.spoil("takes the old clients' server too in clean")
	case t.took && t.parted():
		t.spoil("takes the lock after Goodbye")
	case t.took:
		t.w.stands(t.now, t.spoil)
		t.w.unseen(t.p, true)
		t.lasts()
	case (t.name == "bridge_renew" || t.name == "renew") && t.did == "1":
		t.w.stands(t.now, t.spoil)
		t.w.unseen(t.p, false)
		t.lasts()
	case (t.name == "bridge_release" || t.name == "release") && t.did == "1" && t.own:
		t.w.gaveBack(t.sent.phase, t.was, t.now, t.spoil)
	}
}

// spares judges that only a key of its own is left to old clients, until one of
// them comes, and that it is left where one was seen.
func (t touch) spares() {
	before, after := word(t.was.m) == "left", word(t.now.m) == "left"
	own := t.own && t.was.leased(t.w.tomb()) && t.w.grants[word(t.was.m)].phase < migrate.Sealed
	switch {
	case after && !before && !own:
		t.spoil("leaves a key that was not its own, or that no old client can take")
	case own && t.now.m == "" && t.owes():
		t.spoil("does not leave the key to old clients, and one was seen")
	case !t.meets():
	case before && t.now.m != "":
		t.spoil("keeps the time for old clients, although one has come")
	case t.was.l != on(t.was.m) && t.hears():
		t.p.met[t.was.k.number] = t.sent.at
	}
}

// hears reports whether no wait of the process for the lock ends before the
// answer to the attempt comes.
func (t touch) hears() bool {
	soon, wait := t.w.h.now()+t.w.plan.latest(t.p.id), t.w.plan.Procs[t.p.id].Wait
	ends := func(at time.Duration) bool { return t.sent.at <= at && at < soon }
	return !slices.ContainsFunc(t.w.plan.Ops, func(o Op) bool {
		return o.Proc == t.p.id && o.Key == t.was.k.number &&
			(o.Cancel > 0 && ends(o.At+o.Cancel) || wait > 0 && ends(o.At+wait))
	})
}

// meets reports whether an attempt has met an old client, or what a lost lease
// left.
func (t touch) meets() bool {
	return taking(t.name) && t.did == "0" && t.was.l != "" && t.was.l != t.w.tomb() &&
		t.sent.phase < migrate.Clean
}

// owes reports whether a lease that is given back owes old clients a turn: only
// its holder's own release does. An old client's token is not told from one of
// getsetlock.
func (t touch) owes() bool {
	met, now, plan, g := t.p.met[t.was.k.number], t.w.h.now(), t.w.plan, t.w.grants[word(t.was.m)]
	return met > 0 && now-met < plan.Old.Claims.Greatest && plan.Old.Dialect.HasStamp() &&
		plan.Procs[t.p.id].Politeness == 0 && g.taken == 0 && !g.lost &&
		!plan.hit(t.p.id, met, now)
}

// lasts judges that the token has the TTL that was asked for, and that no more
// was asked for than the lease's.
func (t touch) lasts() {
	off := t.now.mLeft - t.px
	if ttl := t.w.plan.Procs[t.p.id].TTL; t.px > ttl || off.Abs() > 2*time.Millisecond {
		t.spoil("asks for %v of %v, and its token gets %v", t.px, ttl, t.now.mLeft)
	}
}

// asksFor returns the TTL in the second argument of a script that takes or
// renews a lock.
func asksFor(c []string) time.Duration {
	if len(c) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(c[2])
	if len(c) < n+5 {
		return 0
	}
	ms, _ := strconv.Atoi(c[n+4])
	return time.Duration(ms) * time.Millisecond
}

// actsBy is the phase by which a process has taken a lock: what M says, and
// among equals what its member said when the command was sent.
func (w *world) actsBy(sent migrate.Phase, script string, now marks) migrate.Phase {
	says := min(max(sent, migrate.Dual), migrate.Modern)
	switch mark := on(now.m); {
	case script == "acquire":
		return migrate.Observe
	case mark == "":
		return migrate.Clean
	case mark == w.tomb():
		return max(says, migrate.Sealed)
	}
	return says
}

// stands judges a lock that was just taken or renewed.
func (w *world) stands(now marks, spoil func(string, ...any)) {
	switch mark := on(now.m); {
	case mark == "":
	case mark != now.l:
		spoil("leaves a token whose mark is not on L")
	case mark == w.tomb():
		if now.lLeft < 14*24*time.Hour {
			spoil("leaves a tombstone of %v", now.lLeft)
		}
	case now.lLeft < now.mLeft-time.Millisecond && !w.plan.Old.Dialect.ServerExpires():
		spoil("leaves a mark that ends before its token")
	}
}

// gaveBack judges a release by a member that acted by a phase when it was sent.
func (w *world) gaveBack(says migrate.Phase, was, now marks, spoil func(string, ...any)) {
	g, tomb, orMine := w.grants[word(was.m)], w.tomb(), w.plan.Old.Dialect.OrMine
	switch {
	case word(now.m) == word(was.m):
		spoil("leaves its token")
	case on(was.m) == "":
	case now.l == was.l && was.leased(tomb):
		spoil("leaves its mark")
	case says == migrate.Dual && on(was.m) != tomb && now.l != "":
		spoil("leaves %.9q on L in dual", now.l)
	case orMine:
		if now.l == tomb && on(was.m) != tomb && w.h.now() < g.settles {
			spoil("leaves a tombstone that an old client may overwrite unseen")
		}
	case now.l != tomb && min(g.phase, says) >= migrate.Sealed && says < migrate.Clean:
		spoil("leaves no tombstone in %v", says)
	}
}

// leased reports whether L has the mark of the lease on M, and no tombstone.
func (m marks) leased(tomb string) bool { return m.l == on(m.m) && m.l != tomb }

// sweeps reports whether the record allows that a tombstone is deleted: on the
// way back from sealed and at a new beginning where no lease depends on it, and
// after clean.
func (w *world) sweeps(was marks) bool {
	r := w.record()
	switch {
	case r.Phase == migrate.Clean:
		return r.Pending == migrate.NoPhase
	case r.Phase == migrate.Observe:
		return true
	}
	return r.Phase == migrate.Dual && (was.m == "" || word(was.m) == "left")
}

// outlasts judges that a composed lease is trusted for no longer than the old
// clients' server keeps its token, less the margin.
func (w *world) outlasts(p *process, k *key, told Event) {
	if !w.plan.composed() || told.Left == 0 {
		return
	}
	w.redis.ServerNow()
	w.mu.Lock()
	defer w.mu.Unlock()
	c, m, now := w.plan.Procs[p.id], w.read(k), w.h.now()
	if g := w.grants[word(m.m)]; g.proc != p.id || w.plan.stepped(now) ||
		w.plan.hit(p.id, now-2*c.TTL, now, Freeze, Suspend, Step) {
		return
	}
	for _, l := range k.leases {
		if over := told.Left + c.Margin - m.mLeft; l.p == p && l.mark == word(m.m) && l.mark != "" &&
			w.h.known(l.token) == told.Token && over > c.TTL/1000+2*time.Millisecond {
			w.spoil(p, "a composed lease is trusted beyond its token on the old clients' server")
		}
	}
}

// queues judges that waiters have places in the target's queue in clean alone.
// w.mu is held.
func (w *world) queues(l *link, m message) {
	clean := l.p.clean.Load()
	if !w.plan.composed() || l.node != theTarget || m.asks != "take" || m.sent.phase == migrate.NoPhase ||
		m.sent.phase == migrate.Clean || clean > 0 && w.h.now()-time.Duration(clean) < 5*time.Second {
		return
	}
	if n, _ := strconv.Atoi(m.name[2]); m.name[n+6] != "try" {
		w.spoil(l.p, "a waiter has a place at the target in "+m.sent.phase.String())
	}
}

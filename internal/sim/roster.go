// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

// verbing is what is known of the verb that a connection belongs to.
type verbing struct {
	shows bool          // it is to change nothing
	saw   time.Duration // when it began to gather facts last
	quiet time.Duration // … and for how long no old client had tried
	roll  time.Duration // when it read the roster last
}

// spoil records what a process did to the fleet's record or roster, or what its
// member says and is not so.
func (w *world) spoil(p *process, text string) {
	w.h.add(Event{Kind: Spoiled, Proc: p.id, Op: None, Text: text})
}

// rolled notes heartbeats and the operator's looks at the roster, and judges
// that no member is forgotten whose lease may run. w.mu is held.
func (w *world) rolled(l *link, m message, did string) {
	p := l.p
	if w.plan.Form != Bridged {
		return
	}
	switch now := w.h.now(); {
	case m.asks == "beat" && did == "text": // else the server has refused it
		w.beats[m.name[4]] = now
	case m.name.Is("GET") && m.name[1] == seenKey:
		l.verb.saw, l.verb.quiet = now, w.quiet()
	case m.name.Is("HGETALL") && m.name[1] == rosterKey:
		l.verb.roll = now
	case m.asks == "forget" && did == "1" && !w.plan.stepped(now):
		w.h.sometimes("a member is forgotten")
		for _, q := range w.procs {
			if q.joined() == nil || q.member.ID() != m.name[4] {
				continue
			}
			if need := 3*w.plan.Old.Every + w.plan.Procs[q.id].TTL; now-w.beats[m.name[4]] < need {
				w.spoil(p, "a member is forgotten whose leases may run")
			}
		}
	}
}

// unheard reports whether the server refuses a process's heartbeats.
func (w *world) unheard(p *process) bool {
	since := w.h.now() - w.plan.Old.Disorders
	return w.plan.Old.has(unheard) && p.id == 0 && since >= 0 && since < 15*time.Second
}

// unseen judges that a member which the server has not heard for long takes no
// lock, and renews none some time later. w.mu is held.
func (w *world) unseen(p *process, took bool) {
	if p.joined() == nil || w.plan.hit(p.id, w.h.now()-10*time.Second, w.h.now()) {
		return
	}
	silent := w.h.now() - w.beats[p.member.ID()]
	switch most := 3*w.plan.Old.Every + 500*time.Millisecond; {
	case took && silent > most:
		w.spoil(p, "a lock is taken, although no heartbeat was answered for long")
	case !took && silent > most+500*time.Millisecond:
		w.spoil(p, "a lease is renewed, although no heartbeat was answered for long")
	}
}

// stepped reports whether the server's clock has stepped.
func (p *Plan) stepped(at time.Duration) bool { return p.hit(All, 0, at, ServerStep) }

// steps judges a change of the record by what holds on the server. w.mu is
// held.
func (w *world) steps(l *link, was, r migrate.Record) {
	w.closed(l, was, r)
	if was.Epoch > 0 {
		w.rewrote(l, was, r)
		w.vanished(l)
	}
	if r.Phase == migrate.Clean && was.Phase == migrate.Modern && w.differ() {
		w.spoil(l.p, "a step to clean is taken beside a member with another target")
	}
	lost := l.verb.saw < w.plan.Old.Disorders && w.plan.Old.Disorders <= w.h.now() // since the verb looked
	if !lost && r.Roster != w.redis.Mini.HGet(rosterKey, "nonce") {
		w.spoil(l.p, "the record names another roster")
	}
	for _, k := range w.keys {
		for _, held := range k.leases {
			if held.err() != nil || held.op.Kind == Do && !held.stands() {
				continue // a Do of a process that stands still cannot look at its context
			}
			if !slices.Contains(slices.Collect(w.seated()), held.p) {
				w.spoil(held.p, "a step is taken beside a lease of a member that is not in the roster")
			}
			w.h.add(Event{Kind: Acts, Proc: held.p.id, Op: None, Text: held.phase.String(), Done: true})
		}
	}
}

// differ reports that members in the roster name two targets. w.mu is held.
func (w *world) differ() bool {
	names := map[string]bool{}
	for p := range w.seated() {
		if !p.dead.Load() {
			names[w.plan.Old.names(p.id)] = true
		}
	}
	return len(names) > 1
}

// rewrote judges what a record says after another one. w.mu is held.
func (w *world) rewrote(l *link, was, r migrate.Record) {
	switch {
	case l.verb.shows:
		w.spoil(l.p, "a verb without Go takes a step")
	case r.Epoch != was.Epoch+1:
		w.spoil(l.p, "an epoch is skipped")
	case r.TTL < was.TTL || r.Every < was.Every || r.Dialect != was.Dialect:
		w.spoil(l.p, "the record forgets what members wrote into it")
	}
	if r.Pending != migrate.NoPhase || r.Phase > migrate.Dual {
		return
	}
	for _, k := range w.keys {
		if w.get(k.name) == w.tomb() {
			w.spoil(l.p, "the record calls a step over, and tombstones are left")
		}
	}
}

// vanished judges that every member in the roster had sent a heartbeat a short
// while before the verb read the roster. w.mu is held.
func (w *world) vanished(l *link) {
	for p := range w.seated() {
		if !w.plan.stepped(w.h.now()) &&
			l.verb.roll-w.beats[p.member.ID()] > 3*w.plan.Old.Every+1100*time.Millisecond {
			w.spoil(l.p, "a step is taken beside a member that has vanished")
		}
	}
}

// counted judges that a member tells the server of a lease, and counts it by
// its phase. w.mu is held.
func (w *world) counted(h *held) {
	w.granted(h)
	if h.p.joined() == nil || h.err() != nil {
		return
	}
	counted, ttl := h.p.member.State().Leases[h.phase], w.plan.Procs[h.p.id].TTL
	early := w.plan.composed() && h.phase == migrate.Clean // without the old clients' server
	switch phase, r := h.phase, w.record(); {
	case early && r.Phase == migrate.Clean && r.Target != w.plan.Old.names(h.p.id):
		w.spoil(h.p, "a lock is granted in clean to a member with another target")
	case early && r.Epoch > 0 && r.Phase < migrate.Modern && r.Pending != migrate.Clean:
		w.spoil(h.p, "the target alone is held in "+r.Phase.String())
	case counted == 0 && slices.Contains([]migrate.Phase{migrate.Observe, migrate.Clean}, phase):
		w.spoil(h.p, "a lease is not counted by its member as one of "+phase.String())
	case r.TTL < ttl && r.Epoch > 0:
		w.spoil(h.p, "the record knows of no lease that is so long")
	}
	w.announced(h.p)
}

// announced judges that the roster knows of a member's longest lease.
func (w *world) announced(p *process) {
	field, err := migrate.ParseMember(w.redis.Mini.HGet(rosterKey, p.member.ID()))
	if err == nil && field.TTL < w.plan.Procs[p.id].TTL {
		w.spoil(p, "the roster knows of no lease of the member that is so long")
	}
}

// granted judges when a lock is granted. w.mu is held.
func (w *world) granted(h *held) {
	ttl := w.plan.Procs[h.p.id].TTL
	token := h.claim()
	g, known := w.grants[token]
	if g.settles > 0 && !g.settled {
		w.spoil(h.p, "a lock is granted without a look after its takeover has settled")
	}
	// A rush for another key may hold the look, too: it is on the same
	// connection.
	forsakes := func(o Op) bool { return o.Proc == h.p.id && o.Key == h.op.Key && w.plan.forsakes(o) }
	end := max(g.taken, g.settles) + w.plan.latest(h.p.id) + longestRush + ttl/500
	if g.taken > 0 && w.h.now() > end && !slices.ContainsFunc(w.plan.Ops, forsakes) &&
		!w.plan.hit(h.p.id, g.taken-ttl, w.h.now()) {
		w.spoil(h.p, "a lock is granted long after it was taken and has settled")
	}
	if g.taken = 0; known && h.p.joined() != nil {
		now := h.p.member.State().Epoch
		if g.epoch > 0 && g.epoch != now && !w.plan.hit(h.p.id, 0, w.h.now(), Freeze, Suspend) {
			w.spoil(h.p, "a lock is handed over, although the record has changed")
		}
		g.epoch = now
	}
	if known {
		w.grants[token] = g
	}
}

// goodbyes are of members whose processes close their Clients some time later.
func (w *world) goodbyes() (all []act) {
	for _, o := range w.plan.Ops {
		if p := w.procs[o.Proc]; o.Kind == Close && p.member != nil && p.id%2 == 0 {
			all = append(all, act{max(o.At-goodbye, time.Millisecond), func() { w.work.Go(p.goodbye) }})
		}
	}
	return all
}

// parted reports whether the member of a process may have said goodbye.
func (p *Plan) parted(proc int, at time.Duration) bool {
	return p.Form == Bridged && proc%2 == 0 && p.closes(proc, at+goodbye)
}

// goodbye is how long before its Close a process says goodbye.
const goodbye = 5 * time.Second

// goodbye lets the member of a process leave the roster although the process
// may hold leases, and judges that it waits for them.
func (p *process) goodbye() {
	if p.dead.Load() || p.closed.Load() || p.bye.Swap(int64(p.w.h.now())) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.life, time.Minute) // heartbeats go on for so long
	defer cancel()
	if p.member.Goodbye(ctx) != nil {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, k := range p.w.keys {
		for _, l := range k.leases {
			if l.p == p && l.err() == nil {
				p.w.spoil(p, "a member has said goodbye, and has a lease")
			}
		}
	}
}

// follows judges that members take up a step with one of the next heartbeats.
// w.mu is held.
func (w *world) follows() {
	o, now := w.plan.Old, w.h.now()
	soon := 3*o.Every + time.Second
	if o.unmended() || o.has(unheard) || o.Apart || now-w.moved < soon || w.said.Epoch != w.record().Epoch {
		return
	}
	for _, p := range w.procs {
		if p.joined() == nil || p.dead.Load() || p.closed.Load() || p.bye.Load() > 0 ||
			w.plan.hit(p.id, w.moved-soon, now) {
			continue
		}
		by, settled := p.member.State().Phase, now > w.plan.Procs[p.id].Starts+20*time.Second
		if settled && by != w.said.Phase {
			w.spoil(p, "a member acts by "+by.String()+" long after the step to "+w.said.Phase.String())
		}
	}
}

// idles judges that a member whose process has nothing to do counts no leases.
func (w *world) idles() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.follows()
	for _, p := range w.procs {
		if p.joined() == nil || p.dead.Load() || p.jobs > 0 || p.closed.Load() {
			continue
		}
		if long := 2*w.plan.Procs[p.id].TTL + 5*time.Second; w.h.now()-p.busy > long &&
			!w.plan.hit(p.id, p.busy, w.h.now()) && len(p.member.State().Leases) > 0 {
			w.spoil(p, "a member counts leases that nobody has")
		}
	}
}

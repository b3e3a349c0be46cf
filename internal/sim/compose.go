// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strconv"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// theTarget is the server that composed bridges take their locks on too.
const theTarget = 1

// composed reports whether the plan's bridges are composed with a target.
func (p *Plan) composed() bool { return p.Old != nil && p.Old.Target != "" }

// watched returns the key on which the lease's token stands.
func (p *Plan) watched(key string) string {
	if p.composed() {
		return key
	}
	return p.Form.watched(key)
}

// names returns the target that a process's member names.
func (o *Old) names(proc int) string {
	if o.Apart && proc == 0 {
		return "u"
	}
	return o.Target
}

// composes composes a bridge with the target.
func (p *process) composes(b *migrate.Bridge, c Proc, wake backend.Wake) (backend.Store, error) {
	target, err := modern.New(p.poolOf(theTarget, false), modern.Config{Fence: p.w.plan.Old.Fence,
		Fair: p.w.plan.Seed%2 == 0,
		Wake: wake, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return migrate.Compose(b, target)
}

// phaseOf returns the phase by which a lease was just taken. A composed one has
// a second token on M, but in clean. w.mu is held.
func (w *world) phaseOf(l *held) (phase migrate.Phase, mark string) {
	if !w.plan.composed() {
		return w.grants[word(l.token)].phase, ""
	}
	w.redis.ServerNow()
	if m := word(w.read(l.key).m); w.grants[m].proc == l.p.id && m != "" && m != "left" {
		return w.grants[m].phase, m
	}
	return migrate.Clean, ""
}

// outlasts judges that a composed lease is trusted for no longer than its token
// stands on the old clients' server, less the margin.
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
func (w *world) queues(l *link, m message, name string) {
	clean := l.p.out.clean.Load()
	if !w.plan.composed() || l.node != theTarget || name != "take" || m.sent.phase == migrate.NoPhase ||
		m.sent.phase == migrate.Clean || clean > 0 && w.h.now()-time.Duration(clean) < 5*time.Second {
		return
	}
	if n, _ := strconv.Atoi(m.name[2]); m.name[n+6] != "try" {
		w.spoil(l.p, "a waiter has a place at the target in "+m.sent.phase.String())
	}
}

// ends makes the world look at a composed lease when its token on the old
// clients' server ends. w.mu is held.
func (w *world) ends(k *key) {
	if !w.plan.composed() {
		return
	}
	if k.markEnd != nil {
		k.markEnd.Stop()
		k.markEnd = nil
	}
	w.doubt(k)
	if left := w.read(k).mLeft; left > 0 {
		k.markEnd = time.AfterFunc(left, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.redis.ServerNow()
			w.doubt(k)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/getsetlock/getsetlock/migrate"
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

// ends makes the world look at a composed lease when its token on the old
// clients' server ends. w.mu is held.
func (w *world) ends(k *key) {
	if !w.plan.composed() {
		return
	}
	w.doubt(k)
	k.markEnd = rearm(k.markEnd, w.read(k).mLeft, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.redis.ServerNow()
		w.doubt(k)
	})
}

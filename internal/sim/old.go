// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// ProcKind says which program a process runs.
type ProcKind string

// Kinds of processes. The zero kind runs a Client of the plan's form.
const (
	OldClient ProcKind = "old client"
	Operator  ProcKind = "operator"
)

// sent is what an old client was at when it sent a message.
type sent struct {
	op    int
	began time.Duration
	phase migrate.Phase // by which its member acts
	at    time.Duration
}

// sends returns what the process is at.
func (p *process) sends() sent {
	phase := migrate.NoPhase
	if m := p.joined(); m != nil {
		phase = m.State().Phase
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return sent{p.tries, p.began, phase, p.w.h.now()}
}

// oldTurn is an old client's job: it tries until it has the key, works, and
// gives the key back, or dies with it.
func (p *process) oldTurn(o Op) {
	p.seat <- struct{}{} // it makes one attempt at a time
	defer func() { <-p.seat }()
	p.awake(o)
	grant := p.oldTries(o)
	p.awake(o)
	if grant == nil {
		p.add(Event{Kind: Refused, Op: o.ID, Key: o.Key})
		return
	}
	p.took(o)
	select {
	case <-time.After(o.Hold):
	case <-p.w.hurried(o):
	case <-p.life.Done():
	}
	p.awake(o)
	if o.Kind == Kill {
		p.add(Event{Kind: Dropped, Op: o.ID, Key: o.Key, Text: "it died"})
		return
	}
	p.add(Event{Kind: Dropped, Op: o.ID, Key: o.Key})
	_ = grant.Release(p.life)
}

// oldTries polls as the dialect does, at most every 50 ms. What an attempt of
// unknown outcome wrote is left, as after an exception.
func (p *process) oldTries(o Op) backend.Grant {
	d := p.w.plan.Old.dialect()
	for until := p.w.h.now() + o.Cancel; ; {
		p.mu.Lock()
		p.tries, p.began = o.ID, p.w.h.now()
		p.mu.Unlock()
		g, err := p.old.Contract().Try(p.life, p.w.keys[o.Key].name, p.w.plan.Procs[p.id].TTL)
		if err == nil {
			return g
		}
		if p.w.h.now() > until || p.life.Err() != nil {
			break
		}
		time.Sleep(max(d.Poll, 50*time.Millisecond) + time.Duration(o.ID)*time.Microsecond)
		p.awake(o)
	}
	p.w.redis.ServerNow()
	if has, _ := p.w.redis.Mini.Get(p.w.keys[o.Key].name); has == p.w.tomb() {
		p.w.h.sometimes("a tombstone keeps an old client out")
	}
	return nil
}

// took records that an old client has the key, and looks at all leases of it.
func (p *process) took(o Op) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.add(Event{Kind: Took, Op: o.ID, Key: o.Key})
	for _, l := range w.keys[o.Key].leases {
		w.h.add(l.looked())
	}
}

// executed records what a request has just done on the server.
func (w *world) executed(l *link, m message, did string, was marks) {
	p := l.p
	if w.plan.Old == nil {
		return
	}
	w.mu.Lock()
	w.marked(p, m, m.asks, did, was)
	w.rolled(l, m, did)
	w.mu.Unlock()
	switch kind := w.plan.Procs[p.id].Kind; {
	case kind == OldClient:
		w.wrote(p, m, did, was)
	case did == "2" && taking(m.asks) && w.plan.Old.Claims.Behind == 0:
		w.h.sometimes("a takeover by age")
	case did == "2" && taking(m.asks):
		w.h.sometimes("a takeover by a claimed Behind")
	}
	w.recorded(l)
}

func taking(script string) bool { return script == "acquire" || script == "bridge_acquire" }

// wrote records what an old client's command did to its key.
func (w *world) wrote(p *process, m message, did string, was marks) {
	effect, gap := did == "1", w.h.now()-m.sent.began
	switch {
	case was.k == nil:
		return
	case m.name.Is("SETNX"), m.name.Is("DEL"), m.name.Is("EVAL"):
	case m.name.Is("SET"):
		effect = did == "text"
	case m.name.Is("GETSET"):
		effect = did == "text" || did == "none"
	default:
		return
	}
	if !m.name.Is("DEL") && !m.name.Is("EVAL") {
		w.saw(was.k, effect, gap)
	}
	if effect {
		w.h.add(Event{Kind: Wrote, Proc: p.id, Op: m.sent.op, Key: was.k.number, Text: m.asks,
			Until: gap, Stands: w.plan.Form != Bridged || on(was.m) != ""})
	}
}

// longestRush bounds how long a message is held for an old client to come in
// between. No call times out within 300 ms.
const longestRush = 200 * time.Millisecond

// rushed lets an old client come while a takeover is on its way, or delete the
// key that it has overrun while a release is. It returns for how long the
// network holds that message.
func (w *world) rushed(m message) time.Duration {
	takes := taking(m.asks) && judged(m.name, m.asks) != ""
	if w.plan.Old == nil || !takes && !ending[m.asks] {
		return 0
	}
	w.mu.Lock()
	n := slices.IndexFunc(w.plan.Ops, func(o Op) bool {
		k, begun := w.keys[o.Key], w.rushes[o.ID] != nil
		switch {
		case !slices.Contains(m.name, k.name):
			return false
		case takes:
			return o.Rushes && !begun
		}
		return o.Overruns && begun && w.pending[o.ID] && word(w.read(k).m) == word(m.name[5])
	})
	if n < 0 {
		w.mu.Unlock()
		return 0
	}
	o := w.plan.Ops[n]
	if end := w.rushes[o.ID]; end != nil {
		delete(w.rushes, o.ID)
		close(end)
	} else {
		w.rushes[o.ID] = make(chan struct{})
	}
	w.mu.Unlock()
	if o.Rushes {
		w.operate(o)
	}
	return min(20*w.plan.Procs[o.Proc].Near, longestRush)
}

// ending are the scripts by which a holder gives its key back.
var ending = map[string]bool{"release": true, "bridge_release": true, "bridge_leave": true}

// judged returns the value that an attempt is to replace; empty: none.
func judged(c []string, name string) string {
	at := 7 // the number of the script's argument
	if name == "acquire" {
		at = 11
	}
	if n, _ := strconv.Atoi(c[2]); len(c) > n+2+at {
		return c[n+2+at]
	}
	return ""
}

// hurried is closed when an old client that overruns its lease is to end its
// job; nil: it has no cause to.
func (w *world) hurried(o Op) <-chan struct{} {
	if !o.Overruns {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rushes[o.ID] = make(chan struct{})
	return w.rushes[o.ID]
}

// stays reports whether a key may be on the server when all is over: L of old
// clients, looks at it, and what belongs to a fleet's record.
func (w *world) stays(key string) bool {
	return w.plan.Old != nil && (!strings.HasSuffix(key, ":gsl") || key == "{k9}:gsl")
}

// SometimesOld are the states that plans with old clients must reach.
var SometimesOld = []string{
	"a takeover by age", "a takeover by a claimed Behind", "an old client robbed nobody",
	"phase observe", "phase dual", "phase sealed", "phase modern", "phase clean",
	"a refused gate", "a step taken", "a tombstone keeps an old client out",
	"a disorder", "a member is forgotten", "a process starts late",
	"a server of a quorum has restarted",
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// watch is what a watcher of the server's commands knows of old clients, beside
// what each key has of them.
type watch struct {
	from  time.Duration // since when it has watched without a hole
	last  time.Duration // its last look
	acted time.Duration // last attempt of an old client
	stops bool          // it looks no more
}

// saw notes an attempt of an old client, so long after it began.
func (w *world) saw(k *key, won bool, gap time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.h.now()
	w.watch.acted = now
	if !won {
		k.tried = now
		return
	}
	if k.written = now; gap <= dialect.Bound(w.plan.Old.Truth.Gap) {
		k.stamped = now
	}
}

// sights returns what the watcher reports now, if it still looks. A look that
// comes late begins a new window.
func (w *world) sights() (s fleet.Sighting, looks bool) {
	now, server := w.h.now(), w.redis.ServerNow()
	w.mu.Lock()
	defer w.mu.Unlock()
	if now-w.watch.last > 12*time.Second {
		w.watch.from = now
	}
	w.watch.last = now
	then := func(at time.Duration) time.Time { return server.Add(at - now) }
	touch := func(k *key, what string, at time.Duration) *fleet.Touch {
		if at == 0 {
			return nil
		}
		return &fleet.Touch{At: then(at), Key: k.name, What: what}
	}
	s = fleet.Sighting{Observer: "sim", From: then(w.watch.from), Until: server,
		Window: fleet.Window{QuietUntil: server, Quiet: now - max(w.watch.from, w.watch.acted)}}
	for _, k := range w.keys {
		if k.written > 0 || k.tried > 0 {
			s.Keys = append(s.Keys, fleet.SightedKey{Key: k.name,
				LastWrite: touch(k, "write", k.written), LastFailed: touch(k, "attempt", k.tried)})
		}
	}
	return s, !w.watch.stops
}

// quiet returns for how long no old client had tried, by the look of the
// watcher that the server has.
func (w *world) quiet() time.Duration {
	var s fleet.Sighting
	text, _ := w.redis.Mini.Get(seenKey)
	_ = json.Unmarshal([]byte(text), &s)
	return s.Quiet
}

// verb is an act of the operator.
func (p *process) verb(o Op) {
	w := p.w
	p.awake(o)
	options := w.options(p, o)
	pool := p.poolOf(0, !options.Go)
	defer pool.Close()
	if o.Kind == Watch {
		w.idles()
		if s, looks := w.sights(); looks {
			_ = s.Keep(p.life, pool, space)
		}
		return
	}
	act, name := verbs(o.Kind, w.record())
	r, err := act(p.life, pool, options)
	p.awake(o)
	p.add(Event{Kind: Stepped, Op: o.ID, Text: name + ": " + w.answer(r, err)})
	if name == "init" {
		w.finishes(p, pool, o)
	}
}

// finishes goes on with an init that followed clean. Until that is over,
// members in observe take its tombstones for held locks.
func (w *world) finishes(p *process, pool *redis.Pool, o Op) {
	o.Hold = 10 * time.Second
	for until := w.h.now() + time.Minute; w.h.now() < until; {
		r := w.record()
		if r.Phase != migrate.Observe || r.Pending == migrate.NoPhase || p.life.Err() != nil {
			return
		}
		_, _ = fleet.Init(p.life, pool, w.options(p, o))
		time.Sleep(time.Second + 1)
		p.awake(o)
	}
}

type verb = func(context.Context, *redis.Pool, fleet.Options) (*fleet.Report, error)

// verbs returns the verb that an operator calls in a phase.
func verbs(kind OpKind, r migrate.Record) (verb, string) {
	phase := r.Phase
	switch {
	case r.Pending == migrate.Clean:
		return fleet.Init, "init" // goes on with a new beginning
	case kind == Back:
		return fleet.Back, "back"
	case kind == Sweep:
		return fleet.Sweep, "sweep"
	case kind == Again, phase == migrate.NoPhase:
		return fleet.Init, "init"
	case phase >= migrate.Modern:
		return fleet.CleanUp, "clean"
	}
	return fleet.Advance, "advance"
}

// options are those of an operator who knows the old clients. It forgets the
// members that it knows to be dead.
func (w *world) options(p *process, o Op) fleet.Options {
	t := w.plan.Old.Claims
	out := fleet.Options{Namespace: space, Dialect: w.plan.Old.dialect(), Go: o.ID%9 != 4 || o.Kind == Again,
		Wait: o.Hold, ForGate: o.ID%2 == 0, Clock: p.clock, Timeout: 2 * time.Second,
		Claims: fleet.Claims{Lease: t.Lease, Greatest: t.Greatest, Job: max(w.plan.Old.honest(), t.Greatest),
			Spread: t.Spread, Gap: t.Gap,
			Behind: t.Behind, Ahead: t.Ahead, Idle: max(w.plan.Old.Idle, time.Second)}}
	if w.record().Epoch == 0 && o.ID%3 > 0 {
		out.To = w.stated
	}
	if o.ID%2 == 0 {
		out.Forget = []string{"dead"} // each member that is silent for long, alive or not
		return out
	}
	for q := range w.seated() {
		if q.dead.Load() {
			out.Forget = append(out.Forget, q.member.ID())
		}
	}
	return out
}

// answer says in a few words what a verb answered.
func (w *world) answer(r *fleet.Report, err error) string {
	switch {
	case err != nil:
		return "no answer"
	case r.Moved:
		w.h.sometimes("a step taken")
		return "taken, the phase is " + r.Phase.String()
	case r.Gate == nil:
		return "nothing to do, the phase is " + r.Phase.String()
	}
	rules := []string{}
	for _, b := range r.Gate.Blocks {
		rules = append(rules, b.Rule)
	}
	slices.Sort(rules)
	if len(rules) > 0 {
		w.h.sometimes("a refused gate")
	}
	return "refused to " + r.Gate.To.String() + ": " + strings.Join(slices.Compact(rules), ", ")
}

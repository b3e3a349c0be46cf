// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

// space is the namespace of every plan with a fleet's record.
const space = "k"

// Operations of an operator.
const (
	Forward OpKind = "forward" // the next step, whichever verb takes it
	Back    OpKind = "back"
	Sweep   OpKind = "sweep"
	Again   OpKind = "again" // a new beginning after clean
	Watch   OpKind = "watch" // one look at what old clients did
)

// road draws an operator who watches and asks for one step after the other. The
// old clients have stopped before the end, and one of them may come back.
func (d dice) road(p *Plan, ours int, span time.Duration) {
	p.Machines = append(p.Machines, Machine{})
	p.Procs = append(p.Procs, Proc{Kind: Operator, Machine: len(p.Machines) - 1, TTL: time.Second,
		Near: d.between(100*time.Microsecond, 3*time.Millisecond)})
	operator, tail := len(p.Procs)-1, 20*time.Second
	if p.Old.Begins != migrate.NoPhase {
		tail = 2 * time.Second
	}
	for at := time.Duration(0); at < span+tail+10*time.Second; at += 4 * time.Second {
		p.op(Op{At: at + d.nanos(time.Second), Proc: operator, Kind: Watch})
	}
	p.op(Op{At: 500*time.Millisecond + d.nanos(time.Second), Proc: operator, Kind: Forward})
	for at := 4 * time.Second; at < span+tail; at += time.Second + d.nanos(4*time.Second) {
		o := Op{At: at, Proc: operator, Kind: Forward, Hold: pick(d, 0, 0, 3*time.Second, 10*time.Second)}
		switch {
		case d.one(12):
			o.Kind = Back
		case d.one(12):
			o.Kind = Sweep
		case d.one(40):
			o.Kind = Again
		}
		p.op(o)
		if d.one(3) { // the next step before every member has taken up this one
			o.At += 20*time.Millisecond + d.nanos(600*time.Millisecond)
			o.Kind, o.Hold = pick(d, Forward, Back), 0
			p.op(o)
		}
	}
	for range d.IntN(3) {
		p.fault(Fault{At: 4*time.Second + d.nanos(span),
			For: 5*time.Second + d.nanos(20*time.Second), Proc: d.IntN(ours),
			Kind: pick(d, Freeze, Hold, HoldRequest, HoldReply, Refuse, Suspend)})
	}
	if d.one(3) {
		p.op(Op{At: span/3 + d.nanos(span/2), Proc: d.IntN(ours), Kind: Kill})
	}
	for range d.IntN(4) {
		p.op(Op{At: span/2 + d.nanos(span/2), Proc: ours + d.IntN(operator-ours), Key: d.IntN(p.Keys),
			Kind: Acquire, Hold: d.nanos(2 * time.Second), Cancel: 2 * time.Second, Late: true})
	}
}

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
	if w.plan.Old.Begins != migrate.NoPhase && o.ID%2 == 0 {
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

// seated are the processes whose members are in the roster, dead ones too.
func (w *world) seated() iter.Seq[*process] {
	w.redis.ServerNow()
	return func(yield func(*process) bool) {
		for _, p := range w.procs {
			if p.joined() != nil && w.redis.Mini.HGet(rosterKey, p.member.ID()) != "" && !yield(p) {
				return
			}
		}
	}
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

// record returns what the server says; the zero Record: there is none.
func (w *world) record() migrate.Record {
	w.redis.ServerNow()
	text, _ := w.redis.Mini.Get(phaseKey)
	r, err := migrate.ParseRecord(text)
	if err != nil {
		return migrate.Record{}
	}
	return r
}

// recorded records that the record changed, and by which phases members act at
// that instant.
func (w *world) recorded(l *link) {
	by := l.p
	if w.plan.Form != Bridged || w.plan.Procs[by.id].Kind != Operator {
		return
	}
	r := w.record()
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.said
	if r.Epoch == was.Epoch || w.plan.short() && r.Epoch == 1 { // an old record was restored
		return
	}
	w.said = r
	w.h.sometimes("phase " + r.Phase.String())
	w.h.add(Event{Kind: Recorded, Proc: by.id, Op: None, Text: r.Phase.String(),
		Until: l.verb.quiet, Stands: was.Epoch == 0 && w.restores(r.Phase)})
	for p := range w.seated() {
		if p.dead.Load() {
			continue
		}
		s := p.member.State()
		w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: s.Phase.String()})
		for _, by := range migrate.Phases() {
			if s.Leases[by] > 0 {
				w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: by.String(), Done: true})
			}
		}
	}
	w.steps(l, was, r)
}

// restores reports whether a lost record was written in a phase that no member
// has left: it moves nobody forwards. w.mu is held.
func (w *world) restores(phase migrate.Phase) bool {
	for p := range w.seated() {
		if by := p.member.State().Phase; !p.dead.Load() && by != migrate.NoPhase && by < phase {
			return false
		}
	}
	return w.plan.Old.has(lostRecord)
}

// window is how long no old client may have tried before the step to a phase.
func (o *Old) window(to migrate.Phase) time.Duration {
	t := o.Truth
	long := t.Greatest + o.honest() + dialect.Bound(t.Spread)
	if to == migrate.Sealed || to == migrate.Clean {
		long = max(long, o.Idle)
	}
	return long
}

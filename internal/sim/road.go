// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// sighting is what a watcher of the server's commands has seen.
type sighting struct {
	mu           sync.Mutex
	from         time.Duration // since when it has watched without a hole
	last         time.Duration // its last look
	acted        time.Duration // last attempt of an old client; -1: none
	write, tries map[string]time.Duration

	// How long no old client had tried: at each look, by the server's time
	// then, and at the look that the server has.
	looked map[int64]time.Duration
	kept   []glance

	stops bool // it looks no more
}

// glance is a look of the watcher: when the server got it, and for how long no
// old client had tried by then.
type glance struct{ at, quiet time.Duration }

// quiet returns for how long no old client had tried, by the look that a verb
// read.
func (s *sighting) quiet(read time.Duration) (quiet time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.kept {
		if l.at <= read {
			quiet = l.quiet
		}
	}
	return quiet
}

// saw notes an attempt of an old client.
func (s *sighting) saw(at time.Duration, key string, won bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.write == nil {
		s.write, s.tries = map[string]time.Duration{}, map[string]time.Duration{}
	}
	s.acted = at
	if won {
		s.write[key] = at
	} else {
		s.tries[key] = at
	}
}

// looks returns what a watcher that looks now reports. A look that comes late
// begins a new window.
func (s *sighting) looks(now time.Duration, server time.Time) fleet.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stops {
		return fleet.Sighting{}
	}
	if now-s.last > 12*time.Second {
		s.from = now
	}
	s.last = now
	then := func(at time.Duration) time.Time { return server.Add(at - now) }
	out := fleet.Sighting{Observer: "sim", From: then(s.from), Until: server,
		Window: fleet.Window{QuietUntil: server, Quiet: now - max(s.from, s.acted)}}
	if s.looked == nil {
		s.looked = map[int64]time.Duration{}
	}
	s.looked[server.UnixNano()] = now - s.acted
	touch := func(key, what string, all map[string]time.Duration) *fleet.Touch {
		if at, ok := all[key]; ok {
			return &fleet.Touch{At: then(at), Key: key, What: what}
		}
		return nil
	}
	for n := range 2 {
		key := fmt.Sprint("k", n)
		if k := (fleet.SightedKey{Key: key, LastWrite: touch(key, "write", s.write),
			LastFailed: touch(key, "attempt", s.tries)}); k.LastWrite != nil || k.LastFailed != nil {
			out.Keys = append(out.Keys, k)
		}
	}
	return out
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
		if s := w.sight.looks(w.h.now(), w.redis.ServerNow()); s.Observer != "" {
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
		Claims: fleet.Claims{Lease: t.Lease, Greatest: t.Greatest, Job: w.plan.Old.job(),
			Spread: t.Spread, Gap: t.Gap,
			Behind: t.Behind, Ahead: t.Ahead, Idle: max(w.plan.Old.Idle, time.Second)}}
	if w.record().Epoch == 0 && o.ID%3 > 0 {
		out.To = w.stated
	}
	if w.plan.Old.Begins != migrate.NoPhase && o.ID%2 == 0 {
		out.Forget = []string{"dead"} // each member that is silent for long, alive or not
		return out
	}
	for _, q := range w.procs {
		if q.joined() != nil && q.dead.Load() && w.seated(q) {
			out.Forget = append(out.Forget, q.member.ID())
		}
	}
	return out
}

// seated reports whether the roster has a process' member.
func (w *world) seated(p *process) bool {
	w.redis.ServerNow()
	return w.redis.Mini.HGet(rosterKey, p.member.ID()) != ""
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

// keeps notes a look of the watcher that the server got.
func (s *sighting) keeps(m message, now time.Duration) {
	var it fleet.Sighting
	if !m.name.Is("SET") || len(m.name) < 3 || m.name[1] != seenKey ||
		json.Unmarshal([]byte(m.name[2]), &it) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, glance{now, s.looked[it.Until.UnixNano()]})
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
	w.said, w.moved = r, w.h.now()
	w.h.sometimes("phase " + r.Phase.String())
	w.h.add(Event{Kind: Recorded, Proc: by.id, Op: None, Text: r.Phase.String(),
		Until: w.sight.quiet(l.verb.saw), Stands: was.Epoch == 0 && w.restores(r.Phase)})
	for _, p := range w.procs {
		if p.joined() == nil || p.dead.Load() || !w.seated(p) {
			continue
		}
		s := p.member.State()
		w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: s.Phase.String()})
		for _, held := range slices.SortedFunc(keysIn(s.Leases), cmp.Compare) {
			w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: held.String(), Done: true})
		}
	}
	w.steps(l, was, r)
}

// restores reports whether a lost record was written in a phase that no member
// has left: it moves nobody forwards. w.mu is held.
func (w *world) restores(phase migrate.Phase) bool {
	return w.plan.Old.has(lostRecord) && !slices.ContainsFunc(w.procs, func(p *process) bool {
		if p.joined() == nil || p.dead.Load() || !w.seated(p) {
			return false
		}
		by := p.member.State().Phase
		return by != migrate.NoPhase && by < phase
	})
}

func keysIn(leases map[migrate.Phase]int) func(func(migrate.Phase) bool) {
	return func(yield func(migrate.Phase) bool) {
		for p, n := range leases {
			if n > 0 && !yield(p) {
				return
			}
		}
	}
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

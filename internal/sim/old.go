// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// Old says what the old clients of a plan are like.
type Old struct {
	Dialect string
	Claims  dialect.Terms // what getsetlock's clients know
	Truth   dialect.Terms // what holds in this plan, with both clocks' bounds
	Idle    time.Duration // longest pause between two attempts of one old client
	False   string        // the claim that is less than the truth; empty: none
	Every   time.Duration // between two heartbeats of a member
	Long    bool          // members ask for leases beyond the lease rule
	Begins  migrate.Phase // phase of the record from the start; NoPhase: init is part of the play
	Bare    int           // keys from this one on begin without a tombstone
	Fence   bool          // bridges draw fencing numbers

	Target string // what the bridges are composed with; empty: nothing
	Apart  bool   // one of the members names another target

	Disorder  int           // number of a disorder; 0: none
	Disorders time.Duration // when it begins
}

// dialect returns the old clients' dialect, which is a preset.
func (o *Old) dialect() dialect.Dialect { return presets()[o.Dialect] }

var presets = sync.OnceValue(func() map[string]dialect.Dialect {
	all := map[string]dialect.Dialect{}
	for _, d := range dialect.Presets() {
		all[d.Name] = d
	}
	return all
})

// honest is how long an old client may hold: E + c − S − g. Clients of dialects
// without takeovers go by the same rule here, although they could hold longer.
func (o *Old) honest() time.Duration {
	t := o.Truth
	return t.Lease + o.dialect().EffectiveSlack() - dialect.Bound(t.Spread) - dialect.Bound(t.Gap)
}

// besides reports whether old clients share the form's keys.
func (f Form) besides() bool { return f == Beside || f == Bridged }

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

// pool dials the first server through the process's links.
func (p *process) pool() *redis.Pool { return p.poolOf(0, false) }

// poolOf dials a server. shows: for a verb that is to change nothing.
func (p *process) poolOf(node int, shows bool) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := p.dial(ctx, node, shows)
		if err != nil {
			return nil, err
		}
		return redis.NewConn(conn, 0, 0), nil
	}}
}

// drawOld draws a plan with old clients alongside hardened ones, or with
// bridges and an operator.
func (d dice) drawOld(p *Plan, form Form) {
	p.Form, p.Keys = form, 1+d.IntN(2)
	all := dialect.Presets()
	name := all[d.IntN(len(all))]
	for unsuitable[name.Name] {
		name = all[d.IntN(len(all))]
	}
	p.Old = &Old{Dialect: name.Name, Every: pick(d, time.Second, 2*time.Second), Long: d.one(3)}
	lease := pick(d, 6*time.Second, 10*time.Second)
	span := 30*time.Second + d.nanos(40*time.Second)
	until := span
	switch short := form == Bridged && !d.one(8); {
	case short:
		lease, span = 4*time.Second, d.stretch(p)
		if until = span; p.Old.Disorder > 0 || d.one(2) { // else they stay to the end
			until = span / 5
		}
	case form == Bridged:
		lease, span = pick(d, 4*time.Second, 6*time.Second), 100*time.Second+d.nanos(50*time.Second)
		until = span * 2 / 5
	}
	ours := d.oldProcs(p, lease, span)
	d.oldOps(p, ours, lease, span, until)
	for range d.IntN(3) {
		if p.Old.Begins < migrate.Sealed {
			d.ambush(p, ours, lease, until)
		}
	}
	d.heirs(p, ours, lease, until)
	if form == Bridged {
		d.road(p, ours, span)
	}
	d.oldFaults(p, lease, span)
	if d.one(2) {
		d.parting(p)
	}
	if c := p.Procs[ours-1]; c.Starts > 0 && d.one(2) { // trouble at its first lock
		p.fault(Fault{At: c.Starts + d.nanos(2*time.Second),
			For: d.between(10*time.Millisecond, time.Second), Proc: ours - 1,
			Kind: pick(d, Refuse, HoldReply, HoldRequest, Slow), Amount: 100 * time.Millisecond})
	}
	d.claim(p, lease)
}

// short reports whether the plan is a part of a migration.
func (p *Plan) short() bool { return p.Old != nil && p.Old.Begins != migrate.NoPhase }

// oldProcs draws the processes, and returns how many are no old clients.
func (d dice) oldProcs(p *Plan, lease, span time.Duration) (ours int) {
	common := pick(d, 0, 0, -20*time.Second, 20*time.Second, -2*time.Hour)
	for n := range 2 + d.IntN(3) {
		p.Machines = append(p.Machines, d.machine())
		c := d.proc(p)
		c.Machine, c.TTL = n, lease/2
		c.Margin, c.RenewEvery, c.Timeout = c.TTL/10, pick(d, 0, c.TTL/4), pick(d, 0, 300*time.Millisecond)
		c.RetryEvery = pick(d, 0, 100*time.Millisecond, 250*time.Millisecond)
		if p.short() && p.Old.Long && d.one(2) {
			c.TTL, c.RenewEvery = 2*lease, 0 // beyond the lease rule
		}
		p.Procs = append(p.Procs, c)
	}
	ours = len(p.Procs)
	if p.short() && d.one(3) {
		p.Procs[ours-1].Starts = 2*time.Second + d.nanos(span/2)
	}
	for range 1 + d.IntN(3) {
		p.Machines = append(p.Machines, Machine{Offset: common + d.nanos(lease/8) - lease/16,
			PPM: d.Float64()*200 - 100})
		p.Procs = append(p.Procs, Proc{Kind: OldClient, Machine: len(p.Machines) - 1,
			TTL: pick(d, lease, lease, 2*lease), Near: d.between(100*time.Microsecond, d.near(p.Form))})
	}
	return ours
}

// oldOps draws the operations. Old clients begin none later than until.
func (d dice) oldOps(p *Plan, ours int, lease, span, until time.Duration) {
	many := int(span/time.Second) * 2 / 3
	if p.short() {
		many *= 2
	}
	for range many {
		o := d.op(p, span)
		if o.Proc >= ours && p.Old.Begins >= migrate.Sealed {
			o.Proc = d.IntN(ours) // no old client is left
		}
		if o.Proc >= ours {
			o.At = d.nanos(until)
		}
		if o.Kind == Kill && p.Form == Bridged {
			o.Kind = Acquire // road draws that
		}
		if p.Form == Bridged && d.one(4) {
			o.Hold = lease + d.nanos(2*lease) // the record may move on twice meanwhile
		}
		o.Hold = min(o.Hold, 3*lease)
		p.op(o)
	}
	for i := range p.Ops {
		d.oldOp(p, &p.Ops[i], lease)
	}
}

// unsuitable dialects have orphans that no time frees, or never release.
var unsuitable = map[string]bool{"Bare": true, "BareExpire": true, "Machinery": true}

// oldOp makes an operation one of an old client.
func (d dice) oldOp(p *Plan, o *Op, lease time.Duration) {
	if p.Procs[o.Proc].Kind != OldClient {
		return
	}
	o.Kind, o.Cancel = Acquire, pick(d, 0, time.Second, 5*time.Second)
	switch {
	case d.one(15):
		o.Kind = Kill // it dies with the key
	case d.one(8):
		o.Rushes, o.Hold = true, d.between(time.Millisecond, lease/2)
	case d.one(25):
		o.Hold, o.Overruns = lease+d.nanos(2*lease), true
	default:
		o.Hold = min(o.Hold, lease/2)
	}
}

// ambush lets an old client overrun its lease for so long that another client
// takes the key over and works when the old client deletes it.
func (d dice) ambush(p *Plan, ours int, lease, span time.Duration) {
	at, key := d.nanos(span), d.IntN(p.Keys)
	long := lease + d.nanos(2*lease)
	p.op(Op{At: at, Proc: ours + d.IntN(len(p.Procs)-ours), Key: key,
		Kind: Acquire, Hold: long, Cancel: time.Second, Overruns: true})
	for at += long / 3; at < span+lease && at < p.Ops[len(p.Ops)-1].At+long; at += long / 8 {
		p.op(Op{At: at + d.nanos(long/8), Proc: d.IntN(ours), Key: key,
			Kind: Acquire, Hold: lease + d.nanos(lease)})
		if d.one(2) {
			break
		}
	}
}

// near is the greatest latency of an old client's messages. Where they are
// slow, two old clients more often take one stamp for expired.
func (d dice) near(form Form) time.Duration {
	if form == Beside {
		return pick(d, 3*time.Millisecond, 20*time.Millisecond)
	}
	return 3 * time.Millisecond
}

// heirs lets an old client die with a key for which all others wait.
func (d dice) heirs(p *Plan, ours int, lease, span time.Duration) {
	if p.Form != Beside {
		return
	}
	at, key := d.nanos(span), d.IntN(p.Keys)
	for proc := range p.Procs {
		o := Op{At: at + d.nanos(lease/2), Proc: proc, Key: key, Kind: Acquire,
			Hold: d.between(time.Millisecond, lease/2), Cancel: 4 * lease}
		switch wait := p.Procs[proc].Wait; {
		case proc == ours:
			o.At, o.Kind, o.Hold = at, Kill, time.Millisecond
		case wait > 0 && d.one(2): // its wait ends while its takeover settles
			o.At = max(at, at+lease+d.nanos(lease/2)-wait)
		}
		p.op(o)
		if p.Procs[proc].Kind == OldClient && d.one(2) { // it writes what it decided a while ago
			p.fault(Fault{At: at, For: 6 * lease, Proc: proc, Kind: Slow, Amount: lease / 150})
		}
	}
}

// oldFaults draws the faults that suit old clients, after members have joined.
func (d dice) oldFaults(p *Plan, lease, span time.Duration) {
	for range d.IntN(7) {
		f := d.fault(p, span)
		f.At += 2 * time.Second
		if p.suits(&f, lease) {
			if p.composed() && d.one(2) && !f.is(Freeze, Suspend, Step) {
				f.Node = 1 + d.IntN(p.servers()) // the other server answers
			}
			p.fault(f)
		}
	}
}

// suits fits a fault to a world with old clients, and reports whether it may
// be: a server that forgets lets anybody in.
func (p *Plan) suits(f *Fault, lease time.Duration) bool {
	f.For = min(f.For, 4*lease)
	switch f.Kind {
	case ServerStep:
		f.Amount %= lease / 30
		return !slices.ContainsFunc(p.Faults, func(g Fault) bool { return g.Kind == ServerStep })
	case Step:
		f.Amount %= lease / 16
	}
	return !f.Kind.forgets()
}

// claim computes what holds of the old clients in this plan, and draws what is
// claimed.
func (d dice) claim(p *Plan, lease time.Duration) {
	o := p.Old
	least, most, back, ahead := p.clocks()
	t := dialect.Terms{Lease: lease, Greatest: lease, Gap: pick(d, lease/10, lease/20)}
	for _, c := range p.Procs {
		if c.Kind == OldClient {
			t.Greatest = max(t.Greatest, c.TTL)
		}
	}
	spread := most - least
	if o.dialect().ServerExpires() {
		spread += ahead - back
	}
	// In whole milliseconds, as people claim times and as the record has them.
	whole := func(d time.Duration) time.Duration {
		return dialect.Claim(d.Truncate(time.Millisecond) + time.Millisecond)
	}
	t.Spread = whole(spread)
	t.Behind, t.Ahead = whole(max(0, ahead-least)), whole(max(0, most-back))
	o.Truth, o.Claims = t, t
	if d.one(2) {
		o.Claims.Behind = 0
	}
	if d.one(2) {
		o.Claims.Ahead = 0
	}
	if d.one(10) {
		switch o.False = pick(d, "spread", "behind"); o.False {
		case "spread":
			o.Claims.Spread = dialect.Zero
		case "behind":
			o.Claims.Behind = dialect.Zero
		}
	}
	for n, c := range p.Procs {
		if c.Kind == OldClient {
			o.Idle = max(o.Idle, p.pause(n))
		}
	}
}

// pause is the longest time between the beginnings of two operations of an old
// client, but of those that come back late.
func (p *Plan) pause(proc int) (most time.Duration) {
	var all []time.Duration
	for _, o := range p.Ops {
		if o.Proc == proc && !o.Late && !o.Rushes {
			all = append(all, o.At)
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		most = max(most, all[i]-all[i-1])
	}
	return most
}

// clocks returns the bounds of all old clients' clocks, and those of the
// server's.
func (p *Plan) clocks() (least, most, back, ahead time.Duration) {
	const drift = 100 * time.Millisecond // a plan lasts for ten minutes at most
	var shown []time.Duration
	for id, c := range p.Procs {
		if c.Kind == OldClient {
			back, ahead = p.steps(p.Machines[c.Machine].Offset, Step, id)
			shown = append(shown, back, ahead)
		}
	}
	back, ahead = p.steps(0, ServerStep, All)
	return slices.Min(shown) - drift, slices.Max(shown) + drift, back, ahead
}

// steps returns the bounds of a clock that begins at an offset and steps with
// the faults of a kind that hit a process.
func (p *Plan) steps(at time.Duration, kind FaultKind, proc int) (least, most time.Duration) {
	least, most = at, at
	for _, f := range slices.SortedStableFunc(slices.Values(p.Faults),
		func(a, b Fault) int { return cmp.Compare(a.At, b.At) }) {
		if f.Kind == kind && (f.Proc == proc || p.onMachine(f, proc)) {
			at += f.Amount
			least, most = min(least, at), max(most, at)
		}
	}
	return least, most
}

// bridge joins the fleet and opens a bridge that follows its record.
func (p *process) bridge(c Proc, wake backend.Wake) (_ backend.Store, err error) {
	o := p.w.plan.Old
	p.member, err = migrate.Join(context.Background(), p.pool(), migrate.MemberConfig{Namespace: space,
		Name: fmt.Sprint("p", p.id), Host: "sim", Dialect: o.Dialect, Every: o.Every, Renews: 3 * o.Every,
		Timeout: c.Timeout, Clock: p.clock, Target: o.names(p.id)})
	if err != nil {
		return nil, err
	}
	b, err := migrate.New(p.pool(), migrate.Config{Phases: p.member, Dialect: o.dialect(), Terms: o.Claims,
		LongLeases: o.Long, Namespace: space, Wake: wake, Timeout: c.Timeout, Clock: p.clock, Fence: o.Fence})
	if err != nil || o.Target == "" {
		return b, err
	}
	target, err := modern.New(p.poolOf(theTarget, false), modern.Config{Fence: o.Fence,
		Fair: p.w.plan.Seed%2 == 0, Wake: wake, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return migrate.Compose(b, target)
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

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// Old says what the old clients of a plan are like.
type Old struct {
	Dialect dialect.Dialect
	Claims  dialect.Terms // what getsetlock's clients know
	Truth   dialect.Terms // what holds in this plan, with both clocks' bounds
	Idle    time.Duration // longest pause between two attempts of one old client
	False   string        // the claim that is less than the truth; empty: none
	Every   time.Duration // between two heartbeats of a member
	Long    bool          // members ask for leases beyond the lease rule
	Begins  migrate.Phase // phase of the record from the start; NoPhase: init is part of the play
	Bare    int           // keys from this one on begin without a tombstone

	Target string // what the bridges are composed with; empty: nothing
	Apart  bool   // one of the members names another target

	Disorder  int           // number of a disorder; 0: none
	Disorders time.Duration // when it begins
}

// honest is how long an old client may hold: E + c − S − g. Clients of dialects
// without takeovers go by the same rule here, although they could hold longer.
func (o *Old) honest() time.Duration {
	t := o.Truth
	return t.Lease + o.Dialect.EffectiveSlack() - dialect.Bound(t.Spread) - dialect.Bound(t.Gap)
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

// short reports whether the plan is a part of a migration.
func (p *Plan) short() bool { return p.Old != nil && p.Old.Begins != migrate.NoPhase }

// besides reports whether old clients share the form's keys.
func (f Form) besides() bool { return f == Beside || f == Bridged }

// theTarget is the server that composed bridges take their locks on too.
const theTarget = 1

// composed reports whether the plan's bridges are composed with a target.
func (p *Plan) composed() bool { return p.Old != nil && p.Old.Target != "" }

// watched returns the key on which the lease's token stands.
func (p *Plan) watched(key string) string {
	if p.Form.marked() && !p.composed() {
		return legacy.MarkKey(key)
	}
	return key
}

// names returns the target that a process's member names.
func (o *Old) names(proc int) string {
	if o.Apart && proc == 0 {
		return "u"
	}
	return o.Target
}

// drawOld draws a plan with old clients alongside hardened ones, or with
// bridges and an operator.
func (d dice) drawOld(p *Plan, form Form) {
	p.Form, p.Keys = form, 1+d.IntN(2)
	old := pick(d, dialect.Presets()...)
	for unsuitable[old.Name] {
		old = pick(d, dialect.Presets()...)
	}
	p.Old = &Old{Dialect: old, Every: pick(d, time.Second, 2*time.Second), Long: d.one(3)}
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
	d.firstLocks(p, ours)
	d.claim(p, lease)
}

// firstLocks draws what goes wrong when a process takes its first lock, and
// sometimes how one parts.
func (d dice) firstLocks(p *Plan, ours int) {
	if d.one(2) {
		d.parting(p)
	}
	if c := p.Procs[ours-1]; c.Starts > 0 && d.one(2) { // something goes wrong at its first lock
		p.fault(Fault{At: c.Starts + d.nanos(2*time.Second),
			For: d.between(10*time.Millisecond, time.Second), Proc: ours - 1,
			Kind: pick(d, Refuse, HoldReply, HoldRequest, Slow), Amount: 100 * time.Millisecond})
	}
	for i := range p.Ops { // its first lock comes when its heartbeats are refused
		if o := &p.Ops[i]; p.Old.has(unheard) && p.Seed%2 == 0 && o.Proc == 0 && o.At < p.Old.Disorders {
			o.At += p.Old.Disorders
		}
	}
}

// stretch makes a plan with a fleet a short one. Its record has a phase from
// the start, and the steps of a migration are played in parts, by many seeds.
func (d dice) stretch(p *Plan) (span time.Duration) {
	p.Old.Begins = pick(d, migrate.Phases()...)
	p.Old.Bare, p.Fenced = 1+d.IntN(2), d.one(3)
	if d.one(3) {
		p.Old.Target, p.Old.Apart = "t", d.one(4)
	}
	if !d.one(3) {
		p.Old.Disorder, p.Old.Disorders = 1+d.IntN(len(disorders)), 2*time.Second+d.nanos(9*time.Second)
		if disorders[p.Old.Disorder-1].from == migrate.Sealed { // where a step that it forbids would be taken
			p.Old.Begins = pick(d, migrate.Dual, migrate.Sealed, migrate.Modern)
		}
	}
	return 25*time.Second + d.nanos(15*time.Second)
}

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

// near is the greatest latency of an old client's messages. Where they are
// slow, two old clients more often take one stamp for expired.
func (d dice) near(form Form) time.Duration {
	if form == Beside {
		return pick(d, 3*time.Millisecond, 20*time.Millisecond)
	}
	return 3 * time.Millisecond
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
	if p.short() {
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
	if o.Dialect.ServerExpires() {
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

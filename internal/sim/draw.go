// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// dice draws a plan.
type dice struct{ *rand.Rand }

// between draws a duration, evenly by its order of magnitude. It only doubles,
// since functions of package math differ between machines.
func (d dice) between(least, most time.Duration) time.Duration {
	doublings := 0
	for at := least; 2*at <= most; at *= 2 {
		doublings++
	}
	at := least << d.IntN(doublings+1)
	return min(at+d.nanos(at), most)
}

func (d dice) nanos(below time.Duration) time.Duration { return time.Duration(d.Int64N(int64(below))) }

// one reports true once in n draws.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// Draw draws the plan of a seed.
func Draw(seed uint64) *Plan {
	d := dice{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	switch seed % 12 {
	case 7:
		p := &Plan{Seed: seed, Form: Quorum}
		d.drawQuorum(p)
		return p
	case 3, 11:
		p := &Plan{Seed: seed}
		d.drawOld(p, Beside)
		return p
	case 1, 5, 9:
		p := &Plan{Seed: seed}
		d.drawOld(p, Bridged)
		return p
	}
	p := &Plan{Seed: seed, Form: pick(d, Plain, Fence, Fair, FairFence, Hardened), Keys: 1 + d.IntN(2)}
	for range 1 + d.IntN(3) {
		p.Machines = append(p.Machines, d.machine())
	}
	for range 2 + d.IntN(3) {
		p.Procs = append(p.Procs, d.proc(p))
	}
	span := 20*time.Second + d.nanos(40*time.Second)
	for range 40 + d.IntN(30) {
		p.op(d.op(p, span))
	}
	if d.one(20) {
		return p // a world in which nothing goes wrong
	}
	for range 1 + d.IntN(12) {
		p.fault(d.fault(p, span))
	}
	for range d.IntN(3) {
		d.siege(p)
	}
	if n := d.IntN(13); n < len(scenes) {
		scenes[n](d, p)
	}
	return p
}

// scenes are drawn for every second plan or more, some more often than others.
var scenes = []func(dice, *Plan){dice.hush, dice.hush, dice.patient, dice.crowd, dice.closing, dice.outage,
	dice.heads, dice.needle, dice.needle, dice.needle, dice.parting}

// hush makes the connection of a holder fall silent, once, or stalls an
// attempt, or leaves what it may have taken on a server that refuses its undo.
func (d dice) hush(p *Plan) {
	o := &p.Ops[d.IntN(len(p.Ops))]
	if p.Form == Hardened { // the shortest lease, renewed as late as may be
		c := &p.Procs[o.Proc]
		c.TTL, c.Margin, c.RenewEvery, c.Longest = 4*time.Second, 400*time.Millisecond, 2*time.Second, 0
		c.Timeout = 0
	}
	c := p.Procs[o.Proc]
	only := func(f Fault) {
		p.Faults, f.Proc = nil, o.Proc
		p.fault(f)
		id := o.ID
		p.Ops = slices.DeleteFunc(p.Ops, func(o Op) bool { return o.ID != id && o.ID%4 != 0 })
	}
	switch {
	case d.one(2):
		o.Kind, o.Cancel, o.Hold = pick(d, Acquire, Do), 0, 2*c.TTL
		only(Fault{At: o.At + d.nanos(c.TTL), Kind: pick(d, Silence, MuteReplies)})
	case d.one(2): // an attempt arrives after what undoes it, if that takes another way
		o.Kind, o.Cancel, p.Procs[o.Proc].Timeout = Try, 0, 0
		only(Fault{At: o.At - d.nanos(c.TTL/20), For: c.TTL*3/10 + d.nanos(c.TTL/5), Kind: Stall})
	default:
		p.fault(Fault{At: o.At, For: time.Second, Proc: o.Proc, Kind: CutAfter})
		p.fault(Fault{At: o.At + 8*c.Near, For: c.TTL/3 + d.nanos(c.TTL/2), Proc: o.Proc, Kind: Refuse})
	}
}

// needle lets few operations wait for one key, and breaks one to three messages
// in a row, each at the write with its number. What needs several things within
// milliseconds happens there.
func (d dice) needle(p *Plan) {
	p.Ops = p.Ops[:6+d.IntN(8)]
	for i := range p.Ops {
		o := &p.Ops[i]
		o.At, o.Key, o.Tarry = d.nanos(3*time.Second), 0, 0
		o.Kind = pick(d, Acquire, Acquire, Request, Do)
		o.Hold = d.between(time.Millisecond, 800*time.Millisecond)
		o.Cancel = pick(d, 0, 0, d.between(50*time.Millisecond, 2*time.Second))
	}
	p.Faults = nil
	proc, nth := d.IntN(len(p.Procs)), 1+d.IntN(20)
	for range 1 + d.IntN(3) {
		p.fault(Fault{Proc: proc, Nth: nth, Kind: pick(d, CutBefore, CutAfter, CutAfter, CutWithin)})
		if nth++; d.one(3) {
			proc, nth = d.IntN(len(p.Procs)), 1+d.IntN(20)
		}
	}
}

// parting loses what a release says, or its reply, and what is asked next.
func (d dice) parting(p *Plan) {
	for range 1 + d.IntN(3) {
		o := &p.Ops[d.IntN(len(p.Ops))]
		if p.Procs[o.Proc].Kind != "" || o.Kind == Close || o.Kind == Kill {
			continue
		}
		o.Kind, o.Cancel = pick(d, Acquire, Do), 0
		for range 1 + d.IntN(2) {
			p.fault(Fault{At: o.At + o.Hold - time.Millisecond,
				For: time.Second, Proc: o.Proc, Kind: pick(d, CutBefore, CutAfter, CutAfter, CutWithin)})
		}
	}
}

// siege cuts a holder off from before a renewal until after its trust is over,
// while the server's clock runs as far ahead as the law allows.
func (d dice) siege(p *Plan) {
	o := &p.Ops[d.IntN(len(p.Ops))]
	c := p.Procs[o.Proc]
	o.Kind, o.Cancel, o.Hold = pick(d, Acquire, Do), 0, 2*c.TTL+d.nanos(c.TTL)
	at := o.At + d.between(5*time.Millisecond, c.TTL/2)
	p.fault(Fault{At: at, For: c.TTL + d.nanos(2*c.TTL), Proc: o.Proc,
		Kind: pick(d, Hold, HoldRequest, HoldReply, Silence, Freeze, Suspend)})
	if d.one(2) {
		most := p.lawful()
		p.fault(Fault{At: at + d.nanos(c.TTL), Proc: All,
			Kind: ServerStep, Amount: most/2 + d.nanos(most/2)})
	}
}

// patient makes few operations wait long for each other. So a release gives the
// key to a waiter whose last try is most of a TTL ago.
func (d dice) patient(p *Plan) {
	p.Ops = p.Ops[:len(p.Ops)/3]
	for i := range p.Ops {
		o, most := &p.Ops[i], p.longest()
		if o.Kind == Acquire || o.Kind == Request || o.Kind == Do {
			o.Cancel, o.Hold = 0, most/2+d.nanos(most/2)
		}
	}
	alike := d.one(2)
	for i := range p.Procs {
		c := &p.Procs[i]
		c.Wait = 0
		if alike && p.Form != Hardened {
			c.TTL, c.Margin, c.RenewEvery = 10*time.Second, time.Second, pick(d, 0, 0, -time.Second)
			c.Deaf, c.Unwarned = false, d.one(2)
		}
	}
	p.Faults = p.Faults[:min(len(p.Faults), d.IntN(3))]
	if d.one(2) {
		return
	}
	// What a release says comes late. The server refuses what is asked before.
	p.fault(Fault{For: time.Minute, Proc: All,
		Kind: pick(d, Late, Twice), Amount: d.between(10*time.Millisecond, 8*time.Second)})
	for range d.IntN(6) {
		p.fault(Fault{At: 2*time.Second + d.nanos(40*time.Second),
			For: d.between(100*time.Millisecond, 2*time.Second), Proc: All,
			Kind: pick(d, Loading, Busy, OOM)})
	}
}

// crowd makes all processes wait for one key at all times. Some die, some stand
// still, and what some say when they give up waiting is lost.
func (d dice) crowd(p *Plan) {
	for len(p.Procs) < 4 {
		p.Procs = append(p.Procs, d.proc(p))
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		o.Proc, o.Key = d.IntN(len(p.Procs)), 0
		if o.Kind == Acquire || o.Kind == Request || o.Kind == Do {
			o.Cancel = pick(d, 0, 0, d.between(100*time.Millisecond, 5*time.Second))
			o.Hold = d.between(100*time.Millisecond, 3*time.Second)
		}
	}
	for i := range p.Procs {
		p.Procs[i].Wait = 0
	}
	p.Faults = p.Faults[:min(len(p.Faults), d.IntN(2))]
	for n := range d.IntN(4) {
		if o := p.Ops[n]; o.Cancel > 0 {
			p.fault(Fault{At: o.At + o.Cancel,
				For: 100 * time.Millisecond, Proc: o.Proc, Kind: pick(d, CutBefore, CutAfter)})
		}
	}
	for dead := range d.IntN(4) {
		p.op(Op{At: 5*time.Second + d.nanos(20*time.Second), Proc: dead, Kind: Kill})
	}
	if d.one(3) {
		at := d.nanos(20 * time.Second)
		for _, proc := range d.Perm(len(p.Procs))[:1+d.IntN(2)] {
			p.fault(Fault{At: at, For: 20 * time.Second, Proc: proc, Kind: Freeze})
		}
	}
}

// heads lets a key end whose first waiters have died or stand still.
func (d dice) heads(p *Plan) {
	for len(p.Procs) < 4 {
		p.Procs = append(p.Procs, d.proc(p))
	}
	p.Ops, p.Faults = nil, nil
	for proc := range p.Procs {
		p.Procs[proc].Wait = 0
		p.op(Op{At: time.Second + time.Duration(proc)*time.Second + d.nanos(500*time.Millisecond), Proc: proc,
			Kind: Acquire, Hold: 10 * time.Second})
	}
	still, dies := 5*time.Second, pick(d, Kill, Kill, "")
	for head := 1; head < len(p.Procs)-1; head++ {
		at := still + d.nanos(500*time.Millisecond)
		if dies != "" {
			p.op(Op{At: at, Proc: head, Kind: dies})
		} else {
			p.fault(Fault{At: at, For: 60 * time.Second, Proc: head, Kind: Freeze})
		}
	}
	p.op(Op{At: still + time.Second, Proc: 0, Kind: Kill})
}

// outage takes the server away from a process that waits: for long, or when
// its wait ends. Or each answer comes when its lease is over.
func (d dice) outage(p *Plan) {
	o := &p.Ops[d.IntN(len(p.Ops))]
	c := &p.Procs[o.Proc]
	o.Kind, o.Cancel, o.At = Acquire, 0, o.At/2+5*time.Second
	f := Fault{At: o.At - 20*time.Millisecond, For: 12*time.Second + d.nanos(12*time.Second), Proc: o.Proc}
	p.Faults = p.Faults[:min(len(p.Faults), d.IntN(2))]
	switch d.IntN(3) {
	case 0:
		c.Wait, f.Kind = 0, pick(d, Refuse, Hold, HoldRequest, HoldReply, Loading, ReadOnly, Busy)
		if f.is(Loading, ReadOnly, Busy) {
			f.Proc = All
		}
	case 1:
		c.Wait = 3 * time.Second
		f.At, f.Kind = o.At+c.Wait-d.nanos(late), pick(d, Hold, HoldRequest, HoldReply, Silence)
		for i := range p.Ops { // another process has the key meanwhile
			if q := &p.Ops[i]; q.Proc != o.Proc {
				q.Key, q.Hold = o.Key, d.between(time.Second, 4*time.Second)
			}
		}
	case 2:
		c.Wait, c.Timeout, f.Kind, f.For = 0, 5*time.Second, Slow, 30*time.Second
		f.Amount = min(c.TTL/2+d.nanos(c.TTL), 2*time.Second)
	}
	p.fault(f)
}

// closing makes processes close their Clients while they hold and wait, some of
// them without their server.
func (d dice) closing(p *Plan) {
	for proc := range 1 + d.IntN(len(p.Procs)) {
		o := Op{At: 5*time.Second + d.nanos(20*time.Second), Proc: proc, Kind: Close,
			Hold: d.between(time.Millisecond, 2*p.Procs[proc].TTL)}
		p.op(o)
		if d.one(2) {
			p.fault(Fault{At: o.At - d.nanos(p.Procs[proc].TTL),
				For: d.between(100*time.Millisecond, 3*p.Procs[proc].TTL), Proc: proc,
				Kind: pick(d, Hold, HoldRequest, HoldReply, Silence, Refuse, Stall)})
		}
	}
}

// lawful is how far the server's clock may step forward while a lease is held:
// a little less than the least margin.
func (p *Plan) lawful() time.Duration {
	least := p.longest()
	for _, c := range p.Procs {
		if c.Kind == "" {
			least = min(least, c.Margin-c.TTL/500)
		}
	}
	return least
}

func (d dice) machine() Machine {
	return Machine{Offset: d.nanos(2*time.Minute) - time.Minute, PPM: d.Float64()*400 - 200}
}

func (d dice) proc(p *Plan) Proc {
	c := Proc{Machine: d.IntN(len(p.Machines)), TTL: pick(d, time.Second, 2*time.Second, 5*time.Second,
		10*time.Second), Near: d.between(100*time.Microsecond, 3*time.Millisecond)}
	if p.Form == Hardened {
		c.TTL = pick(d, 4*time.Second, 5*time.Second, 10*time.Second, 20*time.Second)
	}
	switch p.Form {
	case Hardened, Beside:
		c.Politeness = pick(d, 0, -1, 100*time.Millisecond)
	case Bridged:
	default: // its own goroutines stay away
		c.Politeness = pick(d, 0, 0, 0, 50*time.Millisecond)
	}
	c.Margin = pick(d, c.TTL/10, c.TTL/10, c.TTL/5)
	c.RenewEvery = pick(d, 0, 0, 0, c.TTL/4, c.TTL/4, c.TTL/2, -1)
	c.RetryEvery = pick(d, 0, 50*time.Millisecond, 250*time.Millisecond)
	c.Wait = pick(d, 0, 0, 0, 3*time.Second, 15*time.Second, -1)
	c.Timeout = pick(d, 0, 0, 300*time.Millisecond, 5*time.Second)
	c.HandOvers = pick(d, 0, 0, -1, 2)
	if !p.Form.besides() {
		c.Longest = pick(d, 0, 0, 0, c.TTL)
	}
	c.Note = pick(d, "", "", "a note")
	c.Deaf = d.one(4)
	c.Unwarned = d.one(3)
	return c
}

func (d dice) op(p *Plan, span time.Duration) Op {
	o := Op{At: d.nanos(span), Proc: d.IntN(len(p.Procs)), Key: d.IntN(p.Keys),
		Kind: pick(d, Acquire, Acquire, Acquire, Try, Do, Request, ByHand),
		Hold: d.between(time.Millisecond, time.Second)}
	switch {
	case d.one(12):
		o.Hold = p.Procs[o.Proc].TTL + d.nanos(p.Procs[o.Proc].TTL) // it must be renewed
		o.Kind = pick(d, o.Kind, o.Kind, Hasty)
	case d.one(80):
		o.Kind = pick(d, Close, Kill)
	}
	if d.one(4) {
		o.Cancel = d.between(time.Millisecond, 2*time.Second)
	}
	if d.one(3) {
		o.Tarry = d.between(time.Millisecond, p.Procs[o.Proc].TTL)
	}
	return o
}

func (d dice) fault(p *Plan, span time.Duration) Fault {
	f := Fault{At: d.nanos(span), Proc: d.IntN(len(p.Procs))}
	f.Kind = pick(d, Hold, HoldRequest, HoldReply, HoldReply, Slow, Stall, Twice, Late, Silence, MuteReplies,
		Refuse, CutBefore, CutBefore, CutAfter, CutAfter, CutAfter, CutWithin, Freeze, Freeze, Suspend, Step,
		Restart, Reboot, Flush, ScriptFlush, FailOver, ServerStep, Loading, ReadOnly, OOM, Busy, NoAuth)
	longest := p.longest()
	f.For = d.between(5*time.Millisecond, 2*longest)
	switch f.Kind {
	case Hold, HoldRequest, HoldReply, Slow:
		if d.one(4) {
			f.Proc = All
		}
		f.Amount = d.between(time.Millisecond, 500*time.Millisecond)
		if d.one(4) {
			f.Amount = d.between(time.Millisecond, longest)
		}
	case Twice, Late:
		f.For, f.Amount = 10*time.Second, d.between(100*time.Microsecond, time.Second)
	case Silence, MuteReplies:
		f.For = 0
	case Step:
		f.For, f.Amount = 0, d.nanos(20*time.Second)-10*time.Second
	case Flush, ScriptFlush:
		f.For, f.Proc = 0, All
	case ServerStep: // three in four are within the law
		most := p.lawful()
		if d.one(4) {
			most *= 20
		}
		f.For, f.Proc, f.Amount = 0, All, d.nanos(2*most)-most
	case Restart, Reboot, Loading, ReadOnly, OOM, Busy, NoAuth:
		f.For, f.Proc = d.between(5*time.Millisecond, 3*time.Second), All
	case FailOver:
		f.For, f.Proc = d.between(5*time.Millisecond, 3*time.Second), All
		f.Amount = d.between(time.Millisecond, time.Second)
	}
	return f
}

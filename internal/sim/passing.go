// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"slices"
	"time"
)

// fickle reports whether an operation's context is a [fickle] one.
func (p *Plan) fickle(o Op) bool {
	waits := slices.Contains([]OpKind{Acquire, Try, Request, ByHand}, o.Kind)
	return waits && p.Procs[o.Proc].Kind == "" && o.ID%12 == 5
}

// fickle is a context that ends in the instant in which a reply grants a key to
// its process. It also ends when another operation of the process lets go of
// its key: see process.lock.
type fickle struct {
	context.Context
	p   *process
	key int
	end context.CancelCauseFunc
}

func (c *fickle) Err() error {
	if c.p.granted.Load() == int64(c.p.w.h.now()) {
		c.end(errCancelled)
		c.p.w.h.sometimes("a context ends with its grant")
	}
	return c.Context.Err()
}

// wavers makes the context of a fickle operation. It is used on the goroutines
// of the process, which run one at a time.
func (p *process) wavers(ctx context.Context, o Op) context.Context {
	c := &fickle{p: p, key: o.Key}
	c.Context, c.end = context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fickle = append(p.fickle, c)
	return c
}

// sways ends the contexts of the fickle operations that wait for a key, or for
// any.
func (p *process) sways(key int) {
	p.mu.Lock()
	all := slices.Clone(p.fickle)
	p.mu.Unlock()
	for _, c := range all {
		if key == All || c.key == key {
			c.end(errCancelled)
		}
	}
}

// forsakes reports whether an operation receives the result of its Request only
// after its context has ended. What it was granted meanwhile is given back.
func (p *Plan) forsakes(o Op) bool { return o.Kind == Request && o.Cancel > 0 && o.ID%3 == 1 }

// gifts lets a release give the key to a waiter of another process, again and
// again. Something keeps the message from the waiter, or the waiter from what
// it asks for then, or the server loses the gift.
func (d dice) gifts(p *Plan) {
	if p.Form == Hardened {
		return // nothing is given
	}
	p.Ops, p.Faults = nil, nil
	for len(p.Procs) < 3 {
		p.Procs = append(p.Procs, d.proc(p))
	}
	const ttl = 2 * time.Second
	for i := range p.Procs {
		c := &p.Procs[i]
		c.TTL, c.Margin, c.RenewEvery, c.Longest = ttl, ttl/10, pick(d, 0, -1*time.Second, -1*time.Second), 0
		c.Wait, c.Timeout, c.Deaf, c.Politeness = pick(d, 0, 0, 3*time.Second), 0, false, 0
	}
	for round := range 8 {
		at, hold := time.Duration(7*round+1)*time.Second, 600*time.Millisecond+d.nanos(ttl/4)
		given, who, waits := at+hold, d.Perm(len(p.Procs)), len(p.Ops)+1
		next := who[1]
		p.op(Op{At: at, Proc: who[0], Kind: Acquire, Hold: hold})
		p.op(Op{At: at + hold/3, Proc: next, Kind: pick(d, Acquire, Request), Hold: ttl / 3})
		if d.one(2) {
			p.op(Op{At: at + hold/2, Proc: who[2], Kind: Acquire, Hold: ttl / 3})
		}
		hit := func(f Fault) {
			f.Proc = next
			p.fault(f)
		}
		switch d.IntN(6) {
		case 0: // the waiter asks in vain, two seconds after it came, and then the message comes
			last := Op{At: at + hold/2, Proc: who[2], Kind: Acquire, Hold: ttl / 3}
			p.op(last)
			given, next = last.At+2*time.Second-ttl/8-d.nanos(ttl/8), last.Proc
			p.Ops[waits].Hold, p.Procs[next].RenewEvery = given-at-hold, 0
			hit(Fault{At: given - ttl/8, For: ttl, Kind: OOM})
			hit(Fault{At: given - ttl/8, For: 2 * ttl, Kind: Late, Amount: ttl})
		case 1: // the message comes after the key has ended
			hit(Fault{At: given - ttl/8, For: 4 * ttl, Kind: Late, Amount: 2 * ttl})
			hit(Fault{At: given, For: ttl, Kind: OOM})
		case 2:
			hit(Fault{At: given - time.Millisecond, For: time.Second,
				Kind: pick(d, CutBefore, CutAfter, CutWithin)})
		case 3: // the wait ends while the waiter confirms what it was given
			p.Ops[waits].Cancel = given - p.Ops[waits].At + 10*time.Millisecond + d.nanos(ttl/10)
			hit(Fault{At: given, For: ttl / 4, Kind: pick(d, Hold, HoldRequest, HoldReply)})
		case 4:
			p.fault(Fault{At: given + d.nanos(8*p.Procs[next].Near), Proc: All,
				Kind: pick(d, Flush, Restart, FailOver), Amount: 20 * time.Millisecond})
		case 5: // the server forgets a lease for which goroutines of its process wait
			p.op(Op{At: at + hold/2, Proc: who[0], Kind: Acquire, Hold: ttl / 3})
			p.Ops[waits-1].Hold, p.Ops[waits].Proc = ttl, who[0]
			p.Procs[who[0]].RenewEvery, p.Procs[who[0]].HandOvers = 0, 0
			p.fault(Fault{At: at + hold*2/3, Proc: All, Kind: Flush})
		}
	}
}

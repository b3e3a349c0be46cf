// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// held is a lease that an operation has.
type held struct {
	w     *world
	p     *process
	op    Op
	key   *key
	token string
	done  <-chan struct{}
	err   func() error  // nil while the lease is trusted
	phase migrate.Phase // by which a member took it
	fence int64         // fencing number; 0: none or unknown
	mark  string        // token on the old clients' server of a composed lease; empty: it has none
}

// claim is what the lease has on the old clients' server.
func (l *held) claim() string { return cmp.Or(l.mark, word(l.token)) }

// stands reports whether the lease's token is on its key. w.mu is held.
func (l *held) stands() bool {
	if l.mark != "" && word(l.w.read(l.key).m) != l.mark {
		return false
	}
	return l.token != "" && word(l.key.value) == word(l.token)
}

// looked returns what the lease says of itself. w.mu is held.
func (l *held) looked() Event {
	e := Event{Kind: Looked, Proc: l.p.id, Op: l.op.ID, Key: l.key.number, Token: l.w.h.number(l.token),
		Stands: l.stands()}
	select {
	case <-l.done: // asked first, since Err ends a lease that has outlived its trust
		e.Done = true
	default:
	}
	e.Trusted = l.err() == nil
	return e
}

// operate begins an operation, on a goroutine of its own.
func (w *world) operate(o Op) {
	p := w.procs[o.Proc]
	if p.dead.Load() || p.unborn.Load() {
		return
	}
	p.works(o, 1)
	w.running.Go(func() {
		var stack [64]byte
		w.ops.Store(goroutine(string(stack[:runtime.Stack(stack[:], false)])), o.ID)
		p.awake(o)
		p.operate(o)
		p.works(o, -1)
	})
}

// works notes that an operation begins, or ends.
func (p *process) works(o Op, jobs int) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.pending[o.ID], p.jobs, p.busy = jobs > 0, p.jobs+jobs, p.w.h.now()
}

func (p *process) operate(o Op) {
	switch kind := p.w.plan.Procs[p.id].Kind; {
	case kind == OldClient:
		p.oldTurn(o)
	case kind == Operator:
		p.verb(o)
	case o.Kind == Kill:
		p.kill()
	case o.Kind == Close:
		ctx, cancel := context.WithTimeout(p.life, o.Hold)
		defer cancel()
		p.close(ctx)
	default:
		p.lock(o)
	}
}

// lock takes the key, holds it, and gives it back. The func of a Do sees no
// lease.
func (p *process) lock(o Op) {
	ctx, key := p.life, p.w.keys[o.Key].name
	if o.Cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Cancel, errCancelled)
		defer cancel()
	}
	if p.w.plan.fickle(o) {
		ctx = p.wavers(ctx, o)
	}
	p.add(Event{Kind: Called, Op: o.ID, Key: o.Key, Text: string(o.Kind)})
	var h *held
	var l *lock.Lease
	var err error
	switch o.Kind {
	case Do:
		err = p.client.Do(ctx, key, func(ctx context.Context) error {
			p.awake(o)
			h = p.begin(o, p.token(key), ctx.Done(), ctx.Err, nil)
			p.hold(h, nil)
			p.release(h)
			return nil
		})
	case Try:
		l, err = p.client.TryAcquire(ctx, key)
	case Request:
		result := p.client.Request(ctx, key)
		if p.w.plan.forsakes(o) {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
		}
		r := <-result
		l, err = r.Lease, r.Err
	default:
		l, err = p.client.Acquire(ctx, key)
	}
	p.awake(o)
	if l != nil {
		h = p.begin(o, l.Token(), l.Done(), l.Err, l)
		p.hold(h, l)
		p.release(h)
		if o.ID%2 == 0 {
			p.sways(o.Key)
		}
		err = l.Release()
		if o.ID%2 == 1 {
			p.sways(o.Key) // a waiter may get the key at this instant
		}
		p.awake(o)
	}
	kind := Returned
	if h == nil {
		kind = Failed
	}
	p.add(Event{Kind: kind, Op: o.ID, Key: o.Key, Text: class(err)})
}

// begin records that an operation has a lease, and looks at all others of its
// key.
func (p *process) begin(o Op, token string, done <-chan struct{}, err func() error, l *lock.Lease) *held {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[o.Key]
	h := &held{w: w, p: p, op: o, key: k, token: token, done: done, err: err}
	h.phase, h.mark = w.phaseOf(h)
	e := h.looked()
	e.Kind = Acquired
	if l != nil {
		e.Fence, _ = l.Fence()
		h.fence = e.Fence
		w.numbered(h)
		e.Left = l.Until().Sub(p.clock.Now())
	}
	if p.dead.Load() {
		return h
	}
	p.add(e)
	for _, other := range k.leases {
		w.h.add(other.looked())
	}
	k.leases = append(k.leases, h)
	w.counted(h)
	return h
}

// hold waits until the hold is over or the lease is lost.
func (p *process) hold(h *held, l *lock.Lease) {
	o := h.op
	switch o.Kind {
	case Hasty:
		p.hasten(h, l)
		return
	case ByHand:
		if !wait(o.Hold/2, h.done) {
			p.notice(h)
			return
		}
		p.awake(o)
		err := l.Renew(p.life)
		p.add(Event{Kind: Renewed, Op: o.ID, Key: o.Key, Text: class(err)})
		o.Hold -= o.Hold / 2
	}
	select {
	case <-time.After(o.Hold):
		p.awake(o)
		p.counts(h)
	case <-h.done:
		p.notice(h)
	case <-p.life.Done():
	}
	p.awake(o)
}

// notice is what a holder does when its lease has ended: it does not stop at
// once.
func (p *process) notice(h *held) {
	p.add(Event{Kind: Noticed, Op: h.op.ID, Key: h.op.Key})
	wait(h.op.Tarry+time.Duration(1+h.op.ID)*(time.Microsecond+1), p.life.Done())
}

// hasten renews the lease by hand until the hold is over, each time with a
// context that leaves no time for it.
func (p *process) hasten(h *held, l *lock.Lease) {
	every := p.w.plan.Procs[p.id].TTL / 30
	for left := h.op.Hold; left > 0; left -= every {
		if !wait(every, h.done) {
			p.notice(h)
			break
		}
		if p.life.Err() != nil {
			break
		}
		ctx, cancel := context.WithTimeout(p.life, 10*time.Microsecond) // no reply is so fast
		_ = l.Renew(ctx)
		cancel()
	}
	p.awake(h.op)
}

// release records the end of the hold: the holder is about to give the key
// back.
func (p *process) release(h *held) {
	kind := Releasing
	select {
	case <-h.done:
		kind = Ended
	default:
	}
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p.add(Event{Kind: kind, Op: h.op.ID, Key: h.op.Key})
	if kind == Releasing {
		w.numbered(h)
	} else if g, known := w.grants[h.claim()]; known {
		g.lost = true
		w.grants[h.claim()] = g
	}
	h.key.leases = slices.DeleteFunc(h.key.leases, func(l *held) bool { return l == h })
}

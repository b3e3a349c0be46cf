// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// task is one order under way.
type task struct {
	Order
	think time.Duration // how long the program that serves it thinks
}

// queue hands out orders to the program that has waited longest. Orders that
// came back go out first.
//
// Which program gets which order does not depend on the scheduler. Programs
// that began to wait at one instant get their orders by slot. If all of them
// woke and competed for the orders, the scheduler would choose, and two runs of
// one seed would differ.
type queue struct {
	mu      sync.Mutex
	plan    Plan
	next    int
	back    []*task
	waiting []*waiter
	open    int           // number of orders that may be handed out so far; 0 holds all back
	out     int           // number of orders handed out and neither done nor back
	turn    chan struct{} // closed and replaced at each change
}

// waiter is a program that waits for an order.
type waiter struct {
	slot    int
	since   time.Time
	retired *atomic.Bool
	got     chan *task // has room for one order; nil: no order will come
}

func newQueue(p Plan) *queue { return &queue{plan: p, open: p.Acquisitions, turn: make(chan struct{})} }

// let lets n more orders through, or all that are left. It also ends the wait
// of programs that were asked to end.
func (q *queue) let(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = min(q.open+n, q.plan.Acquisitions)
	q.changed()
}

// changed serves the waiting programs and wakes drained. Called with q.mu held.
func (q *queue) changed() {
	q.serve()
	close(q.turn)
	q.turn = make(chan struct{})
}

// serve hands orders to waiting programs. It hands nil to programs that were
// asked to end and, when all orders are done, to all. Called with q.mu held.
func (q *queue) serve() {
	slices.SortFunc(q.waiting, func(a, b *waiter) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.slot, b.slot))
	})
	var still []*waiter
	for _, w := range q.waiting {
		t, ends := (*task)(nil), w.retired.Load()
		if !ends {
			t = q.pop()
		}
		if t == nil && !ends && !q.done() {
			still = append(still, w)
			continue
		}
		w.got <- t
	}
	q.waiting = still
}

// done reports whether every order is done. Called with q.mu held.
func (q *queue) done() bool {
	return q.next == q.plan.Acquisitions && len(q.back) == 0 && q.out == 0
}

// drained waits until every order that was let through is done.
func (q *queue) drained(ctx context.Context) error {
	for ctx.Err() == nil {
		q.mu.Lock()
		done, turn := q.next == q.open && len(q.back) == 0 && q.out == 0, q.turn
		q.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// take returns the next order. It returns nil if all orders are done, retired
// is set or ctx has ended. It waits while orders are out that may come back.
func (q *queue) take(ctx context.Context, slot int, retired *atomic.Bool) *task {
	if ctx.Err() != nil {
		return nil
	}
	w := &waiter{slot: slot, since: time.Now(), retired: retired, got: make(chan *task, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.serve()
	q.mu.Unlock()
	select {
	case t := <-w.got:
		return t
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.waiting, w); at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		return nil
	}
	return <-w.got
}

func (q *queue) pop() *task {
	if n := len(q.back); n > 0 {
		t := q.back[n-1]
		q.back = q.back[:n-1]
		q.out++
		return t
	}
	if q.next == q.open {
		return nil
	}
	n := q.next
	q.next++
	q.out++
	return &task{
		Order: q.plan.Orders[n%len(q.plan.Orders)],
		think: q.plan.Job.Draw(q.plan.rand(streamJob, n)),
	}
}

// finish ends a task. With again, another program must do it.
func (q *queue) finish(t *task, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.out--
	if again {
		q.back = append(q.back, t)
	}
	q.changed()
}

// over reports whether every order is done.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done()
}

package rehearse

import (
	"context"
	"sync"
	"time"
)

// task is one order on its way.
type task struct {
	Order
	think time.Duration // how long whoever serves it thinks
}

// queue hands out orders, those that came back first.
type queue struct {
	mu   sync.Mutex
	plan Plan
	next int
	back []*task
	open int           // how many of them may be handed out by now
	out  int           // handed out and neither done nor back
	turn chan struct{} // closed and made anew when something changes for those who wait
}

func newQueue(p Plan) *queue { return &queue{plan: p, open: p.Acquisitions, turn: make(chan struct{})} }

// shut lets no order through until let says so.
func (q *queue) shut() { q.open = 0 }

// let lets n more orders through, or all that are left.
func (q *queue) let(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = min(q.open+n, q.plan.Acquisitions)
	q.changed()
}

// changed wakes those who wait. Called with q.mu held.
func (q *queue) changed() {
	close(q.turn)
	q.turn = make(chan struct{})
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

// take returns nil when all is done or ctx has ended. While orders are out that may yet come back
// it waits.
func (q *queue) take(ctx context.Context) *task {
	for ctx.Err() == nil {
		q.mu.Lock()
		t, turn, over := q.pop(), q.turn, q.out == 0 && q.next == q.plan.Acquisitions
		q.mu.Unlock()
		if t != nil || over {
			return t
		}
		select {
		case <-turn:
		case <-ctx.Done():
		}
	}
	return nil
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

// finish says that a task is done; with again, that somebody else must do it.
func (q *queue) finish(t *task, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.out--
	if again {
		q.back = append(q.back, t)
	}
	q.changed()
}

// over says that every order is done.
func (q *queue) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next == q.plan.Acquisitions && len(q.back) == 0 && q.out == 0
}

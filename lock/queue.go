// SPDX-License-Identifier: Apache-2.0

package lock

import "time"

// queue is the order in which this process's goroutines wait for one key. The
// goroutine that has the turn talks to the store or holds the lease; the rest
// wait in order.
type queue struct {
	key    string
	last   *ticket // last waiter in a ring, whose next is the first; nil without waiters
	shares int32   // hand-overs in a row
	busy   bool
	met    bool // the last attempt found other waiters; only the goroutine with the turn uses it

	// During hand-overs: elapsed time at which the first of them began.
	// Otherwise: elapsed time until which this process stays away from the key,
	// 0: not at all. The goroutine with the turn may read it.
	moment time.Duration
}

// ticket is one goroutine's place in a queue.
type ticket struct {
	client *Client
	next   *ticket       // next in the ring, nil outside a ring
	prev   *ticket       //
	ready  chan struct{} // capacity 1: gets at most one value, after got was set
	got    turn
	called bool // under core.mu: a turn was given to it
}

// turn is what a waiter gets when the goroutine before it is done. It is empty
// if the waiter has to make its own attempts.
type turn struct {
	lease  *Lease // the key was shared
	closed bool   // the Client was closed
}

// ticket returns an unused ticket. It takes those again whose turn was
// received, since the sender no longer looks at such a ticket. An abandoned
// ticket is not reused, as its turn may still be sent.
func (k *core) ticket(c *Client) *ticket {
	t, ok := k.tickets.Get().(*ticket)
	if !ok {
		t = &ticket{ready: make(chan struct{}, 1)}
	}
	t.client = c
	return t
}

// reuse returns the turn of t and frees the ticket. Called after that turn was
// received.
func (k *core) reuse(t *ticket) (got turn) {
	got = t.got
	*t = ticket{ready: t.ready}
	k.tickets.Put(t)
	return got
}

// call gives t its turn. Called with core.mu held.
func (t *ticket) call(got turn) {
	t.got = got
	t.ready <- struct{}{}
}

// push puts t after all others.
func (q *queue) push(t *ticket) {
	if q.last == nil {
		t.next, t.prev = t, t
	} else {
		first := q.last.next
		t.prev, t.next = q.last, first
		q.last.next, first.prev = t, t
	}
	q.last = t
}

// remove takes t out.
func (q *queue) remove(t *ticket) {
	switch {
	case t.next == t:
		q.last = nil
	case q.last == t:
		q.last = t.prev
		fallthrough
	default:
		t.prev.next, t.next.prev = t.next, t.prev
	}
	t.next, t.prev = nil, nil
}

// enter joins the queue of key. It returns:
//
//   - q alone: no goroutine had the turn, and the caller has it now.
//   - q and t: the caller waits for its turn on t.
//   - An error: the Client was closed, or mustNotWait is set and the turn is
//     taken.
func (k *core) enter(c *Client, key string, mustNotWait bool) (q *queue, t *ticket, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, ErrClosed
	}
	q = k.queue(key)
	if !q.busy {
		q.busy = true
		k.live++
		return q, nil, nil
	}
	if mustNotWait {
		return nil, nil, &HeldError{Key: key, Protocol: "by this process"}
	}
	t = k.ticket(c)
	q.push(t)
	k.live++
	return q, t, nil
}

// queue returns the queue of key and makes it if necessary. Called with k.mu
// held.
func (k *core) queue(key string) *queue {
	q := k.queues[key]
	if q == nil {
		q = &queue{key: key}
		k.queues[key] = q
	}
	return q
}

// drop forgets q unless another queue has replaced it. Called with k.mu held.
func (k *core) drop(q *queue) {
	if k.queues[q.key] == q {
		delete(k.queues, q.key)
	}
}

// abandon gives up a ticket whose goroutine stopped waiting. If its turn has
// already been called, the turn and what came with it go on to the next waiter.
func (k *core) abandon(q *queue, t *ticket) {
	k.mu.Lock()
	if !t.called {
		q.remove(t)
		k.countOut()
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	// The turn was sent under k.mu.
	<-t.ready
	switch {
	case t.got.closed:
		return
	case t.got.lease != nil:
		t.got.lease.refuse()
	default:
		k.leave(q, 0)
	}
}

// leave ends a turn, and the next waiter's begins. stayAway is how long this
// process keeps away from the key.
func (k *core) leave(q *queue, stayAway time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if q.shares > 0 {
		q.shares, q.moment = 0, 0
	}
	if stayAway > 0 {
		q.moment = k.keeper.now().Elapsed + stayAway
	}
	if t := q.pop(); t != nil {
		t.call(turn{})
	} else {
		q.busy = false
		k.forget(q)
	}
	k.countOut()
}

// pop takes the next waiter out of the queue and marks it called. It returns
// nil if no goroutine waits. Called with core.mu held.
func (q *queue) pop() *ticket {
	if q.last == nil {
		return nil
	}
	t := q.last.next
	q.remove(t)
	t.called = true
	return t
}

// idleQueues is how many empty queues are kept: their keys are mostly asked for
// again.
const idleQueues = 1024

// forget drops an empty queue: after its quiet time if it has one, else at once
// if there are many queues. Called with k.mu held.
func (k *core) forget(q *queue) {
	if q.busy || q.last != nil {
		return
	}
	if q.moment == 0 {
		if len(k.queues) > idleQueues {
			k.drop(q)
		}
		return
	}
	k.sched.later(q.moment, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !q.busy && q.last == nil && k.keeper.now().Elapsed >= q.moment {
			k.drop(q)
		}
	}) // false after close: then no caller asks for the queue again
}

// sendAway ends the waiting of all goroutines, as the Client was closed. Called
// with k.mu held.
func (k *core) sendAway() {
	for _, q := range k.queues {
		for t := q.pop(); t != nil; t = q.pop() {
			t.call(turn{closed: true})
			k.countOut()
		}
	}
}

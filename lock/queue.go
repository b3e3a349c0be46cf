package lock

import (
	"time"
)

// queue is the line of this process's goroutines for one key. The one whose turn it is talks to the
// store or holds the lease; the rest wait in order.
type queue struct {
	key     string
	busy    bool
	waiting []*ticket
	passes  int           // hand-overs by command in a row
	shares  int           // hand-overs without one in a row
	since   time.Duration // elapsed time at which the first of them began
	met     bool          // the last attempt found others at the store; whose turn it is has this to himself
	quiet   time.Duration // elapsed time until which this process stays away from the key; whose turn it is may read it
}

// ticket is one goroutine's place in a queue.
type ticket struct {
	client *Client
	turn   chan turn // capacity 1: receives at most once
	gone   bool      // under core.mu: its goroutine does not wait any more
	called bool      // under core.mu: a turn was sent, or will be
}

// ticket returns one that is not in use. Used before are those whose turn was received: who sent it
// does not look at the ticket again. One that was abandoned is not among them, as its turn may still
// be sent.
func (k *core) ticket(c *Client) *ticket {
	t, ok := k.tickets.Get().(*ticket)
	if !ok {
		t = &ticket{turn: make(chan turn, 1)}
	}
	t.client = c
	return t
}

// reuse gives up a ticket whose turn was received.
func (k *core) reuse(t *ticket) {
	t.client, t.called = nil, false
	k.tickets.Put(t)
}

// turn is what a waiter receives when the goroutine before it is done.
type turn struct {
	grant Grant   // nil: it has to make its own attempts
	asked Instant // before the attempt; zero for a shared grant
	term  Term    // of the grant where it is not the grant's own any more

	// A shared grant brings the trust that its last holder had.
	shared bool
	sent   Instant
	span   time.Duration
}

// enter takes the turn for key at once if nobody has it; else it returns a ticket for it. With
// mustNotWait it returns neither.
func (k *core) enter(c *Client, key string, mustNotWait bool) (q *queue, t *ticket, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, nil, ErrClosed
	}
	q = k.queues[key]
	if q == nil {
		q = k.newQueue(key)
	}
	if !q.busy {
		q.busy = true
		k.live++
		return q, nil, nil
	}
	if mustNotWait {
		return nil, nil, &HeldError{Key: key, Protocol: "by this process"}
	}
	t = k.ticket(c)
	q.waiting = append(q.waiting, t)
	k.live++
	return q, t, nil
}

// spareQueues is how many queues are kept in which nobody stands: so many under their keys, which are
// mostly asked for again, and so many for other keys.
const spareQueues = 256

// newQueue makes the queue of a key. Called with k.mu held.
func (k *core) newQueue(key string) *queue {
	var q *queue
	if n := len(k.spare); n > 0 {
		q = k.spare[n-1]
		k.spare = k.spare[:n-1]
	} else {
		q = new(queue)
	}
	*q = queue{key: key, waiting: q.waiting[:0]}
	k.queues[key] = q
	return q
}

// abandon gives a ticket back whose goroutine stopped waiting. If its turn has already been called,
// the turn (and a grant that came with it) goes on to the next.
func (k *core) abandon(q *queue, t *ticket) {
	k.mu.Lock()
	t.gone = true
	if !t.called {
		for i, other := range q.waiting {
			if other == t {
				q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
				break
			}
		}
		k.countOut()
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	// The caller of our turn may still be on its way to the store with a hand-over; whoever sends
	// the turn sees gone, or we take it out here. Either way exactly one side passes it on.
	select {
	case got := <-t.turn:
		k.refuse(q, t, got)
	default:
	}
}

// refuse passes a turn on that its goroutine does not want any more.
func (k *core) refuse(q *queue, t *ticket, got turn) {
	if got.grant != nil {
		k.undo(got.grant, q.key, &t.client.cfg)
	}
	k.leave(q, 0)
}

// leave ends a turn: the next waiter's begins. stayAway is how long this process keeps from the key.
func (k *core) leave(q *queue, stayAway time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	q.passes, q.shares = 0, 0
	k.calm(q, stayAway)
	if t := k.pop(q); t != nil {
		t.turn <- turn{}
	} else {
		q.busy = false
		k.forget(q)
	}
	k.countOut()
}

// calm keeps this process away from the key for a while. Called with k.mu held.
func (k *core) calm(q *queue, d time.Duration) {
	if d > 0 {
		q.quiet = k.keeper.now().Elapsed + d
	}
}

// pop takes the next waiter that still waits out of the queue and marks it called. Called with k.mu
// held.
func (k *core) pop(q *queue) *ticket {
	for len(q.waiting) > 0 {
		t := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if !t.gone {
			t.called = true
			return t
		}
	}
	return nil
}

// forget drops an empty queue when its quiet time is over, and at once without one, unless there are
// few. Called with k.mu held.
func (k *core) forget(q *queue) {
	if q.busy || len(q.waiting) > 0 {
		return
	}
	if q.quiet == 0 {
		if len(k.queues) <= spareQueues {
			return
		}
		delete(k.queues, q.key)
		if len(k.spare) < spareQueues {
			k.spare = append(k.spare, q)
		}
		return
	}
	k.sched.later(q.quiet, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if !q.busy && len(q.waiting) == 0 && k.queues[q.key] == q && k.keeper.now().Elapsed >= q.quiet {
			delete(k.queues, q.key)
		}
	}) // false when closed: nobody will ask for the queue again
}

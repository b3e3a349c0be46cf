// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"time"
)

// overdue is the watchdog. One timer watches the oldest call in flight, for
// which all later ones wait too. It runs on when a call begins and is set again
// at most once a Timeout.
func (l *link) overdue() {
	l.mu.Lock()
	l.armed = false
	c := l.flight.head()
	if l.dead != nil || c == nil {
		l.mu.Unlock()
		return
	}
	limit := l.patience(c)
	left := limit - (time.Since(l.born) - time.Duration(c.sent))
	if left > 0 {
		l.armed = true
		l.watch.set(left)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	l.fail(&silentError{limit})
}

// The reasons why a connection takes no more calls and ends with its last
// reply.
var (
	errReplica = errors.New("the server became a read-only replica")
	errSilent  = errors.New("no answer came before the callers' contexts ended")
)

// over reports whether l is retired and has nothing more to do.
func (l *link) over() bool {
	if !l.retired.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.writing && len(l.queue) == 0 && l.flight.len() == 0
}

// gone reports whether l takes no more calls.
func (l *link) gone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead != nil || l.retired.Load()
}

// retire lets the connection end with its last reply, and makes the next call
// dial anew. After a fail-over the hook may lead to the new primary, while this
// connection would refuse writes for ever. A young connection stays. Otherwise
// a hook that leads to a replica, or to a slow server, would dial at every
// call.
func (l *link) retire(reason error) (retired bool) {
	if time.Since(l.born) < l.m.Timeout() {
		return false
	}
	l.withdraw(reason)
	return true
}

// withdraw retires l at any age.
func (l *link) withdraw(reason error) {
	l.mu.Lock()
	if l.dead != nil || l.retired.Load() {
		l.mu.Unlock()
		return
	}
	l.reason = reason
	l.retired.Store(true)
	l.m.link.CompareAndSwap(l, nil)
	l.mu.Unlock()
	l.m.sub.untrack(l)
	if l.over() {
		l.fail(reason)
	}
}

// fail ends the connection and decides every call on it: unknown if the writer
// has taken it, else not sent. Only the first call of fail does anything.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.dead != nil {
		l.mu.Unlock()
		return
	}
	l.dead = err
	l.m.link.CompareAndSwap(l, nil) // before any caller sees the end and calls again
	flight, queue := l.flight, l.queue
	l.flight, l.queue, l.spare = fifo{}, nil, nil
	if l.armed {
		l.watch.stop()
	}
	for c := flight.pop(); c != nil; c = flight.pop() {
		c.err = err
		c.done <- struct{}{}
	}
	for _, c := range queue {
		if !c.withdrawn {
			c.err, c.stranded = err, l.proving != nil
			c.done <- struct{}{}
		}
	}
	l.mu.Unlock()

	l.rouse()
	_ = l.conn.Close() // err is already the reason
	l.m.sub.untrack(l)
	if l.m.opts.Lost != nil {
		l.m.opts.Lost(err)
	}
	l.m.wg.Done()
}

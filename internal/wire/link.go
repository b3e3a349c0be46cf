// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// link is one connection with the goroutines that write to it and read from it.
// redigo allows one sender and one receiver at a time.
//
// A goroutine that finds the connection idle writes its own command: for a
// single caller, waking a writer would cost more than anything else here. All
// others queue, and the writer takes the whole queue at once. mu is never held
// during I/O, so that a goroutine whose context ends can always leave.
type link struct {
	m    *Mux
	conn redis.Conn
	born time.Time
	kick chan struct{} // wakes the writer for a queue, or for the end

	mu      sync.Mutex
	dead    error   // set once; after that nothing below changes
	queue   []*call // calls that no writer has taken yet
	spare   []*call // the queue's other buffer, which the writer works through
	flight  fifo    // calls taken and not answered
	writing bool    // a goroutine uses the sending half of conn, and argv
	argv    []any   // room for the arguments of a script
	crowded bool    // the last write had several calls: more are likely soon
	armed   bool
	watch   alarm         // watchdog of the oldest call in flight
	asked   time.Duration // time at which the last call was taken, since born
	proving *call         // the PING that must be answered before anything else is sent; mostly nil

	reason  error       // reason of its retirement; set before retired
	retired atomic.Bool // set under mu: takes no new calls and ends with its last reply
}

// start makes conn the link of m, whose mutex is held.
func (m *Mux) start(conn redis.Conn) *link {
	l := &link{m: m, conn: conn, born: time.Now(), kick: make(chan struct{}, 1)}
	l.watch = alarm{wg: &m.wg, ring: l.overdue}
	m.wg.Add(3) // the third is for fail, which runs on the goroutine that noticed the end
	go l.write()
	go l.read()
	return l
}

// submit hands c to the connection. It returns false if the connection takes no
// more calls, or no more of this kind.
func (l *link) submit(c *call) bool {
	l.mu.Lock()
	if l.dead != nil || l.retired.Load() && c.only == nil {
		l.mu.Unlock()
		return false
	}
	c.link = l
	if l.writing || l.proving != nil || len(l.queue) > 0 || l.flight.len() > 0 {
		l.enqueue(c)
		return true
	}
	now := time.Since(l.born)
	switch {
	case now-l.asked > provenFor:
		l.prove(c, now)
		return true
	case l.crowded: // c travels with what others are about to send
		l.enqueue(c)
		return true
	}
	l.writing = true
	l.take(c, now)
	l.mu.Unlock()
	l.wrote(c.put(l.conn, &l.argv), false)
	return true
}

// enqueue leaves c to the writer. mu is held; enqueue unlocks it.
func (l *link) enqueue(c *call) {
	l.queue = append(l.queue, c)
	first := len(l.queue) == 1
	l.mu.Unlock()
	if first {
		l.rouse()
	}
}

// take moves c into flight. now is the time since the link was dialed. mu is
// held.
func (l *link) take(c *call, now time.Duration) {
	c.taken = true
	c.sent, l.asked = int64(now), now
	l.flight.push(c)
	if !l.armed {
		l.armed = true
		l.watch.set(l.patience(c))
	}
}

// wrote ends a turn of writing.
func (l *link) wrote(err error, crowd bool) {
	if err == nil {
		err = l.conn.Flush()
	}
	if err != nil {
		l.fail(&lostError{err})
	}
	l.mu.Lock()
	l.writing = false
	l.crowded = crowd
	more := len(l.queue) > 0
	l.mu.Unlock()
	if more {
		l.rouse()
	}
	if l.over() {
		l.fail(l.reason)
	}
}

func (l *link) rouse() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// write is the goroutine that writes for all callers that found the connection
// busy.
func (l *link) write() {
	defer l.m.wg.Done()
	for range l.kick {
		if l.busy() {
			// Goroutines whose replies came together are about to send again.
			// Let them, and send everything at once.
			runtime.Gosched()
		}
		batch, ended := l.gather()
		if ended {
			return
		}
		if len(batch) == 0 {
			continue
		}
		var err error
		for _, c := range batch {
			if err = c.put(l.conn, &l.argv); err != nil {
				break
			}
		}
		l.wrote(err, len(batch) > 1)
		clear(batch) // it becomes the queue's other buffer again at the next turn
	}
}

// busy reports whether waiting for more calls pays. Two or three callers gain
// nothing. In a program that uses all its processors, each of them would wait
// to be scheduled.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.crowded || l.flight.len()+len(l.queue) > 3
}

// gather takes the queue for writing. It returns nothing while another
// goroutine writes, which will wake the writer when it is done.
func (l *link) gather() (batch []*call, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead != nil {
		return nil, true
	}
	if l.writing || l.proving != nil {
		return nil, false
	}
	queue := l.queue
	l.queue, l.spare = l.spare[:0], queue
	batch = queue[:0]
	now := time.Since(l.born)
	for _, c := range queue {
		if !c.withdrawn {
			batch = append(batch, c)
			l.take(c, now)
		}
	}
	clear(queue[len(batch):])
	l.writing = len(batch) > 0
	return batch, false
}

// read is the goroutine that hands out replies.
func (l *link) read() {
	defer l.m.wg.Done()
	receive := patiently(l.conn)
	for {
		v, err := receive()
		if err != nil && !answered(err) {
			l.fail(&lostError{err})
			return
		}
		l.mu.Lock()
		if l.dead != nil {
			l.mu.Unlock()
			return
		}
		c := l.flight.head()
		if c == nil {
			l.mu.Unlock()
			l.fail(&lostError{errors.New("the server sent a reply without a command")})
			return
		}
		whole := c.take(v, err)
		if whole {
			l.flight.pop()
			l.proved(c)
		}
		l.mu.Unlock()
		if err != nil && IsReadOnly(err) {
			l.retire(errReplica) // before its caller gets the reply and calls again
		}
		if whole {
			c.done <- struct{}{}
		}
		if l.over() {
			l.fail(l.reason)
			return
		}
	}
}

// patiently returns a func that waits for a reply without limit, whatever read
// timeout the dial hook set. The watchdog ends a silent connection, and an idle
// connection is no error.
func patiently(conn redis.Conn) (receive func() (any, error)) {
	if c, ok := conn.(redis.ConnWithTimeout); ok {
		return func() (any, error) { return c.ReceiveWithTimeout(0) }
	}
	return conn.Receive
}

// answered reports whether err is a reply of the server. Then the connection
// goes on.
func answered(err error) bool {
	if _, ok := err.(redis.Error); ok {
		return true
	}
	var server redis.Error
	return errors.As(err, &server)
}

// await waits until the fate of c is decided or ctx ends.
func (l *link) await(ctx context.Context, c *call) (fate, error) {
	select {
	case <-c.done:
		return decided, nil
	case <-ctx.Done():
	}
	f, silence := l.leave(c)
	cause := context.Cause(ctx)
	switch {
	case f == decided:
		return decided, nil
	case f == left && (silence >= l.m.brief() || cause == errSlow):
		l.retire(errSilent) // before its caller calls again
	}
	return f, cause
}

// leave ends the wait for c. silence is how long the oldest call has been
// without a reply.
func (l *link) leave(c *call) (f fate, silence time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.done:
		return decided, 0 // both were ready; the reply is worth more
	default:
	}
	if !c.taken {
		c.withdrawn = true
		return unsent, 0
	}
	if head := l.flight.head(); head != nil {
		silence = time.Since(l.born) - time.Duration(head.sent)
	}
	return left, silence
}

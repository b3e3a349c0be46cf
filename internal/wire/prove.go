// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"time"
)

// A firewall or a load balancer forgets an idle connection and informs neither
// side: everything sent from then on is swallowed. A command sent there has an
// unknown outcome, and its caller waits for the whole Timeout. So a connection
// that was idle gets a PING first. Until the reply nothing else is sent, and
// all waiting commands can still go to another connection.

// provenFor is how long a connection is trusted after a command that was
// answered. Firewalls forget a connection after a minute at the earliest.
const provenFor = 15 * time.Second

// prove sends a PING on an idle connection, and c after any reply to it. mu is
// held; prove unlocks it.
func (l *link) prove(c *call, now time.Duration) {
	ping := newCall()
	ping.cmds = []Command{Cmd("PING")}
	ping.link = l
	l.proving = ping
	l.queue = append(l.queue, c)
	l.writing = true
	l.take(ping, now)
	l.mu.Unlock()
	l.wrote(ping.put(l.conn, &l.argv), false)
}

// proved lets the waiting commands be sent, if c was the PING. mu is held.
func (l *link) proved(c *call) {
	if c == l.proving {
		l.proving = nil
		l.rouse()
	}
}

// patience returns how long the reply to c is awaited. A PING gets little time:
// a new connection costs little, and the caller's time may be short. mu is
// held.
func (l *link) patience(c *call) time.Duration {
	if c == l.proving {
		return l.m.brief()
	}
	return l.m.Timeout()
}

// brief returns the length of a silence that no healthy server keeps: much less
// than the Timeout, and long compared with any reply.
func (m *Mux) brief() time.Duration { return m.Timeout() / 4 }

// errSlow is the cause that ends the first half of a Repeat.
var errSlow = errors.New("the first connection gave no answer")

// Repeat is [Mux.Batch] for commands that may be executed twice and in between
// others, such as renewals and looks. A command has half of the Timeout for its
// reply, or half of the time that ctx leaves. If it has none by then, or its
// connection is lost, it is sent once more. A silent connection is replaced by
// a new one for that.
func (m *Mux) Repeat(ctx context.Context, cmds []Command) []Reply {
	half := m.Timeout() / 2
	if end, ok := ctx.Deadline(); ok {
		half = min(half, time.Until(end)/2)
	}
	first, cancel := context.WithTimeoutCause(ctx, half, errSlow)
	replies := m.Batch(first, cmds)
	cancel()
	var again []Command
	var where []int
	for i, r := range replies {
		if _, may := MayBeSent(r.Err); may && !errors.Is(r.Err, ErrClosed) || errors.Is(r.Err, errSlow) {
			again, where = append(again, cmds[i]), append(where, i)
		}
	}
	if len(again) == 0 || ctx.Err() != nil {
		return replies
	}
	for i, r := range m.Batch(ctx, again) {
		replies[where[i]] = r
	}
	return replies
}

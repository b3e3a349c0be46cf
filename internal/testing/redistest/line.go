// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
)

// line is one connection through a wire. Four goroutines serve it. receive
// takes commands from the client as fast as they arrive, as a socket's buffer
// would; forward applies the rules to them one by one. listen reads the
// server's values, and reply sends the replies to the client in the order of
// its commands.
type line struct {
	wire   *Wire
	client net.Conn // our end of the client's connection
	server net.Conn
	mute   atomic.Bool   // drop what the client sends
	deaf   atomic.Bool   // drop what the server sends
	done   chan struct{} // closed by cut
	left   chan struct{} // closed when the client has closed its side
	once   sync.Once

	mu    sync.Mutex
	queue []request
	more  chan struct{} // buffered; receives when queue changes
	slots []*slot       // replies owed to the client, in order
	owed  chan struct{} // buffered; receives when slots changes
}

type request struct {
	name Command
	raw  []byte
}

// slot is the place of one reply in the order of replies.
type slot struct {
	made     []byte        // a reply made here instead of the server's; nil: the server's
	action   Action        // what to do with the server's reply
	answered chan struct{} // closed when the server has answered
	value    []byte        // the server's reply, where a Call waits for it
}

func newLine(w *Wire, client net.Conn) *line {
	return &line{
		wire: w, client: client,
		done: make(chan struct{}), left: make(chan struct{}),
		more: make(chan struct{}, 1), owed: make(chan struct{}, 1),
	}
}

func (l *line) start() {
	values := make(chan []byte)
	l.wire.work.Go(l.receive)
	l.wire.work.Go(l.forward)
	l.wire.work.Go(func() { l.listen(values) })
	l.wire.work.Go(func() { l.reply(values) })
}

// cut ends the line for both sides at once.
func (l *line) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
		l.wire.gone(l)
	})
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *line) receive() {
	defer close(l.left)
	r := bufio.NewReader(l.client)
	for {
		c, raw, err := ReadCommand(r)
		if err != nil {
			return
		}
		l.wire.note(&l.wire.sent, c)
		l.mu.Lock()
		l.queue = append(l.queue, request{c, raw})
		l.mu.Unlock()
		nudge(l.more)
	}
}

// take returns the next request. It returns false when the client has gone and
// all its requests were taken.
func (l *line) take() (request, bool) {
	for {
		left := false
		select {
		case <-l.left: // checked before the queue: nothing is queued afterwards
			left = true
		default:
		}
		l.mu.Lock()
		if len(l.queue) > 0 {
			q := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return q, true
		}
		l.mu.Unlock()
		if left {
			return request{}, false
		}
		select {
		case <-l.more:
		case <-l.left:
		case <-l.done:
			return request{}, false
		}
	}
}

func (l *line) forward() {
	for {
		q, ok := l.take()
		if !ok {
			break
		}
		if l.mute.Load() {
			continue
		}
		if !l.decide(q) {
			l.cut()
			return
		}
	}
	l.hangUp()
}

// hangUp tells the server that the client has gone. The server still executes
// what was sent before, as on a real network: closing at once could discard it
// from the server's buffer.
func (l *line) hangUp() {
	if half, ok := l.server.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return // reply ends the line when the server has closed its side
	}
	l.cut()
}

// decide applies the rules to one request. It returns false if the line must be
// cut.
func (l *line) decide(q request) bool {
	a := l.wire.rule(q.name)
	switch a.kind {
	case cutBefore:
		l.mute.Store(true)
		l.owe(&slot{made: []byte{}, action: a}) // the cut comes after the replies owed before it
		return true
	case silence:
		l.mute.Store(true)
		return true
	case answer:
		l.owe(&slot{made: []byte(a.reply)})
		return true
	case holdRequest:
		delivered := a.gate.enter()
		defer delivered()
		select {
		case <-a.gate.open:
		case <-l.done:
			return false
		}
		s, ok := l.send(q, Action{})
		if ok {
			select {
			case <-s.answered:
			case <-l.done:
			}
		}
		return ok
	}
	if a.kind == ask {
		return l.ask(q, a)
	}
	_, ok := l.send(q, a)
	return ok
}

// ask lets a Call decide about one request.
func (l *line) ask(q request, a Action) bool {
	c := &Call{Command: q.name, Runs: make(chan bool, 1), Answer: make(chan []byte, 1),
		Hears: make(chan []byte, 1)}
	if !a.ask(c) {
		return false
	}
	runs := false
	select {
	case runs = <-c.Runs:
	case <-l.done:
		return false
	}
	made := &slot{}
	if runs {
		s, ok := l.send(q, a)
		if !ok {
			return false
		}
		select {
		case <-s.answered:
			c.Answer <- s.value
		case <-l.done:
			return false
		}
	}
	select {
	case made.made = <-c.Hears:
	case <-l.done:
		return false
	}
	if made.made == nil {
		made.made, made.action.kind = []byte{}, cutBefore // after the replies owed before it
		l.mute.Store(true)
	}
	l.owe(made)
	return true
}

// send forwards the request. It adds the slot first, so the slot exists before
// the server can answer.
func (l *line) send(q request, a Action) (*slot, bool) {
	s := &slot{action: a, answered: make(chan struct{})}
	l.owe(s)
	l.wire.note(&l.wire.crossed, q.name)
	_, err := l.server.Write(q.raw)
	return s, err == nil
}

func (l *line) owe(s *slot) {
	l.mu.Lock()
	l.slots = append(l.slots, s)
	l.mu.Unlock()
	nudge(l.owed)
}

// listen sends the server's values one by one to values, and closes values when
// the server has gone.
func (l *line) listen(values chan<- []byte) {
	defer close(values)
	r := bufio.NewReader(l.server)
	for {
		v, err := ReadValue(r)
		if err != nil {
			return
		}
		select {
		case values <- v:
		case <-l.done:
			return
		}
	}
}

func (l *line) reply(values <-chan []byte) {
	defer l.cut()
	for l.deliverMade() {
		select {
		case v, ok := <-values:
			if !ok || !l.deliverMade() || !l.deliver(v) {
				return
			}
		case <-l.owed:
		case <-l.done:
			return
		}
	}
}

// deliverMade sends the replies made here whose turn has come. It returns false
// if the line must be cut.
func (l *line) deliverMade() bool {
	for {
		l.mu.Lock()
		if len(l.slots) == 0 || l.slots[0].made == nil {
			l.mu.Unlock()
			return true
		}
		s := l.slots[0]
		l.slots = l.slots[1:]
		l.mu.Unlock()
		if s.action.kind == cutBefore {
			return false
		}
		l.write(s.made)
	}
}

// deliver handles one value of the server as its slot says. It returns false if
// the line must be cut.
func (l *line) deliver(v []byte) bool {
	l.mu.Lock()
	if Unasked(v) || len(l.slots) == 0 {
		l.mu.Unlock()
		l.write(v)
		return true
	}
	s := l.slots[0]
	l.slots = l.slots[1:]
	l.mu.Unlock()
	s.value = v
	close(s.answered)
	switch s.action.kind {
	case ask:
		return true
	case cutAfter:
		return false
	case cutWithin:
		l.write(v[:len(v)/2])
		return false
	case cutReplied:
		l.write(v)
		return false
	case holdReply:
		delivered := s.action.gate.enter()
		delivered() // at once: Open must not wait for a client that may not be reading
		select {
		case <-s.action.gate.open:
		case <-l.left:
		case <-l.done:
			return false
		}
	}
	l.write(v)
	return true
}

// write sends a reply to the client. An error does not cut the line: if the
// client has gone, its held requests must still reach the server, whose replies
// are then dropped.
func (l *line) write(v []byte) {
	if !l.deaf.Load() {
		_, _ = l.client.Write(v)
	}
}

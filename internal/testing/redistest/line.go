package redistest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
)

// line is one connection through a wire. Three goroutines serve it: receive takes commands from the
// client as fast as it sends them, as a socket's buffer would; forward decides about them one by one;
// reply brings the server's answers back in the order of the commands.
type line struct {
	wire   *Wire
	client net.Conn // the far end of the client's connection
	server net.Conn
	mute   atomic.Bool   // swallow what the client sends
	deaf   atomic.Bool   // swallow what the server sends
	done   chan struct{} // closed by cut
	left   chan struct{} // closed when the client sends no more
	once   sync.Once

	mu    sync.Mutex
	queue []request
	more  chan struct{} // has room for one: queue changed
	slots []*slot       // replies owed to the client, in order
	owed  chan struct{} // has room for one: slots changed
}

type request struct {
	name Command
	raw  []byte
}

// slot is the place of one reply in the order of replies.
type slot struct {
	made     []byte        // given here in place of the server's
	action   Action        // what becomes of the server's
	answered chan struct{} // closed when the server has answered
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
		c, raw, err := readCommand(r)
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

// take is the next request; false when the client has gone and all it sent is dealt with.
func (l *line) take() (request, bool) {
	for {
		left := false
		select {
		case <-l.left: // looked at before the queue, which nothing joins afterwards
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

// hangUp tells the server that its client has gone. What was sent before is executed still, as on a
// real network: closing at once could take it out of the server's buffer.
func (l *line) hangUp() {
	if half, ok := l.server.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return // reply ends when the server has closed its side
	}
	l.cut()
}

// decide does with one request what the rules say; false means that the line is cut.
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
	_, ok := l.send(q, a)
	return ok
}

// send passes the request on. Its slot stands before the server can have answered.
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

// listen hands on what the server says, value by value, and closes values when it has gone.
func (l *line) listen(values chan<- []byte) {
	defer close(values)
	r := bufio.NewReader(l.server)
	for {
		v, err := readValue(r)
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

// deliverMade sends the replies that are made here and whose turn has come; false means that the
// line is cut.
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

// deliver does with one value of the server what its slot says; false means that the line is cut.
func (l *line) deliver(v []byte) bool {
	l.mu.Lock()
	if unasked(v) || len(l.slots) == 0 {
		l.mu.Unlock()
		l.write(v)
		return true
	}
	s := l.slots[0]
	l.slots = l.slots[1:]
	l.mu.Unlock()
	close(s.answered)
	switch s.action.kind {
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
		delivered() // Open doesn't wait for a client that may not be reading
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

// write gives the client what it is owed. That the client has gone is no reason to cut the line: its
// held requests have yet to reach the server, whose answers are thrown away.
func (l *line) write(v []byte) {
	if !l.deaf.Load() {
		_, _ = l.client.Write(v)
	}
}

package sim

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// link is one connection of a process to the server. Four goroutines serve it.
// listen takes requests from the process as fast as it sends them; forward
// delivers each at its instant and awaits the reply. hear takes values from the
// server, so that a slow process never blocks the server; deliver passes each
// to the process at its instant.
type link struct {
	w      *world
	p      *process
	client net.Conn // our end of the process's connection
	server net.Conn
	up     *lane
	down   *lane
	mute   atomic.Bool // drop what the process sends
	deaf   atomic.Bool // drop what the server sends
	once   sync.Once
	done   chan struct{} // closed by cut

	fate    atomic.Value // FaultKind: what happens to the awaited reply
	answers chan []byte  // replies, after they were put into down
}

// message is a request or a value under way.
type message struct {
	name redistest.Command // of a request
	raw  []byte
	fate FaultKind
	at   time.Duration // when it arrives
}

// lane is one direction of a link. Messages arrive in order.
type lane struct {
	proc  int
	plan  *Plan
	now   func() time.Duration
	dice  dice
	holds []FaultKind

	mu    sync.Mutex
	queue []message
	last  time.Duration
	ended bool
	more  chan struct{} // buffered; receives when the queue changes
}

func newLane(w *world, proc int, number uint64, holds ...FaultKind) *lane {
	source := rand.NewPCG(w.plan.Seed, uint64(proc)<<32|number)
	return &lane{proc: proc, plan: w.plan, now: w.h.now, dice: dice{rand.New(source)},
		holds: append(holds, Hold, Freeze, Suspend), more: make(chan struct{}, 1)}
}

// latency draws how long the next message takes.
func (l *lane) latency(at time.Duration) time.Duration {
	near := l.plan.Procs[l.proc].Near
	d := near + l.dice.nanos(near)
	if l.dice.one(20) {
		d += l.dice.nanos(20 * near)
	}
	for _, f := range l.plan.Faults {
		if f.Kind == Slow && f.hits(l.proc) && f.covers(at) {
			d += f.Amount
		}
	}
	return d
}

// put adds a message, which arrives later.
func (l *lane) put(m message) {
	l.mu.Lock()
	now := l.now()
	m.at = max(now+l.latency(now), l.last+1+l.dice.nanos(time.Microsecond))
	if held := l.plan.delayed(l.proc, m.at, l.holds...); held > m.at {
		m.at = held + l.latency(held)
	}
	l.last = m.at
	l.queue = append(l.queue, m)
	l.mu.Unlock()
	l.nudge()
}

// end says that no message comes any more.
func (l *lane) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.nudge()
}

func (l *lane) nudge() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take returns the next message when it arrives; false: none comes any more.
func (l *lane) take(done <-chan struct{}) (message, bool) {
	for {
		l.mu.Lock()
		if len(l.queue) > 0 {
			m := l.queue[0]
			l.queue = l.queue[1:]
			l.mu.Unlock()
			return m, wait(m.at-l.now(), done)
		}
		ended := l.ended
		l.mu.Unlock()
		if ended {
			return message{}, false
		}
		select {
		case <-l.more:
		case <-done:
			return message{}, false
		}
	}
}

// wait waits for d. It returns false if done was closed before.
func wait(d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

// dial connects the process to the server.
func (p *process) dial(ctx context.Context) (net.Conn, error) {
	w := p.w
	p.mu.Lock()
	p.dials++
	number := uint64(p.dials) << 2
	p.mu.Unlock()
	knock := newLane(w, p.id, number)
	knock.put(message{})
	if _, ok := knock.take(ctx.Done()); !ok {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: ctx.Err()}
	}
	now := w.h.now()
	if p.dead.Load() || w.plan.hit(p.id, now, now, Refuse, Restart, Reboot, FailOver) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	server, err := w.redis.Dial(ctx)
	if err != nil {
		return nil, err
	}
	client, far := net.Pipe()
	l := &link{w: w, p: p, client: far, server: server, done: make(chan struct{}),
		up: newLane(w, p.id, number|1, HoldRequest), down: newLane(w, p.id, number|2, HoldReply),
		answers: make(chan []byte, 1)}
	l.fate.Store(FaultKind(""))
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	for _, f := range []func(){l.listen, l.forward, l.hear, l.deliver} {
		w.work.Go(f)
	}
	return redistest.Memory(client), nil
}

// cut ends the link for both sides at once; what is under way is lost.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
		l.p.mu.Lock()
		delete(l.p.links, l)
		l.p.mu.Unlock()
	})
}

func (l *link) listen() {
	defer l.up.end()
	r := bufio.NewReader(l.client)
	for {
		name, raw, err := redistest.ReadCommand(r)
		if err != nil {
			return // what was sent before still arrives
		}
		l.up.put(message{name: name, raw: raw})
	}
}

func (l *link) forward() {
	defer l.server.Close()
	for {
		m, ok := l.up.take(l.done)
		if !ok {
			return
		}
		if l.mute.Load() {
			continue
		}
		if err := l.w.refusal(m.name); err != "" {
			l.w.h.sometimes("refused " + l.w.scripts.name(m.name))
			l.down.put(message{raw: []byte("-" + err + "\r\n")})
			continue
		}
		if !l.request(m) {
			l.cut()
			return
		}
	}
}

// request delivers one request and awaits its reply. It returns false if the
// link must be cut.
func (l *link) request(m message) bool {
	what := l.w.scripts.name(m.name)
	fate := l.w.trap(l.p.id, m.name)
	if fate == CutBefore {
		l.w.h.sometimes(string(fate) + " " + what)
		return false
	}
	l.fate.Store(fate)
	if _, err := l.server.Write(m.raw); err != nil {
		return false
	}
	select {
	case reply := <-l.answers:
		l.w.ran(l, what, reply, fate)
		return true
	case <-l.done:
		return false
	}
}

func (l *link) hear() {
	defer l.down.end()
	r := bufio.NewReader(l.server)
	for {
		v, err := redistest.ReadValue(r)
		if err != nil {
			return
		}
		if redistest.Unasked(v) {
			l.down.put(message{raw: v})
			continue
		}
		l.down.put(message{raw: v, fate: l.fate.Swap(FaultKind("")).(FaultKind)})
		select {
		case l.answers <- v:
		case <-l.done:
			return
		}
	}
}

func (l *link) deliver() {
	defer l.cut()
	for {
		m, ok := l.down.take(l.done)
		if !ok {
			return
		}
		switch m.fate {
		case CutAfter:
			return
		case CutWithin:
			_, _ = l.client.Write(m.raw[:len(m.raw)/2])
			return
		}
		if !l.deaf.Load() {
			_, _ = l.client.Write(m.raw) // if the process has gone, its requests still run
		}
	}
}

// scripts knows the scripts by their digests.
type scripts struct {
	mu    sync.Mutex
	names map[string]string
}

// name returns what a request asks for: a script's name, or the command.
func (s *scripts) name(c redistest.Command) string {
	if len(c) < 2 {
		return strings.Join(c, " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.Is("EVAL"):
		sum := sha1.Sum([]byte(c[1]))
		first, _, _ := strings.Cut(c[1], ":")
		s.names[hex.EncodeToString(sum[:])] = strings.TrimPrefix(first, "-- ")
		return strings.TrimPrefix(first, "-- ")
	case c.Is("EVALSHA"):
		if name, known := s.names[c[1]]; known {
			return name
		}
		return "unknown script"
	}
	return strings.ToUpper(c[0])
}

// outcome returns the first integer of a reply, or its kind.
func outcome(reply []byte) string {
	line, rest, _ := strings.Cut(string(reply), "\r\n")
	switch {
	case strings.HasPrefix(line, ":"):
		return strings.TrimPrefix(line, ":")
	case line == "*0" || line == "*-1" || line == "$-1":
		return "none"
	case strings.HasPrefix(line, "*"):
		return outcome([]byte(rest))
	case strings.HasPrefix(line, "-"):
		word, _, _ := strings.Cut(line[1:], " ")
		return word
	}
	return "text"
}

var errDead = errors.New("sim: the process is dead")

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
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
	node   int      // the server
	client net.Conn // our end of the process's connection
	server net.Conn
	up     *lane
	down   *lane
	mute   atomic.Bool // drop what the process sends
	deaf   atomic.Bool // drop what the server sends
	once   sync.Once
	done   chan struct{} // closed by cut
	verb   verbing       // of an operator's connection
	writes int           // packets with a write

	answers chan []byte // replies of the server
}

// message is a request or a value.
type message struct {
	name redistest.Command // of a request
	raw  []byte
	sent sent
	fate FaultKind // what happens to a reply

	asks  string // for which script or command a request asks
	token int    // greatest number of a token in it
	place int    // of its reply
}

// packet is what one side of a link sends at one instant. It travels as one.
//
// Several goroutines of a process may send at one instant, in any order. So the
// server runs the requests of a packet in the order of their names, keys and
// tokens, and the process gets the replies in the order of its requests.
type packet struct {
	messages []message
	at       time.Duration // when it arrives
}

// lane is one direction of a link. Packets arrive in order.
type lane struct {
	proc  int
	plan  *Plan
	now   func() time.Duration
	name  func(first []message) uint64 // of the connection, after its first packet
	holds []FaultKind

	mu    sync.Mutex
	dice  dice // zero until the first packet
	fresh []message
	last  time.Duration // when the last packet arrives
	stall time.Duration // nothing arrives before
	ended bool

	packets chan packet // closed when no more come
}

func newLane(w *world, proc, node int, holds ...FaultKind) *lane {
	return &lane{proc: proc, plan: w.plan.on(node), now: w.h.now, holds: append(holds, Hold, Freeze, Suspend),
		packets: make(chan packet, 1<<10)}
}

// latency draws how long the next packet takes.
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

// stalls holds what is sent from now on until an instant.
func (l *lane) stalls(until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stall = until
}

// put adds a message to the packet of this instant.
func (l *lane) put(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh = append(l.fresh, m); len(l.fresh) == 1 && !l.ended {
		time.AfterFunc(1, l.seal)
	}
}

// seal sends the packet of the instant that is over.
func (l *lane) seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dice.Rand == nil {
		l.dice = dice{rand.New(rand.NewPCG(l.plan.Seed, l.name(l.fresh)))}
	}
	now := l.now()
	at := max(now+l.latency(now), l.last+1+l.dice.nanos(time.Microsecond))
	if held := max(l.stall, l.plan.delayed(l.proc, max(at, l.stall), l.holds...)); held > at {
		at = held + l.latency(held)
	}
	l.last = at
	l.packets <- packet{l.fresh, at}
	if l.fresh = nil; l.ended {
		close(l.packets)
	}
}

// end says that no message comes any more.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended = true; len(l.fresh) == 0 {
		close(l.packets)
	}
}

// take returns the next packet when it arrives; false: none comes any more.
func (l *lane) take(done <-chan struct{}) (packet, bool) {
	select {
	case p, ok := <-l.packets:
		return p, ok && wait(p.at-l.now(), done)
	case <-done:
		return packet{}, false
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

// dial connects the process to a server. shows: see verbing.
func (p *process) dial(ctx context.Context, node int, shows bool) (net.Conn, error) {
	w := p.w
	plan := w.plan.on(node)
	now := w.h.now()
	at := plan.delayed(p.id, now+2*w.plan.Procs[p.id].Near, Hold, HoldRequest, Freeze, Suspend)
	if !wait(at-now, ctx.Done()) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: ctx.Err()}
	}
	now = w.h.now()
	p.sending()
	if p.dead.Load() || plan.hit(p.id, now, now, Refuse, Restart, Reboot, FailOver) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	server, err := w.node(node).Dial(ctx)
	if err != nil {
		return nil, err
	}
	client, far := net.Pipe()
	l := &link{w: w, p: p, node: node, verb: verbing{shows: shows}, client: far, server: server,
		done: make(chan struct{}), up: newLane(w, p.id, node, HoldRequest),
		down: newLane(w, p.id, node, HoldReply), answers: make(chan []byte, 1)}
	var name uint64
	l.up.name = func(first []message) uint64 {
		var purposes []string
		for _, m := range first {
			purposes = append(purposes, w.scripts.name(m.name))
		}
		name = p.connection(slices.Min(purposes), node)
		return name
	}
	l.down.name = func([]message) uint64 { return name + 1 }
	p.mu.Lock()
	p.links = append(p.links, l)
	p.mu.Unlock()
	for _, f := range []func(){l.listen, l.forward, l.hear, l.deliver} {
		w.work.Go(f)
	}
	return redistest.Memory(client), nil
}

// connection names a connection by what it was opened for: the order in which
// two goroutines dial at one instant must not matter.
func (p *process) connection(first string, node int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node > 0 {
		first += fmt.Sprint(" at ", node)
	}
	p.dials[first]++
	h := fnv.New64a()
	fmt.Fprint(h, p.id, first, p.dials[first])
	return h.Sum64()
}

// cut ends the link for both sides at once; what is under way is lost.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		l.client.Close()
		l.server.Close()
		l.p.mu.Lock()
		l.p.links = slices.DeleteFunc(l.p.links, func(other *link) bool { return other == l })
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
		l.p.sending()
		l.up.put(message{name: name, raw: raw, sent: l.p.sends()})
	}
}

func (l *link) forward() {
	defer l.server.Close()
	for {
		p, ok := l.up.take(l.done)
		if !ok {
			return
		}
		if l.mute.Load() {
			continue
		}
		if !l.requests(p.messages) {
			l.cut()
			return
		}
	}
}

// requests delivers the requests of one packet and awaits their replies. It
// returns false if the link must be cut.
func (l *link) requests(all []message) bool {
	fate := l.trap(l.up.plan, l.p.id, all)
	for i := range all {
		m := &all[i]
		m.asks, m.place = l.w.scripts.name(m.name), i
		for _, a := range l.w.about(m.name, m.asks) {
			m.token = max(m.token, l.w.h.known(a.token))
		}
		if fate != "" {
			l.w.h.sometimes(string(fate) + " " + m.asks)
		}
	}
	if fate == CutBefore || len(all) == 1 && !wait(l.w.rushed(all[0]), l.done) {
		return false
	}
	slices.SortStableFunc(all, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.asks, b.asks), slices.Compare(keysOf(a.name), keysOf(b.name)),
			cmp.Compare(a.token, b.token))
	})
	replies := make([]message, len(all))
	for _, m := range all {
		reply, ok := l.request(m)
		if !ok {
			return false
		}
		replies[m.place] = message{raw: reply, fate: fate}
	}
	for _, r := range replies {
		l.down.put(r)
	}
	return true
}

// request delivers one request and returns the reply; false: the link has
// ended.
func (l *link) request(m message) (reply []byte, ok bool) {
	if err := l.w.refusal(l.up.plan, m.name); err != "" {
		l.w.h.sometimes("refused " + m.asks)
		l.w.ran(l.p, m, m.asks, l.w.values(), []byte("-"+err))
		return []byte("-" + err + "\r\n"), true
	}
	before := l.w.values()
	was := l.w.marks(m.name, l.node)
	if m.asks == "beat" && l.w.unheard(l.p) {
		return []byte("-" + redistest.OOM + "\r\n"), true
	}
	if m.name.Is("INFO") && l.w.ups != nil {
		return l.w.info(l.node), true
	}
	if _, err := l.server.Write(m.raw); err != nil {
		return nil, false
	}
	select {
	case reply = <-l.answers:
		l.w.h.sometimes(m.asks + "=" + outcome(reply))
		l.w.executed(l, m, outcome(reply), was)
		l.w.look(m.asks, l.p.id)
		l.w.ran(l.p, m, m.asks, before, reply)
		return reply, true
	case <-l.done:
		return nil, false
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
			pause, twice := l.w.later(l.p.id)
			if pause == 0 || twice {
				l.down.put(message{raw: v})
			}
			if pause > 0 {
				time.AfterFunc(pause, func() { l.down.put(message{raw: v}) })
			}
			continue
		}
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
		p, ok := l.down.take(l.done)
		if !ok {
			return
		}
		var raw []byte
		fate := FaultKind("")
		for _, m := range p.messages {
			raw = append(raw, m.raw...)
			fate = cmp.Or(fate, m.fate)
		}
		switch {
		case fate == CutAfter:
			return
		case fate == CutWithin:
			_, _ = l.client.Write(raw[:len(raw)/2])
			return
		case !l.deaf.Load():
			_, _ = l.client.Write(raw) // if the process has gone, its requests still run
		}
	}
}

// keysOf returns the keys of a request, in order of their names.
func keysOf(c redistest.Command) []string {
	if !c.Is("EVAL") && !c.Is("EVALSHA") || len(c) < 3 {
		return c[min(1, len(c)):min(2, len(c))]
	}
	n, _ := strconv.Atoi(c[2])
	return slices.Sorted(slices.Values(c[3:min(3+n, len(c))]))
}

// scripts knows the scripts by their digests.
type scripts struct{ names sync.Map }

// name returns what a request asks for: a script's name, or the command.
func (s *scripts) name(c redistest.Command) string {
	if len(c) < 2 {
		return strings.Join(c, " ")
	}
	switch {
	case c.Is("EVAL"):
		first, _, _ := strings.Cut(c[1], ":")
		name := strings.TrimPrefix(first, "-- ")
		s.names.Store(fmt.Sprintf("%x", sha1.Sum([]byte(c[1]))), name)
		return name
	case c.Is("EVALSHA"):
		if name, known := s.names.Load(c[1]); known {
			return name.(string)
		}
		return "unknown script"
	}
	return strings.ToUpper(c[0])
}

// outcome returns the first integer of a reply if it has one or two signs, or
// its kind.
func outcome(reply []byte) string {
	line, rest, _ := strings.Cut(string(reply), "\r\n")
	switch {
	case strings.HasPrefix(line, ":") && len(line) > 3:
		return "number"
	case strings.HasPrefix(line, ":"):
		return line[1:]
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

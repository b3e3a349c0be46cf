// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Wire connects clients to a server. It records the commands that pass, in the
// order in which each connection sent them, and applies its rules to them.
// Everything that it started ends with the test.
type Wire struct {
	t    testing.TB
	dial func(context.Context) (net.Conn, error)
	bell *bell
	work sync.WaitGroup

	over chan struct{} // closed when the test ends

	mu      sync.Mutex
	rules   []*ruleState
	lines   map[*line]struct{}
	sent    []Command // commands that clients sent
	crossed []Command // commands forwarded to the server
}

func newWire(t testing.TB, dial func(context.Context) (net.Conn, error), virtual bool, rules []Rule) *Wire {
	w := &Wire{t: t, dial: dial, bell: newBell(virtual), over: make(chan struct{}),
		lines: map[*line]struct{}{}}
	w.Fault(rules...)
	t.Cleanup(w.close)
	return w
}

// Fault adds rules, which count matches from now on.
func (w *Wire) Fault(rules ...Rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rules {
		w.rules = append(w.rules, &ruleState{Rule: r})
	}
}

// Calm removes all rules. A command held at a gate stays there, and a silenced
// connection stays silent.
func (w *Wire) Calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}

// Cut closes every open connection, as when a server dies or a proxy restarts.
func (w *Wire) Cut() {
	for _, l := range w.open() {
		l.cut()
	}
}

// Swallow makes every open connection drop what either side sends from now on,
// and stay open, as if a firewall had forgotten it. New connections work
// normally.
func (w *Wire) Swallow() {
	for _, l := range w.open() {
		l.mute.Store(true)
		l.deaf.Store(true)
	}
}

// Sent returns every command that clients sent, in the order of arrival.
func (w *Wire) Sent() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sent)
}

// Crossed returns every command that was forwarded to the server, in that
// order: Sent without those that a rule kept back.
func (w *Wire) Crossed() []Command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.crossed)
}

// Forget empties Sent and Crossed.
func (w *Wire) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent, w.crossed = nil, nil
}

// Count returns how often clients have sent the command; the name "" counts
// every command.
func (w *Wire) Count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.sent {
		if name == "" || c.Is(name) {
			n++
		}
	}
	return n
}

// Await waits until clients have sent the command n times in all, since the
// wire was made or Forget was called. It fails the test if that takes longer
// than Patience.
func (w *Wire) Await(name string, n int) {
	w.t.Helper()
	w.bell.await(w.t, func() bool { return w.Count(name) >= n }, func() string {
		return fmt.Sprintf("%s sent %d times, waited for %d; sent: %v", name, w.Count(name), n, w.Sent())
	})
}

// Connections returns how many connections of clients are open.
func (w *Wire) Connections() int { return len(w.open()) }

// Pool returns a pool of connections through the wire, without deadlines. It is
// closed with the test.
func (w *Wire) Pool(options ...redis.DialOption) *redis.Pool { return newPool(w.t, w.Dial, options) }

// Dial connects through the wire, in memory.
func (w *Wire) Dial(ctx context.Context) (net.Conn, error) {
	client, far := net.Pipe()
	if err := w.connect(ctx, far); err != nil {
		client.Close()
		return nil, err
	}
	return &memory{Conn: client}, nil
}

// Listen opens the wire to other processes and returns its loopback address.
// Where Dial would return an error, such a connection is closed right after it
// was accepted.
func (w *Wire) Listen() string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatalf("redistest: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.t.Cleanup(func() { stop(); l.Close() })
	w.work.Go(func() {
		for {
			far, err := l.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.connect(ctx, far) })
		}
	})
	return l.Addr().String()
}

// connect joins far, the wire's end of a client's connection, to the server, as
// the rules allow.
func (w *Wire) connect(ctx context.Context, far net.Conn) error {
	l := newLine(w, far)
	switch a := w.rule(Command{Dialing}); a.kind {
	case refuse:
		far.Close()
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case silence:
		l.mute.Store(true)
	case holdRequest:
		delivered := a.gate.enter()
		defer delivered()
		select {
		case <-a.gate.open:
		case <-w.over:
		case <-ctx.Done():
			far.Close()
			return &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
	}
	server, err := w.dial(ctx)
	if err != nil {
		far.Close()
		return err
	}
	l.server = server
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.over:
		far.Close()
		server.Close()
		return errors.New("redistest: the wire is closed")
	default:
	}
	w.lines[l] = struct{}{}
	l.start()
	return nil
}

// rule returns what to do with the command. Every matching rule counts it; the
// first rule that acts decides.
func (w *Wire) rule(c Command) Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	var todo Action
	for _, r := range w.rules {
		if r.take(c) && todo.kind == pass {
			todo = r.Do
		}
	}
	return todo
}

func (w *Wire) note(list *[]Command, c Command) {
	w.mu.Lock()
	*list = append(*list, c)
	w.mu.Unlock()
	w.bell.ring()
}

func (w *Wire) open() []*line {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ls []*line
	for l := range w.lines {
		ls = append(ls, l)
	}
	return ls
}

func (w *Wire) gone(l *line) {
	w.mu.Lock()
	delete(w.lines, l)
	w.mu.Unlock()
	w.bell.ring()
}

func (w *Wire) close() {
	w.mu.Lock()
	close(w.over) // under the lock, so that a new line is either cut below or refused
	w.mu.Unlock()
	w.Cut()
	w.work.Wait()
}

package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// firstPause and longestPause bound the time from the start of one probe to
	// the earliest start of the next. The time doubles with each probe, so that
	// a server that never answers is asked rarely.
	firstPause   = time.Second
	longestPause = 10 * time.Minute

	// hangUps is how many connections in a row must end at a command before the
	// server counts as lacking it. One can end by chance.
	hangUps = 2
)

// Verdict says whether the server has a command.
type Verdict int

const (
	// Open: there was no answer, or a refusal for a reason that passes.
	Open Verdict = iota
	// Has: the server executed the command.
	Has
	// Lacks: the server, a proxy before it, or this user's rights refuse the
	// command, in whatever words, or by hanging up.
	Lacks
)

// Prober finds out which commands the server has by trying them. It does so in
// the background and on connections of its own: a proxy may hang up on an
// unknown command, and that must not end another connection.
type Prober struct {
	m *Mux

	mu     sync.Mutex
	closed bool
	cancel context.CancelCauseFunc // ends the probe under way; nil without one
	pause  time.Duration           // from the start of the last probe to next
	next   time.Time               // earliest start of another probe
}

// Trial is one connection of a probe.
type Trial struct {
	conn  redis.Conn         // nil: nothing is sent
	found map[string]Verdict // by command, including earlier connections
	err   error              // why no more commands are sent
	asks  bool               // a command was tried that has no verdict yet
}

// hungUp is the error of a connection on which the server did not answer a
// command.
type hungUp struct {
	command string
	err     error
}

func (e *hungUp) Error() string { return e.command + ": " + e.err.Error() }
func (e *hungUp) Unwrap() error { return e.err }

func (p *Prober) init(m *Mux) { p.m, p.pause = m, firstPause }

// Start begins a probe and does not wait for it. It does nothing if a probe is
// under way or the pause after the last one is not over.
//
// The probe sends control first, a command that every server has. Without an
// answer it concludes nothing: the server is loading, asks for a password, or
// takes no more connections. Then it calls try, again with each new connection
// that it needs. It also calls try without a connection, to find out whether
// one is needed.
func (p *Prober) Start(control Command, try func(*Trial)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.closed || p.cancel != nil || now.Before(p.next) {
		return
	}
	p.next = now.Add(p.pause)
	p.pause = min(2*p.pause, longestPause)
	ctx, cancel := context.WithCancelCause(context.Background())
	p.cancel = cancel
	p.m.wg.Add(1) // closed is false, and close takes mu before it waits for wg
	go p.run(ctx, control, try)
}

// run is the goroutine of one probe. It opens at most hangUps connections for
// each command, and one for the rest. Each is bounded by one Timeout.
func (p *Prober) run(ctx context.Context, control Command, try func(*Trial)) {
	defer p.m.wg.Done()
	found, hung := map[string]Verdict{}, map[string]int{}
	for {
		known := &Trial{found: found} // known verdicts need no connection
		if try(known); !known.asks {
			break
		}
		conn, err := p.m.open(ctx, &p.m.asides, func(conn redis.Conn) error {
			return p.session(conn, control, found, try)
		})
		if err == nil {
			_ = conn.Close()
		}
		// After any other error the session may still be running, so found may
		// not be touched any more.
		var h *hungUp
		if !errors.As(err, &h) {
			break
		}
		if hung[h.command]++; hung[h.command] == hangUps {
			found[h.command] = Lacks
		}
	}
	p.mu.Lock()
	p.cancel(nil)
	p.cancel = nil
	p.mu.Unlock()
}

// session uses one connection: setup, control, then try.
func (p *Prober) session(conn redis.Conn, control Command, found map[string]Verdict, try func(*Trial)) error {
	if p.m.opts.Setup != nil {
		if err := p.m.opts.Setup(conn); err != nil {
			return err
		}
	}
	// NOPERM or WRONGTYPE also shows that the server executes commands.
	if _, err := conn.Do(control.Name, control.Args...); err != nil && !IsNoPerm(err) && !IsWrongType(err) {
		return err
	}
	t := &Trial{conn: conn, found: found}
	try(t)
	return t.err
}

// Ask tries a command whose arguments change nothing. A server that has the
// command replies want, which is nil or an int64. Any other reply is Lacks,
// such as the OK of a server that ignores a condition.
func (t *Trial) Ask(want any, name string, args ...any) Verdict {
	if v := t.found[name]; v != Open {
		return v
	}
	t.asks = true
	if t.conn == nil || t.err != nil {
		return Open
	}
	reply, err := t.conn.Do(name, args...)
	var late net.Error
	switch {
	case err == nil && reply == want:
		t.found[name] = Has
	case err == nil:
		t.found[name] = Lacks
	case !answered(err) && errors.As(err, &late) && late.Timeout(): // the dial hook's own timeout
		t.err = err
	case !answered(err):
		t.err = &hungUp{name, err}
	case !IsPassing(err):
		t.found[name] = Lacks
	}
	return t.found[name]
}

// close ends the probe under way; the Mux waits for it.
func (p *Prober) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.cancel != nil {
		p.cancel(ErrClosed)
	}
}

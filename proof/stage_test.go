package proof

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// patience is how long a client may take to come to rest, in real time. It only
// decides when a test that would hang fails.
const patience = 30 * time.Second

// stage is between one client and the server. A client is at rest in four
// cases, and reports it in rest: its command waits before the server, its reply
// is held back, it has asked its clock to be woken, or its operation has ended.
type stage struct {
	t    testing.TB
	w    *redistest.World
	rest chan any // *call, *nap, or what an operation ended with
	over chan struct{}
	work sync.WaitGroup

	// attempt returns the token in a command that takes the key; if it is nil,
	// every command is the schedule's.
	attempt func(redistest.Command) string

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	dead  bool
	deaf  bool   // what the client sends meanwhile is lost, together with its connection
	token string // of the attempt or grant that the model knows
}

// call is a command on its way. It needs two decisions: whether it runs, and
// what the client hears.
type call struct {
	cmd    redistest.Command
	runs   chan bool   // false: the command is lost, and the connection with it
	answer chan []byte // the server's reply, if it ran
	hears  chan []byte // nil: no reply; the connection is lost
}

func newStage(t testing.TB, w *redistest.World) *stage {
	s := &stage{t: t, w: w, rest: make(chan any, 64), over: make(chan struct{}),
		conns: map[net.Conn]struct{}{}}
	t.Cleanup(s.kill)
	return s
}

// pool dials through the stage.
func (s *stage) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		c, err := s.dial(ctx)
		if err != nil {
			return nil, err
		}
		return redis.NewConn(c, 0, 0), nil
	}}
}

var errDead = errors.New("replay: this client has crashed")

func (s *stage) dial(ctx context.Context) (net.Conn, error) {
	server, err := s.w.Dial(ctx)
	if err != nil {
		return nil, err
	}
	client, ours := net.Pipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		server.Close()
		return nil, errDead
	}
	s.conns[server], s.conns[ours] = struct{}{}, struct{}{}
	s.work.Add(1)
	go s.carry(ours, server)
	return client, nil
}

// kill ends the client as a crash does: nothing that it sends reaches the
// server any more.
func (s *stage) kill() {
	s.mu.Lock()
	if !s.dead {
		s.dead = true
		close(s.over)
	}
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// carry serves one connection.
func (s *stage) carry(client, server net.Conn) {
	defer s.work.Done()
	gone := make(chan struct{})
	commands := make(chan *call, 256)
	raws := make(chan []byte, 256)
	s.work.Add(1)
	go s.listen(client, commands, raws, gone)
	defer func() {
		close(gone)
		client.Close()
		server.Close()
		s.mu.Lock()
		delete(s.conns, client)
		delete(s.conns, server)
		s.mu.Unlock()
	}()
	replies := bufio.NewReader(server)
	for c := range commands {
		if !s.pass(c, <-raws, client, server, replies) {
			return
		}
	}
}

// listen reads all that the client sends without making it wait, as a socket's
// buffer does.
func (s *stage) listen(client net.Conn, commands chan<- *call, raws chan<- []byte, gone <-chan struct{}) {
	defer s.work.Done()
	defer close(commands)
	in := bufio.NewReader(client)
	for {
		cmd, raw, err := redistest.ReadCommand(in)
		if err != nil {
			return
		}
		c := &call{cmd: cmd, runs: make(chan bool, 1), answer: make(chan []byte, 1),
			hears: make(chan []byte, 1)}
		select {
		case commands <- c:
			raws <- raw
		case <-gone:
			return
		}
	}
}

// pass does with one command what the schedule says; false ends the connection.
func (s *stage) pass(c *call, raw []byte, client, server net.Conn, replies *bufio.Reader) bool {
	if s.loses(c.cmd) {
		return false
	}
	scheduled := !background(c.cmd) && !s.late(c.cmd)
	if scheduled {
		select {
		case s.rest <- c:
		case <-s.over:
			return false
		}
		select {
		case runs := <-c.runs:
			if !runs {
				return s.hear(c, client)
			}
		case <-s.over:
			return false
		}
	}
	if _, err := server.Write(raw); err != nil {
		return false
	}
	v, err := redistest.ReadValue(replies)
	if err != nil {
		return false
	}
	if !scheduled {
		_, err = client.Write(v)
		return err == nil
	}
	c.answer <- v
	return s.hear(c, client)
}

func (s *stage) hear(c *call, client net.Conn) bool {
	select {
	case v := <-c.hears:
		if v == nil {
			return false
		}
		_, err := client.Write(v)
		return err == nil || errors.Is(err, net.ErrClosed)
	case <-s.over:
		return false
	}
}

// bury forgets a token as the model does. Commands by which its client still
// gives it up run when they come.
func (s *stage) bury() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// deafen loses all that the client sends until it is called with false.
// Otherwise the client would send a renewal a second time if the first one's
// connection was lost.
func (s *stage) deafen(deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = deaf
}

func (s *stage) loses(cmd redistest.Command) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf && !background(cmd)
}

// late reports whether a command is not the schedule's: it is about a token
// that the model does not know.
func (s *stage) late(cmd redistest.Command) bool {
	if s.attempt == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.attempt(cmd); t != "" {
		s.token = t
	}
	names := func(arg string) bool { return strings.HasPrefix(arg, s.token) } // the token, or all of M
	return s.token == "" || !slices.ContainsFunc(cmd, names)
}

// background reports whether a command is one that connections send by
// themselves.
func background(cmd redistest.Command) bool {
	return slices.ContainsFunc([]string{"PING", "CLIENT", "HELLO", "SUBSCRIBE", "SELECT", "AUTH"}, cmd.Is)
}

// await returns the client's next rest.
func (s *stage) await(what string) any {
	s.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case x := <-s.rest:
		return x
	case <-late.C:
		s.t.Fatalf("replay: the client did not come to rest after %s", what)
		return nil
	}
}

// run executes a command and holds the reply back.
func (s *stage) run(c *call) []byte {
	s.t.Helper()
	c.runs <- true
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-c.answer:
		return v
	case <-late.C:
		s.t.Fatalf("replay: the server did not answer %v", c.cmd)
		return nil
	}
}

// through executes a command and delivers its reply.
func (s *stage) through(c *call) []byte {
	s.t.Helper()
	v := s.run(c)
	c.hears <- v
	return v
}

// refuse answers instead of the server. Only so can an old client's attempt end
// in the middle without leaving open whether it holds.
func (c *call) refuse() {
	c.runs <- false
	c.hears <- refusal
}

var refusal = []byte("-ERR the schedule ends this attempt here\r\n")

// integer and null read the replies to an old client's commands.
func integer(v []byte, n string) bool { return string(v) == ":"+n+"\r\n" }

func null(v []byte) bool {
	return strings.HasPrefix(string(v), "$-1") || strings.HasPrefix(string(v), "_")
}

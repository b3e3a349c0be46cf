// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// patience is how long a client may take to come to rest, in real time. It only
// decides when a test that would hang fails.
const patience = 30 * time.Second

// stage is between one client and the server. A client is at rest in four
// cases, and reports it in rest: its command waits before the server, its reply
// is held back, it has asked its clock to be woken, or its operation has ended.
type stage struct {
	*redistest.Wire
	t    testing.TB
	w    *redistest.World
	rest chan any // *call, *nap, or what an operation ended with
	over chan struct{}

	// attempt returns the token in a command that takes the key; if it is nil,
	// every command is the schedule's.
	attempt func(redistest.Command) string

	mu    sync.Mutex
	dead  bool
	deaf  bool   // what the client sends meanwhile is lost, together with its connection
	token string // of the attempt or grant that the model knows
}

// call is a command on its way, which the schedule decides about.
type call = redistest.Call

func newStage(t testing.TB, w *redistest.World) *stage {
	s := &stage{t: t, w: w, rest: make(chan any, 64), over: make(chan struct{})}
	s.Wire = w.Wire(redistest.Rule{When: s.loses, Times: -1, Do: redistest.CutBefore},
		redistest.Rule{When: s.scheduled, Times: -1, Do: redistest.Ask(s.rests)})
	t.Cleanup(s.kill)
	return s
}

// kill ends the client as a crash does: nothing that it sends reaches the
// server any more.
func (s *stage) kill() {
	s.mu.Lock()
	if !s.dead {
		s.dead = true
		close(s.over)
	}
	s.mu.Unlock()
	s.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
	s.Cut()
}

// rests reports that a command waits before the server.
func (s *stage) rests(c *call) bool {
	select {
	case s.rest <- c:
		return true
	case <-s.over:
		return false
	}
}

// scheduled reports whether the schedule decides about a command.
func (s *stage) scheduled(cmd redistest.Command) bool {
	return !background(cmd) && !s.loses(cmd) && !s.late(cmd)
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
	c.Runs <- true
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case v := <-c.Answer:
		return v
	case <-late.C:
		s.t.Fatalf("replay: the server did not answer %v", c.Command)
		return nil
	}
}

// through executes a command and delivers its reply.
func (s *stage) through(c *call) []byte {
	s.t.Helper()
	v := s.run(c)
	c.Hears <- v
	return v
}

// refuse answers a command instead of the server. Only so can an old client's
// attempt end in the middle without leaving open whether it holds.
func refuse(c *call) {
	c.Runs <- false
	c.Hears <- refusal
}

var refusal = []byte("-ERR the schedule ends this attempt here\r\n")

// integer and null read the replies to an old client's commands.
func integer(v []byte, n string) bool { return string(v) == ":"+n+"\r\n" }

func null(v []byte) bool {
	return strings.HasPrefix(string(v), "$-1") || strings.HasPrefix(string(v), "_")
}

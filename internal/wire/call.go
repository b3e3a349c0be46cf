// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Command is one command of a [Mux.Batch]: either Name with Args, or Script
// with its keys and arguments in Args.
type Command struct {
	Name   string
	Script *Script
	Args   []any

	// Track sends CLIENT CACHING YES right before the command, so that the keys
	// it reads are reported to the [Tracker] when they change.
	Track bool

	// Ask sends ASKING right before the command, so that the node to which a
	// slot of a cluster is moving executes it. Not together with Track: each of
	// the two is for the very next command.
	Ask bool
}

// Cmd returns a Command. Byte slices in args must not be changed afterwards.
func Cmd(name string, args ...any) Command { return Command{Name: name, Args: args} }

// Tracked returns c with Track set.
func (c Command) Tracked() Command {
	c.Track = true
	return c
}

// Reply is the outcome of one command. Err is a redis.Error, a [*NotSentError]
// or an [*UnknownError].
type Reply struct {
	Value any
	Err   error
}

// call is one or more commands that travel together, and their fate.
//
// The link's mutex guards the fields below mu until a token is in done; after
// that they do not change. A call whose reply was taken goes back to its pool.
// A failed call never does, because the goroutine that writes to the connection
// may still be reading its arguments.
type call struct {
	done chan struct{} // has one token once the fate of every command is decided
	cmds []Command
	full bool // scripts travel whole, as EVAL
	link *link
	only *link // the one connection that may carry the call, also if it takes no others; nil: any

	// mu
	sent      int64 // time at which the writer took it, in ns since the link was dialed
	taken     bool  // taken by the writer: from here on its fate may be unknown
	stranded  bool  // not sent, since its connection did not answer a PING
	withdrawn bool  // given up before it was taken: the writer skips it
	cached    bool  // the reply to what goes before the next command was read
	untracked error // the server's refusal of a CLIENT CACHING
	replies   []Reply
	err       error // reason why no more replies come

	// Room for a call of a single command, reused.
	one  [1]Command
	room [1]Reply
	args []any
}

func newCall() *call {
	c := &call{done: make(chan struct{}, 1)}
	c.replies = c.room[:0]
	return c
}

// single makes c carry one command. It copies args, so that the caller's slice
// can live on its stack.
func (c *call) single(name string, s *Script, args []any) {
	c.args = append(c.args[:0], args...)
	c.one[0] = Command{Name: name, Script: s, Args: c.args}
	c.cmds = c.one[:]
	c.replies = c.room[:0]
}

// reset prepares c for its pool. Nothing of its former user stays reachable.
func (c *call) reset() {
	clear(c.args)
	*c = call{done: c.done, args: c.args[:0]}
}

// put writes all commands of c into the connection's buffer. Its caller alone
// uses the sending half, and room. put does not touch c after the last byte: by
// then the reply may have come and c may be in use again.
func (c *call) put(conn redis.Conn, room *[]any) error {
	full := c.full
	for i := range c.cmds {
		if err := c.cmds[i].send(conn, full, room); err != nil {
			return err
		}
	}
	return nil
}

// take records one reply read from the connection and reports whether it was
// the last.
func (c *call) take(v any, err error) bool {
	cmd := &c.cmds[len(c.replies)]
	if (cmd.Track || cmd.Ask) && !c.cached {
		c.cached = true
		if err != nil && cmd.Track { // after a refused ASKING the command is redirected
			c.untracked = err
		}
		return false
	}
	c.cached = false
	c.replies = append(c.replies, Reply{v, err})
	return len(c.replies) == len(c.cmds)
}

// outcome returns the outcome of command i. If the call is not decided, err is
// why its goroutine stopped waiting.
func (c *call) outcome(i int, f fate, err error) Reply {
	switch {
	case f == unsent:
		return Reply{Err: &NotSentError{err}}
	case f == left:
		return Reply{Err: &UnknownError{err, &Pending{c, i}}}
	case i < len(c.replies):
		return c.replies[i]
	case c.taken:
		select {
		case c.done <- struct{}{}: // put the token back for Pending
		default: // an earlier command of this call put it back
		}
		return Reply{Err: &UnknownError{c.err, &Pending{c, i}}}
	default:
		return Reply{Err: &NotSentError{c.err}}
	}
}

// Pending is a command that was sent and whose reply was not awaited.
type Pending struct {
	call *call
	i    int
}

// Wait waits for the late reply. It returns:
//
//   - known true: reply and err are the server's answer.
//   - known false: the connection ended without a reply, or ctx ended first;
//     err says which.
//
// Wait may be called any number of times.
func (p *Pending) Wait(ctx context.Context) (reply any, err error, known bool) {
	select {
	case <-p.call.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx), false
	}
	return p.late()
}

// Reply is Wait that does not wait: known is also false if the reply has not
// come yet.
func (p *Pending) Reply() (reply any, err error, known bool) {
	select {
	case <-p.call.done:
	default:
		return nil, nil, false
	}
	return p.late()
}

// late returns the reply. The token of the call was taken.
func (p *Pending) late() (reply any, err error, known bool) {
	p.call.done <- struct{}{} // for the next one; no other goroutine can have put a token
	if p.i < len(p.call.replies) {
		r := p.call.replies[p.i]
		return r.Value, r.Err, true
	}
	return nil, p.call.err, false
}

// Behind returns the connection on which the command was sent. What is sent
// through it reaches the same server after the command, even if the connection
// takes no other calls any more. When the connection has ended, nothing is
// sent.
func (p *Pending) Behind() Pin { return Pin{p.call.link} }

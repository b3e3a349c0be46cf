package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Counted runs one command and draws a number, which nothing can come between: MULTI, the command, INCR
// counter and EXEC in one packet. That costs a server about a third of what a script costs that does the
// same. The reply is that of EXEC, the command's and the counter's, either of which may be a redis.Error.
//
// Err is the server's first refusal, since what EXEC says of it is only that there was one. Where it
// refuses MULTI itself it executes the command and INCR one by one: then the reply tells what came of
// them, beside the error.
func (m *Mux) Counted(ctx context.Context, counter any, name string, args ...any) (any, error) {
	c := m.calls.Get().(*call)
	c.single(name, nil, args)
	c.counter = counter
	return m.one(ctx, c)
}

// putCounted writes a transaction into the connection's buffer. room is used again and holds nothing in
// between.
func putCounted(conn redis.Conn, counter any, name string, args []any, room *[]any) error {
	if err := conn.Send("MULTI"); err != nil {
		return err
	}
	err := sendCopy(conn, room, name, args...)
	if err == nil {
		err = sendCopy(conn, room, "INCR", counter)
	}
	if err == nil {
		err = conn.Send("EXEC")
	}
	return err
}

// sendCopy sends copies of args, which can so live on the caller's stack.
func sendCopy(conn redis.Conn, room *[]any, name string, args ...any) error {
	copied := append((*room)[:0], args...)
	err := conn.Send(name, copied...)
	clear(copied)
	*room = copied[:0]
	return err
}

// countedReplies are those to MULTI, the command, INCR and EXEC.
const countedReplies = 4

// counted is what came back of a transaction so far.
type counted struct {
	seen  int
	open  bool  // the server has said yes to MULTI, and not yes or no to EXEC
	loose []any // what it executed without
	value any
	err   error
}

// take notes one reply and reports whether it was the last.
func (c *counted) take(v any, err error) (whole bool) {
	c.seen++
	switch {
	case c.seen == 1:
		c.open = err == nil
	case c.seen < countedReplies && !c.open:
		if err != nil {
			v = err
		}
		c.loose = append(c.loose, v)
		return false
	case c.seen == countedReplies && c.open:
		c.value, c.open = v, err != nil && !isAborted(err)
	case c.seen == countedReplies:
		c.value = c.loose
	}
	if c.err == nil {
		c.err = bared(err)
	}
	return c.seen == countedReplies
}

// stuck reports that the transaction is neither executed nor dropped, so that all that the connection
// carried from now on would become a part of it. It ends with the connection.
func (c *counted) stuck() bool { return c.seen == countedReplies && c.open }

// isAborted: the server has dropped the transaction.
func isAborted(err error) bool { return strings.HasPrefix(err.Error(), "EXECABORT ") }

// bared is what kept EXEC itself from being executed, without the words around it.
func bared(err error) error {
	if err == nil || !isAborted(err) {
		return err
	}
	if _, why, ok := strings.Cut(err.Error(), " because of: "); ok {
		return redis.Error(why)
	}
	return err
}

// errStuck ends a connection. It holds no reply of the server, which would say that it goes on.
func errStuck(err error) error {
	return &lostError{errors.New("a transaction that the server does not end: " + err.Error())}
}

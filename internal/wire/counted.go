package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Counted runs one command and draws a number, atomically: MULTI, the command,
// INCR counter and EXEC in one packet. It costs a server about a third of an
// equal script. The reply is EXEC's: the command's reply and the counter's.
// Either may be a redis.Error.
//
// Err is the server's first refusal, since EXEC only reports that there was
// one. If the server refuses MULTI itself, it executes the command and INCR one
// by one. Then the reply holds their results, together with the error.
func (m *Mux) Counted(ctx context.Context, counter any, name string, args ...any) (any, error) {
	c := m.calls.Get().(*call)
	c.single(name, nil, args)
	c.counter = counter
	return m.one(ctx, c)
}

// putCounted writes a transaction into the connection's buffer. room is reused
// and holds nothing between calls.
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

// sendCopy sends copies of args, so that these can live on the caller's stack.
func sendCopy(conn redis.Conn, room *[]any, name string, args ...any) error {
	copied := append((*room)[:0], args...)
	err := conn.Send(name, copied...)
	clear(copied)
	*room = copied[:0]
	return err
}

// countedReplies is the number of replies: to MULTI, the command, INCR and
// EXEC.
const countedReplies = 4

// counted collects the replies of a transaction.
type counted struct {
	seen  int
	open  bool  // the server accepted MULTI and has not answered EXEC yet
	loose []any // replies to commands executed without MULTI
	value any
	err   error
}

// take records one reply and reports whether it was the last.
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

// stuck reports that the transaction is neither executed nor dropped.
// Everything sent on the connection from now on would become a part of it. It
// ends with the connection.
func (c *counted) stuck() bool { return c.seen == countedReplies && c.open }

// isAborted reports that the server has dropped the transaction.
func isAborted(err error) bool { return strings.HasPrefix(err.Error(), "EXECABORT ") }

// bared returns the reason why EXEC was not executed, without the words around
// it.
func bared(err error) error {
	if err == nil || !isAborted(err) {
		return err
	}
	if _, why, ok := strings.Cut(err.Error(), " because of: "); ok {
		return redis.Error(why)
	}
	return err
}

// errStuck is the reason to end a connection. It does not wrap a redis.Error,
// which would mean that the connection goes on.
func errStuck(err error) error {
	return &lostError{errors.New("a transaction that the server does not end: " + err.Error())}
}

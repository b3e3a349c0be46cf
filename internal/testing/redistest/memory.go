// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// memory is the client's end of an in-memory connection. A net.Pipe whose far
// end was closed fails in ways that no socket does: setting a deadline fails,
// and that error hides the end of file. memory makes it behave like a socket.
type memory struct {
	net.Conn
	before func() // called before each write; may be nil
}

// Memory makes one end of a net.Pipe behave like a socket.
func Memory(c net.Conn) net.Conn { return &memory{Conn: c} }

func (c *memory) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "read", Net: "pipe", Err: net.ErrClosed}
	}
	return n, err
}

func (c *memory) Write(p []byte) (int, error) {
	if c.before != nil {
		c.before()
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = &net.OpError{Op: "write", Net: "pipe", Err: syscall.EPIPE}
	}
	return n, err
}

func (c *memory) SetDeadline(t time.Time) error { return open(c.Conn.SetDeadline(t)) }

func (c *memory) SetReadDeadline(t time.Time) error { return open(c.Conn.SetReadDeadline(t)) }

func (c *memory) SetWriteDeadline(t time.Time) error { return open(c.Conn.SetWriteDeadline(t)) }

func open(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Cut is a network that loses some messages of one client while On is set: the
// replies to what creates a node, and requests that delete one.
type Cut struct{ On atomic.Bool }

// Dial is for Config.Dial.
func (c *Cut) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, cut: c, lost: map[uint32]bool{}}, nil
}

// Codes of ZooKeeper's requests.
const (
	opCreate = 1
	opDelete = 2
)

type cutConn struct {
	net.Conn
	cut     *Cut
	plain   atomic.Bool // a word of four letters was sent, whose answer has no frames
	greeted bool        // only the reader uses it
	rest    []byte

	mu   sync.Mutex
	lost map[uint32]bool // numbers of requests whose replies are lost
}

// Write gets whole frames from the library.
func (c *cutConn) Write(p []byte) (int, error) {
	if len(p) == 4 {
		c.plain.Store(true)
	}
	if len(p) >= 12 && c.cut.On.Load() {
		switch binary.BigEndian.Uint32(p[8:]) {
		case opDelete:
			return len(p), nil
		case opCreate:
			c.mu.Lock()
			c.lost[binary.BigEndian.Uint32(p[4:])] = true
			c.mu.Unlock()
		}
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.plain.Load() {
		return c.Conn.Read(p)
	}
	for len(c.rest) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c.Conn, body); err != nil {
			return 0, err
		}
		number := binary.BigEndian.Uint32(body)
		c.mu.Lock()
		// An error, such as a missing parent, took nothing.
		lost := c.greeted && c.lost[number] && binary.BigEndian.Uint32(body[12:]) == 0
		delete(c.lost, number)
		c.mu.Unlock()
		c.greeted = true
		if !lost {
			c.rest = append(head, body...)
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

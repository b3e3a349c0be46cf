// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// opExists is the code of a question whether a node exists.
const opExists = 3

// dropping ends each connection at such a question, so many times.
type dropping struct{ left atomic.Int32 }

func (d *dropping) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &droppingConn{conn, d}, err
}

type droppingConn struct {
	net.Conn
	of *dropping
}

// Write gets whole frames from the library.
func (c *droppingConn) Write(p []byte) (int, error) {
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == opExists && c.of.left.Add(-1) >= 0 {
		_ = c.Conn.Close()
	}
	return c.Conn.Write(p)
}

// Two connections end while Open looks for the chroot. It goes on with the
// third.
func TestOpenGoesOnAfterALostConnection(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	d := new(dropping)
	d.left.Store(2)
	c := open(t, "zookeeper://"+server.Addr+"/locks",
		zookeeper.Options{Backend: zookeeper.Config{Dial: d.dial}})
	release(t, acquire(t, c, "k"))
	if d.left.Load() >= 0 {
		t.Error("no connection was lost")
	}
}

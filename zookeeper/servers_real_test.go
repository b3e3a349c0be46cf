// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// An administrator set minSessionTimeout to half a tick.
func TestSessionsUnderTwoTicksAreRefused(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, "4lw.commands.whitelist=srvr,conf", "tickTime=2000", "minSessionTimeout=1000")
	cfg := zookeeper.Config{}
	wants(t, "under two ticks", try(t, cfg, "k", 3*time.Second, server.Addr), false, "two of its ticks",
		"Config.TTL to 4s", "tickTime is 2s")
	if err := try(t, cfg, "k", 4*time.Second, server.Addr); err != nil {
		t.Errorf("two ticks: %v", err)
	}
}

// observed answers for a server that it is an observer.
type observed struct {
	net.Conn
	asked bool
	said  *bytes.Reader
}

func (c *observed) Write(p []byte) (int, error) {
	c.asked = c.asked || string(p) == "srvr"
	return c.Conn.Write(p)
}

func (c *observed) Read(p []byte) (int, error) {
	if !c.asked {
		return c.Conn.Read(p)
	}
	if c.said == nil {
		text, err := io.ReadAll(c.Conn)
		if err != nil {
			return 0, err
		}
		c.said = bytes.NewReader(bytes.ReplaceAll(text, []byte("Mode: standalone"), []byte("Mode: observer")))
	}
	return c.said.Read(p)
}

func observe(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &observed{Conn: conn}, err
}

func TestObserversAreNamedInTheLog(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	cfg := zookeeper.Config{Chroot: "/locks", Timeout: zktest.Patience, Dial: observe}
	c, said := logging(t, cfg, shortTTL, server.Addr)
	release(t, acquire(t, c, "k"))
	other, err := c.With(func(cfg *lock.Config) { cfg.TTL = 3 * time.Second })
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, other, "k")) // in a session of its own
	if said.count("the server is an observer") != 1 {
		t.Errorf("the log says: %s", said)
	}
	long, said := logging(t, cfg, lock.Config{}, server.Addr)
	release(t, acquire(t, long, "k"))
	if said.String() != "" {
		t.Errorf("with a long TTL the log says: %s", said)
	}
}

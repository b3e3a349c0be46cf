// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/door"
)

// Door is how one client reaches the servers of an Ensemble.
type Door struct {
	links []*door.Door

	mu    sync.Mutex
	conns []net.Conn
}

// NewDoor returns a way to every server, until the test ends.
func (e *Ensemble) NewDoor(t testing.TB) *Door {
	t.Helper()
	d := new(Door)
	for _, s := range e.Servers {
		d.links = append(d.links, door.New(t, s.Addr))
	}
	return d
}

// Addrs are the addresses for the client, one a server.
func (d *Door) Addrs() []string {
	var addrs []string
	for _, l := range d.links {
		addrs = append(addrs, l.Addr)
	}
	return addrs
}

// Dial is for Config.Dial, so that Move knows the client's connections.
func (d *Door) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		d.mu.Lock()
		d.conns = append(d.conns, conn)
		d.mu.Unlock()
	}
	return conn, err
}

// Move ends the client's connections, so that it goes on at another server.
func (d *Door) Move() {
	d.mu.Lock()
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// Hold holds back what travels in either direction. Nothing is lost: release
// delivers it.
func (d *Door) Hold() (release func()) {
	var ends []func()
	for _, l := range d.links {
		ends = append(ends, l.Hold(""))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

//go:build linux

package zktest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
)

// Door is how one client reaches the servers of an Ensemble.
type Door struct {
	links []*link

	mu    sync.Mutex
	conns []net.Conn
}

// NewDoor returns a way to every server, until the test ends.
func (e *Ensemble) NewDoor(t testing.TB) *Door {
	t.Helper()
	d := new(Door)
	for _, s := range e.Servers {
		d.links = append(d.links, newLink(t, s.port))
	}
	return d
}

// Addrs are the addresses for the client, one a server.
func (d *Door) Addrs() []string {
	var addrs []string
	for _, l := range d.links {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", l.port))
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
	for _, l := range d.links {
		l.gate.Lock()
	}
	return sync.OnceFunc(func() {
		for _, l := range d.links {
			l.gate.Unlock()
		}
	})
}

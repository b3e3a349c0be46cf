// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/door"
)

// Door is how one client reaches the servers of an Ensemble.
type Door struct{ links []*door.Door }

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

// Move ends the client's connections, so that it goes on at another server.
func (d *Door) Move() {
	for _, l := range d.links {
		l.Break()
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

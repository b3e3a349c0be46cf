// SPDX-License-Identifier: Apache-2.0

// Package door has a TCP proxy for the tests of stores that run in processes of
// their own: it can hold back what travels through it, and end it.
package door

import (
	"bytes"
	"net"
	"regexp"
	"sync"
	"testing"
)

// Door forwards connections to an address. It can hold back what travels
// through it: nothing is lost, and it arrives when the Door opens.
type Door struct {
	Addr string // of the Door itself

	mu    sync.Mutex
	moved *sync.Cond
	held  map[string]int // callers that are held back; "": all
	open  map[net.Conn]bool
}

// New returns a Door before some addresses, which get connections in turn,
// until the test ends.
func New(t testing.TB, to ...string) *Door {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{Addr: at.Addr().String(), held: map[string]int{}, open: map[net.Conn]bool{}}
	d.moved = sync.NewCond(&d.mu)
	t.Cleanup(func() {
		_ = at.Close()
		d.Break()
	})
	go func() {
		for next := 0; ; next++ {
			from, err := at.Accept()
			if err != nil {
				return
			}
			go d.serve(from, to[next%len(to)])
		}
	}()
	return d
}

// Hold holds back the connections of one caller, and those that it begins
// later; "" means all callers. A member of etcd calls itself by its ID in
// hexadecimal. The returned func ends that.
func (d *Door) Hold(caller string) (release func()) {
	d.mu.Lock()
	d.held[caller]++
	d.mu.Unlock()
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.held[caller]--
		d.mu.Unlock()
		d.moved.Broadcast()
	})
}

// Break ends all connections.
func (d *Door) Break() {
	d.mu.Lock()
	for c := range d.open {
		_ = c.Close()
	}
	d.mu.Unlock()
	d.moved.Broadcast()
}

// from finds the caller's name in the head of a member's first request.
var from = regexp.MustCompile(`(?i)\r\nX-Server-From: *([0-9a-f]+)\r\n`)

func (d *Door) serve(client net.Conn, to string) {
	first := make([]byte, 0, 64<<10)
	for {
		n, err := client.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		if err != nil {
			_ = client.Close()
			return
		}
		whole := bytes.Contains(first, []byte("\r\n\r\n")) || len(first) == cap(first)
		if whole || !bytes.HasPrefix(first, []byte("GET ")) && !bytes.HasPrefix(first, []byte("POST ")) {
			break
		}
	}
	caller := ""
	if m := from.FindSubmatch(first); m != nil {
		caller = string(m[1])
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	d.mu.Lock()
	d.open[client], d.open[server] = true, true
	d.mu.Unlock()
	go d.forward(server, client, caller, nil)
	d.forward(client, server, caller, first)
}

// forward writes first, and then what it reads.
func (d *Door) forward(from, to net.Conn, caller string, first []byte) {
	defer func() {
		_, _ = from.Close(), to.Close()
		d.mu.Lock()
		delete(d.open, from)
		d.mu.Unlock()
	}()
	if first == nil {
		first = make([]byte, 0, 64<<10)
	}
	buf, n := first[:cap(first)], len(first)
	for {
		d.mu.Lock()
		for n > 0 && d.holds(caller) && d.open[from] {
			d.moved.Wait()
		}
		d.mu.Unlock()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		var err error
		if n, err = from.Read(buf); err != nil && n == 0 {
			return
		}
	}
}

// holds is called with d.mu held.
func (d *Door) holds(caller string) bool { return d.held[""] > 0 || caller != "" && d.held[caller] > 0 }

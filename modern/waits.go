// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"bytes"
	"context"
	"strconv"
	"sync"
)

// waits are the places of this process in queues, by their tokens. A place that
// got its grant stays until that was released or lost: a second message about
// its gift must not be taken for one that nobody wants.
type waits struct {
	mu      sync.Mutex
	places  map[string]*place
	waiting int // places without a grant
	closed  bool
	giving  sync.WaitGroup // gifts on their way to the next waiter
}

// calls are what a place has heard.
type calls struct {
	key    string
	wake   func() // runs when the place is called; nil: none
	called bool   // the place was called since its last try
	number int64  // the key was given to the place, with this number; 0: it was not
	kept   bool   // the place has its grant
}

func (w *waits) add(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places[p.g.token] == nil {
		w.places[p.g.token] = p
		p.calls = calls{key: p.g.key}
		w.waiting++
	}
}

// drop forgets the place with this token. A key that is given to it goes to the
// next waiter from now on.
func (w *waits) drop(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.places[token]; p != nil {
		delete(w.places, token)
		if !p.kept {
			w.waiting--
		}
	}
}

// keep records that the place got its grant.
func (w *waits) keep(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places[p.g.token] == p && !p.kept {
		p.kept, p.wake = true, nil
		w.waiting--
	}
}

// given returns the number with which the key was given to p, 0 if it was not.
// It is called before a try, which answers all calls before it.
func (w *waits) given(p *place) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.called = false
	return p.number
}

// await sets the func that a call of p runs; nil: none. It reports whether p
// was called since its last try.
func (w *waits) await(p *place, wake func()) (called bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.wake = wake
	return p.called
}

// any reports whether a place waits.
func (w *waits) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0
}

// missed calls every place that waits: messages may have been lost.
func (w *waits) missed() { w.call(func(string) bool { return true }) }

// call calls the places that wait for the keys that which accepts.
func (w *waits) call(which func(key string) bool) {
	w.mu.Lock()
	var wake []func()
	for _, p := range w.places {
		if !p.kept && which(p.calls.key) {
			wake = append(wake, p.call(0))
		}
	}
	w.mu.Unlock()
	for _, f := range wake {
		f()
	}
}

// call records a call, and returns what wakes the waiter. Called with the mutex
// held.
func (p *place) call(number int64) (wake func()) {
	p.called = true
	if number > 0 {
		p.number = number
	}
	if p.wake == nil {
		return func() {}
	}
	return p.wake
}

// message is what a script told this process about a place: call in queue.lua.
type message struct {
	number     int64
	token, key string
}

// parse reads a message: the number, the length of the token, the token and the
// key. It returns false for what no script sends.
func parse(text []byte) (m message, ok bool) {
	number, rest, _ := bytes.Cut(text, []byte(" "))
	length, rest, _ := bytes.Cut(rest, []byte(" "))
	n, err := strconv.Atoi(string(length))
	if err != nil || n < 0 || n > len(rest) {
		return m, false
	}
	m.number, err = strconv.ParseInt(string(number), 10, 64)
	m.token, m.key = string(rest[:n]), string(rest[n:])
	return m, err == nil
}

// told takes a message from the channel of this process. A key that was given
// to a place which this process no longer has goes to the next waiter.
func (b *engine) told(text []byte) {
	m, ok := parse(text)
	if !ok {
		return
	}
	w := b.waits
	w.mu.Lock()
	p := w.places[m.token]
	switch {
	case p == nil && m.number > 0 && !w.closed:
		w.giving.Go(func() { _, _ = b.keeper().ForceRelease(context.Background(), m.key, m.token) })
		w.mu.Unlock()
	case p == nil || p.kept:
		w.mu.Unlock()
	default:
		wake := p.call(m.number)
		w.mu.Unlock()
		wake()
	}
}

// keeper is the cluster, where the server is a node of one: the slot of a key
// may have moved.
func (b *engine) keeper() contract {
	if b.cluster != nil {
		return b.cluster
	}
	return b
}

// close waits for the gifts that are on their way.
func (w *waits) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.giving.Wait()
}

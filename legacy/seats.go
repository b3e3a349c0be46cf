// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"crypto/rand"
	"sync"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// seats hands out the old client's own part of its value. In or-mine dialects
// that is the identity of one lock object, kept from poll to poll. The client
// takes a value with that identity for its own, which is how such clients grant
// twice. Two attempts on one key at the same time are two such objects, and so
// are an attempt and an unreleased grant. In all other dialects every attempt
// draws a new identity.
type seats struct {
	d dialect.Dialect

	mu    sync.Mutex
	ids   []string // identities by seat, the same for all keys
	taken map[string][]bool
}

func (s *seats) init(d dialect.Dialect) { s.d, s.taken = d, map[string][]bool{} }

// take returns a free identity for the key and the seat it belongs to.
func (s *seats) take(key string) (id string, seat int) {
	if !s.d.OrMine {
		return s.draw(), 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := s.taken[key]
	for seat < len(busy) && busy[seat] {
		seat++
	}
	if seat == len(busy) {
		busy = append(busy, false)
	}
	if seat == len(s.ids) {
		s.ids = append(s.ids, s.draw())
	}
	busy[seat] = true
	s.taken[key] = busy
	return s.ids[seat], seat
}

// leave frees a seat. A key without taken seats is forgotten.
func (s *seats) leave(key string, seat int) {
	if !s.d.OrMine {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := s.taken[key]
	if seat < len(busy) {
		busy[seat] = false
	}
	for _, b := range busy {
		if b {
			return
		}
	}
	delete(s.taken, key)
}

func (s *seats) draw() string {
	if s.d.HasStamp() && s.d.Shape == dialect.ShapeNumber || s.d.Shape == dialect.ShapeConstant {
		return ""
	}
	var b [16]byte
	rand.Read(b[:])
	return s.d.NewID(b)
}

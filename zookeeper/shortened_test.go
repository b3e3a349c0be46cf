// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// A server grants less time than the one before. The leader may end the session
// so long after the greeting, and a lease is trusted for the longer time after
// an earlier write. A renewal, which would shorten that, may get no answer.
func TestShortenedSessionEndsTrustThatOutlivesIt(t *testing.T) {
	const before, age = 30 * time.Second, 10 * time.Second
	for granted, over := range map[time.Duration]bool{
		before: false, before - age: false, before - age - time.Millisecond: true, 4 * time.Second: true,
	} {
		b, err := New([]string{"127.0.0.1:1"}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := &session{Session: sessions.New[*grant](context.Background()), b: b.engine, ttl: before, id: 1,
			timeout: before, net: &tap{address: "a"}, watches: map[string]*watch{}}
		g := s.newGrant("k")
		s.Hold(g, before)
		by := &tap{s: s, address: "a", sent: s.Read()}
		s.trust.mark.Elapsed = by.sent.Elapsed - age
		s.greeted(by, s.id, granted)
		if err := g.gone(); errors.Is(err, backend.ErrLost) != over || s.isOver() != over {
			t.Errorf("granted %v: over %t, %v", granted, s.isOver(), err)
		}
	}
}

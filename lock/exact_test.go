// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// ending is a backend whose key is held until an instant, which it names to the
// microsecond.
type ending struct {
	backend.Backend
	at    time.Time
	early []time.Duration // lead of each attempt before the end, except the first
	tries int
}

func (e *ending) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	e.tries++
	left := time.Until(e.at)
	if left <= 0 {
		return e.Backend.Try(ctx, key, ttl)
	}
	if e.tries > 1 {
		e.early = append(e.early, left)
	}
	return nil, &lock.HeldError{Key: key, Left: left.Truncate(time.Millisecond), Again: left}
}

// It holds in virtual time and in the machine's time.
func TestWaiterAsksWhenTheKeyEndsAndNotBefore(t *testing.T) {
	lives := []time.Duration{50 * time.Microsecond, time.Millisecond, 1500 * time.Microsecond,
		2 * time.Millisecond, 20*time.Millisecond + 300*time.Microsecond}
	wait := func(t *testing.T, s *locktest.Store, life time.Duration) (tries int, late time.Duration) {
		b := &ending{Backend: s.Backend().Contract(), at: time.Now().Add(life)}
		c := newClient(t, backend.Of(b), lock.Config{})
		l := acquire(t, c, "k")
		late = time.Since(b.at)
		if len(b.early) > 0 {
			t.Errorf("%v: asked too early by %v", life, b.early)
		}
		release(t, l)
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		return b.tries, late
	}
	bubble(t, func(t *testing.T, s *locktest.Store) {
		for _, life := range lives {
			if tries, late := wait(t, s, life); tries != 2 || late != 0 {
				t.Errorf("%v: %d attempts, late by %v", life, tries, late)
			}
		}
	})
	s := locktest.NewStore(lock.Machine)
	for _, life := range lives {
		wait(t, s, life)
	}
}

// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// stingy is a store that keeps keys for a second, whatever was asked for.
type stingy struct{ backend.Backend }

type stingyGrant struct{ backend.Grant }

func (b stingy) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return stingyGrant{g}, nil
}

func (g stingyGrant) Term() backend.Term {
	t := g.Grant.Term()
	t.TTL = time.Second
	return t
}

// The margin of such a TTL exceeds what is granted. No waiting mends that.
func TestAcquireSaysLowerTTLIfTheStoreGrantsLess(t *testing.T) {
	bubble(t, func(t *testing.T, s *locktest.Store) {
		c := client(t, backend.Of(stingy{s.Backend().Contract()}), lock.Config{TTL: time.Minute})
		_, err := c.Acquire(t.Context(), "k")
		const want = `lock: key "k": the store grants only 1s of Config.TTL (1m0s), which does not exceed Config.Margin (6s); lower Config.TTL`
		if err == nil || err.Error() != want {
			t.Errorf("Acquire: %v", err)
		}
		notErr(t, err, lock.ErrTooLate)
		synctest.Wait() // the undo
		if s.Calls("try") != 1 || s.Holder("k") != "" {
			t.Errorf("%d attempts, the key is left to %q", s.Calls("try"), s.Holder("k"))
		}
	})
}

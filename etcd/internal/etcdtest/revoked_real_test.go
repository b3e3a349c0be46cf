// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/lock"
)

// A key that another client deletes, or a lease that it revokes, ends a lock
// before its holder can know: see TestRevokedLeaseIsToldAtOnce. The fencing
// numbers must still grow, the clients must go on, and nothing must be left.
func TestClientsOutliveRevokedLeases(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	h := newContest()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var clients []*lock.Client
	var wg sync.WaitGroup
	for i := range 3 {
		l, err := lock.New(c.backend(), lock.Config{TTL: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, l)
		rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
		wg.Go(func() { h.contend(ctx, l, i, rng) })
	}
	for range 5 {
		for _, harm := range c.rude(t, c.Client()) {
			harm.do()
			h.GoesOn(t, harm.name)
		}
	}
	cancel()
	wg.Wait()
	for _, l := range clients {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	c.emptied(t, "stock/")
	fences := map[int64]bool{}
	for _, s := range h.All() {
		if s.Kind == history.Acquired {
			if fences[s.Fence] {
				t.Errorf("two leases have the fence %d", s.Fence)
			}
			fences[s.Fence] = true
		}
	}
}

//go:build real

package zookeeper_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/getsetlock/getsetlock/lock"
)

// history is what all contenders for one lock did.
type history struct {
	began time.Time

	mu     sync.Mutex
	steps  []step
	failed int // attempts that got no lease
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) note(s step) {
	h.mu.Lock()
	h.steps = append(h.steps, s)
	h.mu.Unlock()
}

// counts returns the numbers of leases, and of attempts that got none.
func (h *history) counts() (leases, failed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.steps {
		if s.kind == "acquired" {
			leases++
		}
	}
	return leases, h.failed
}

// attempt waits for the lock for at most wait, looks whether the lease is
// trusted, at most looks times, and releases it.
func (h *history) attempt(ctx context.Context, c *lock.Client, id int, wait time.Duration, looks int,
	rng *rand.Rand) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	from := h.now()
	l, err := c.Acquire(waiting, "k")
	cancel()
	if err != nil {
		h.mu.Lock()
		h.failed++
		h.mu.Unlock()
		return
	}
	fence, _ := l.Fence()
	h.note(step{id, "acquired", from, h.now(), fence})
	last := h.now()
	for range looks {
		<-time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
		at := h.now()
		if l.Err() != nil {
			break
		}
		last = at
		h.note(step{id, "trusted", at, at, 0})
	}
	_ = l.Release()
	// The lease may have ended at any moment since it was last trusted.
	h.note(step{id, "ended", last, h.now(), 0})
}

// explained fails the test if no lock behaves as the history says.
func (h *history) explained(t *testing.T) {
	t.Helper()
	var ops []porcupine.Operation
	for _, s := range h.steps {
		ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
	}
	if result := porcupine.CheckOperationsTimeout(lockModel, ops, time.Minute); result != porcupine.Ok {
		slices.SortFunc(h.steps, func(a, b step) int { return cmp.Compare(a.from, b.from) })
		for _, s := range h.steps {
			t.Logf("%+v", s)
		}
		t.Errorf("no lock explains the history: %s", result)
	}
}

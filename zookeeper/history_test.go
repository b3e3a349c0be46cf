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

// step is what one contender did or believed, between two readings of the
// clock, in ns.
type step struct {
	client   int
	kind     string // "acquired", "trusted" or "ended"
	from, to int64
	fence    int64
}

// lockState is who holds the lock, and the last fencing number.
type lockState struct {
	holder int
	fence  int64
}

const nobody = -1

// lockModel states that leases exclude each other and that their fencing
// numbers grow.
var lockModel = porcupine.Model{
	Init: func() any { return lockState{holder: nobody} },
	Step: func(state, input, _ any) (bool, any) {
		s, do := state.(lockState), input.(step)
		switch do.kind {
		case "acquired":
			return s.holder == nobody && do.fence > s.fence, lockState{do.client, do.fence}
		case "trusted":
			return s.holder == do.client, s
		}
		return s.holder == do.client, lockState{nobody, s.fence}
	},
}

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

func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	for name, steps := range map[string][]step{
		"two holders": {{0, "acquired", 0, 10, 1}, {1, "acquired", 20, 30, 2}, {0, "trusted", 40, 40, 0}},
		"same number": {{0, "acquired", 0, 10, 1}, {0, "ended", 20, 30, 0}, {1, "acquired", 40, 50, 1}},
	} {
		var ops []porcupine.Operation
		for _, s := range steps {
			ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
		}
		if porcupine.CheckOperations(lockModel, ops) {
			t.Errorf("%s: explained", name)
		}
	}
}

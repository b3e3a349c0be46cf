// SPDX-License-Identifier: Apache-2.0

// Package history lets clients contend for a key under faults, records what
// each believed and when, and checks by porcupine that a lock explains it.
package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Step is one event that a contender caused or saw, between two readings of the
// machine's clock, which all processes of the test share.
type Step struct {
	Client   int
	Kind     Kind
	From, To int64
	Fence    int64 // fencing number of the lease; unknown when it ended
}

// Kind says what happened in a Step.
type Kind string

// Kinds of steps.
const (
	Acquired Kind = "acquired"
	Trusted  Kind = "trusted" // the holder looked, and the lease was not lost
	Ended    Kind = "ended"   // the holder released the lease, or saw that it was lost
)

// state is the state that must explain one key's history: the holder, and the
// last fencing number.
type state struct {
	holder int
	fence  int64
}

const nobody = -1

// Lock is the model that states that leases on a key exclude each other and
// that their fencing numbers increase. Each step took effect at some instant
// between its two clock readings.
var Lock = porcupine.Model{
	Init: func() any { return state{holder: nobody} },
	Step: func(before, input, _ any) (bool, any) {
		s, do := before.(state), input.(Step)
		switch do.Kind {
		case Acquired:
			numbered := do.Fence > s.fence || do.Fence == 0 // 0 in forms without numbers
			return s.holder == nobody && numbered, state{do.Client, max(s.fence, do.Fence)}
		case Trusted:
			return s.holder == do.Client, s
		}
		return s.holder == do.Client, state{nobody, s.fence}
	},
	DescribeOperation: func(input, _ any) string {
		s := input.(Step)
		return fmt.Sprintf("%s by %d (fence %d)", s.Kind, s.Client, s.Fence)
	},
}

// Steps are the steps of all contenders. Its methods may be called from any
// goroutine.
type Steps struct {
	mu  sync.Mutex
	all []Step
}

// Note adds a step.
func (h *Steps) Note(s Step) {
	h.mu.Lock()
	h.all = append(h.all, s)
	h.mu.Unlock()
}

// Count returns how many steps of that kind there are.
func (h *Steps) Count(kind Kind) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.all {
		if s.Kind == kind {
			n++
		}
	}
	return n
}

// All returns the steps so far, in the order in which they were added.
func (h *Steps) All() []Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// patience is how long the slowest store may need until it goes on after a
// fault.
const patience = 5 * time.Minute

// GoesOn waits until two more leases were acquired after a fault.
func (h *Steps) GoesOn(t *testing.T, fault string) {
	t.Helper()
	deadline := time.After(patience)
	for before := h.Count(Acquired); h.Count(Acquired) < before+2; {
		select {
		case <-deadline:
			t.Fatalf("after %q no contender got the lock", fault)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Check fails the test if the model does not explain the steps. No step may be
// added meanwhile.
func (h *Steps) Check(t *testing.T, model porcupine.Model) {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(model, Operations(h.all), patience)
	if result == porcupine.Ok {
		return
	}
	slices.SortFunc(h.all, func(a, b Step) int { return cmp.Compare(a.From, b.From) })
	for _, s := range h.all {
		t.Logf("%d–%d µs: client %d %s, fence %d", (s.From-h.all[0].From)/1000, (s.To-h.all[0].From)/1000,
			s.Client, s.Kind, s.Fence)
	}
	t.Errorf("the history cannot be explained by a lock: %s", result)
}

// Operations returns the steps as porcupine takes them.
func Operations(steps []Step) (ops []porcupine.Operation) {
	for _, s := range steps {
		ops = append(ops, porcupine.Operation{ClientId: s.Client % 100, Input: s, Call: s.From, Return: s.To})
	}
	return ops
}

// Seed returns a seed that is drawn anew for each run, or taken from $SEED to
// draw the same faults and pauses again.
func Seed(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv("SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := rand.Uint64()
	t.Logf("SEED=%d", n)
	return n
}

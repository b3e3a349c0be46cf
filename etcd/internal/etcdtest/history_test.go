package etcdtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

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

type history struct {
	began time.Time

	mu    sync.Mutex
	steps []step
	gone  map[int64]int64 // by fence: when a watch told that the key was deleted
	holds int             // contender that acquired last and did not end; or nobody

	ends map[int64]string // by fence: how its holder's lease ended, for a failed check

	paused bool // contenders neither ask for the lock nor hold it on
	active int  // contenders that ask for the lock or hold it

	keeps func(client int) bool // whether this holder is to hold on
}

func newHistory() *history {
	return &history{began: time.Now(), gone: map[int64]int64{}, ends: map[int64]string{}, holds: nobody,
		keeps: none}
}

func none(int) bool   { return false }
func anyone(int) bool { return true }

// keep lets some holders hold on, until their leases are lost or keep is called
// again.
func (h *history) keep(who func(client int) bool) {
	h.mu.Lock()
	h.keeps = who
	h.mu.Unlock()
}

// kept reports whether the lock has a holder that is to hold on.
func (h *history) kept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds != nobody && h.keeps(h.holds)
}

func (h *history) holdsOn(client int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keeps(client) && !h.paused
}

// begins reports whether a contender may ask for the lock, and counts it.
func (h *history) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.paused {
		h.active++
	}
	return !h.paused
}

func (h *history) ended() {
	h.mu.Lock()
	h.active--
	h.mu.Unlock()
}

var errPaused = errors.New("all contenders pause")

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) note(s step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps = append(h.steps, s)
	switch s.kind {
	case "acquired":
		h.holds = s.client
	case "ended":
		if h.holds == s.client {
			h.holds = nobody
		}
	}
}

func (h *history) count(kind string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.steps {
		if s.kind == kind {
			n++
		}
	}
	return n
}

// goesOn waits until the lock was acquired twice more.
func (h *history) goesOn(t *testing.T, after string) {
	t.Helper()
	until := time.After(Patience)
	for before := h.count("acquired"); h.count("acquired") < before+2; {
		select {
		case <-until:
			t.Fatalf("after %q no contender got the lock", after)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (h *history) check(t *testing.T) {
	t.Helper()
	var ops []porcupine.Operation
	for _, s := range h.steps {
		ops = append(ops, porcupine.Operation{ClientId: s.client, Input: s, Call: s.from, Return: s.to})
	}
	if result := porcupine.CheckOperationsTimeout(lockModel, ops, Patience); result != porcupine.Ok {
		slices.SortFunc(h.steps, func(a, b step) int { return cmp.Compare(a.from, b.from) })
		for _, s := range h.steps {
			t.Logf("%+v", s)
		}
		t.Errorf("no lock explains the history: %s", result)
	}
	told, late := 0, map[int64]bool{}
	for _, s := range h.steps {
		at, gone := h.gone[s.fence]
		switch {
		case s.kind == "trusted" && gone && s.from > at && !late[s.fence]:
			late[s.fence] = true
			t.Errorf("client %d believed in fence %d at %v; etcd told at %v that its key was gone. %s", s.client,
				s.fence, time.Duration(s.from), time.Duration(at), h.ends[s.fence])
		case s.kind == "trusted" && gone:
			told++
		}
	}
	if told == 0 {
		t.Error("no key that was looked at was seen to go")
	}
}

// watch notes when keys go, until ctx ends. What it misses weakens the check
// only.
func (h *history) watch(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		for got := range client.Watch(one, "stock/", clientv3.WithPrefix(), clientv3.WithPrevKV()) {
			at := h.now()
			h.mu.Lock()
			for _, event := range got.Events {
				if event.Type == clientv3.EventTypeDelete && event.PrevKv != nil {
					h.gone[event.PrevKv.CreateRevision] = at
				}
			}
			h.mu.Unlock()
		}
		cancel()
		<-time.After(10 * time.Millisecond)
	}
}

// contend acquires the lock, looks whether the lease is trusted, and releases
// it, until ctx ends. Some of its waits are cancelled at random.
func (h *history) contend(ctx context.Context, c *lock.Client, id int, rng *rand.Rand) {
	for ctx.Err() == nil {
		if err := h.once(ctx, c, id, rng, rng.IntN(2000)); err != nil &&
			!errors.Is(err, context.DeadlineExceeded) {
			<-time.After(time.Millisecond)
		}
	}
}

// once waits for the lock for at most wait ms.
func (h *history) once(ctx context.Context, c *lock.Client, id int, rng *rand.Rand, wait int) error {
	if !h.begins() {
		return errPaused
	}
	defer h.ended()
	limited, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Millisecond)
	defer cancel()
	from := h.now()
	l, err := c.Acquire(limited, "stock")
	if err != nil {
		return err
	}
	fence, _ := l.Fence()
	h.note(step{id, "acquired", from, h.now(), fence})
	last := h.now()
	for i := rng.IntN(20); i > 0 || h.holdsOn(id); i-- {
		<-time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
		from := h.now()
		if l.Err() != nil {
			break
		}
		last = from
		h.note(step{id, "trusted", from, from, fence})
	}
	before, until := l.Err(), time.Until(l.Until())
	sent := h.now()
	err = l.Release()
	h.mu.Lock()
	h.ends[fence] = fmt.Sprintf("Release at %v returned %v; before that, Err was %v, and trust lasted for another %v",
		time.Duration(sent), err, before, until)
	h.mu.Unlock()
	// The lease may have ended at any moment since it was last trusted.
	h.note(step{id, "ended", last, h.now(), 0})
	return nil
}

// emptied waits until no key is left below a prefix.
func (c *Cluster) emptied(t *testing.T, prefix string) {
	t.Helper()
	until := time.After(Patience)
	for {
		left := c.Keys(prefix)
		if len(left) == 0 {
			return
		}
		select {
		case <-until:
			t.Errorf("left: %q", left)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestModelRefusesHistoriesThatNoLockHas shows that the check can fail.
func TestModelRefusesHistoriesThatNoLockHas(t *testing.T) {
	for name, steps := range map[string][]step{
		"two holders": {{0, "acquired", 0, 10, 1}, {1, "acquired", 20, 30, 2}, {0, "trusted", 40, 50, 0}},
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

// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/lock"
)

// contest is what all contenders for one lock did.
type contest struct {
	history.Steps

	mu    sync.Mutex
	gone  map[int64]int64 // by fence: when a watch told that the key was deleted
	holds int             // contender that acquired last and did not end; or nobody

	paused bool // contenders neither ask for the lock nor hold it on
	active int  // contenders that ask for the lock or hold it

	keeps func(client int) bool // whether this holder is to hold on
}

const nobody = -1

func newContest() *contest {
	return &contest{gone: map[int64]int64{}, holds: nobody, keeps: none}
}

func none(int) bool   { return false }
func anyone(int) bool { return true }

// keep lets some holders hold on, until their leases are lost or keep is called
// again.
func (h *contest) keep(who func(client int) bool) {
	h.mu.Lock()
	h.keeps = who
	h.mu.Unlock()
}

// kept reports whether the lock has a holder that is to hold on.
func (h *contest) kept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.holds != nobody && h.keeps(h.holds)
}

func (h *contest) holdsOn(client int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keeps(client) && !h.paused
}

// begins reports whether a contender may ask for the lock, and counts it.
func (h *contest) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.paused {
		h.active++
	}
	return !h.paused
}

func (h *contest) ended() {
	h.mu.Lock()
	h.active--
	h.mu.Unlock()
}

var errPaused = errors.New("all contenders pause")

func (h *contest) note(s history.Step) {
	h.Note(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s.Kind {
	case history.Acquired:
		h.holds = s.Client
	case history.Ended:
		if h.holds == s.Client {
			h.holds = nobody
		}
	}
}

func (h *contest) check(t *testing.T) {
	t.Helper()
	h.Check(t, history.Lock)
	told, late := 0, map[int64]bool{}
	for _, s := range h.All() {
		at, gone := h.gone[s.Fence]
		switch {
		case s.Kind == history.Trusted && gone && s.From > at && !late[s.Fence]:
			late[s.Fence] = true
			t.Errorf("client %d believed in fence %d %v after etcd told that its key was gone", s.Client, s.Fence,
				time.Duration(s.From-at))
		case s.Kind == history.Trusted && gone:
			told++
		}
	}
	if told == 0 {
		t.Error("no key that was looked at was seen to go")
	}
}

// watch notes when keys go, until ctx ends. What it misses weakens the check
// only.
func (h *contest) watch(ctx context.Context, client *clientv3.Client) {
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		for got := range client.Watch(one, "stock/", clientv3.WithPrefix(), clientv3.WithPrevKV()) {
			at := history.Now()
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
func (h *contest) contend(ctx context.Context, c *lock.Client, id int, rng *rand.Rand) {
	for ctx.Err() == nil {
		if err := h.once(ctx, c, id, rng, rng.IntN(2000)); err != nil &&
			!errors.Is(err, context.DeadlineExceeded) {
			<-time.After(time.Millisecond)
		}
	}
}

// once waits for the lock for at most wait ms.
func (h *contest) once(ctx context.Context, c *lock.Client, id int, rng *rand.Rand, wait int) error {
	if !h.begins() {
		return errPaused
	}
	defer h.ended()
	looks := rng.IntN(20)
	one := history.Contender{Client: c, ID: id, Note: h.note}
	return one.Attempt(ctx, "stock", time.Duration(wait)*time.Millisecond, func(look int) <-chan time.Time {
		if look >= looks && !h.holdsOn(id) {
			return nil
		}
		return time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
	})
}

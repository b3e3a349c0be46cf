// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// row is one row of CLUSTER SLOTS.
func row(first, last int64, host any, port int64) []any {
	id := []byte("id")
	return []any{first, last, []any{host, port, id}, []any{[]byte("replica"), int64(1), id}}
}

func TestSpansReadEveryFormOfAddress(t *testing.T) {
	reply := []any{row(0, 1, []byte("10.0.0.1"), 6379), row(2, 3, nil, 6380), row(4, 5, []byte(""), 6381),
		row(6, 7, []byte("node.internal"), 6379), row(8, 9, []byte("fd00::1"), 6379),
		row(10, 16383, []byte("?"), 1)}
	all, err := spans("asked:7000", reply, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, s.addr)
	}
	want := []string{"10.0.0.1:6379", "asked:6380", "asked:6381", "node.internal:6379", "[fd00::1]:6379",
		"asked:1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for addr, want := range map[string]string{"10.0.0.1:1": "10.0.0.1:1", ":2": "asked:2",
		"fd00::1:3": "[fd00::1]:3", "?:4": "asked:4"} {
		if got := Join("asked:7000", addr); got != want {
			t.Errorf("a redirection to %q leads to %q", addr, got)
		}
	}
}

func TestOddRepliesAreRefused(t *testing.T) {
	for _, reply := range []any{[]any{"x"}, []any{[]any{int64(0), int64(1)}}, []any{row(5, 4, nil, 1)},
		[]any{row(0, names.Slots, nil, 1)}, []any{[]any{int64(0), int64(1), []any{}}}, []byte("text")} {
		if all, err := spans("asked:1", reply, nil); err == nil {
			t.Errorf("%v is read as %v", reply, all)
		}
	}
}

// world is a cluster whose nodes all answer alike.
type world struct {
	mu    sync.Mutex
	slots []any
	err   error
	asked atomic.Int64
	moved []string // primaries that the slot of k left
}

func (w *world) set(slots ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots = slots
}

func (w *world) table(t *testing.T, seeds ...string) *Table {
	table := New(seeds, func(context.Context, string) (any, error) {
		w.asked.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.slots, w.err
	}, func(from string, in func(string) bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if in("k") {
			w.moved = append(w.moved, from)
		}
		if in("other") {
			t.Errorf("a key that stayed left %s", from)
		}
	})
	t.Cleanup(table.Close)
	return table
}

func TestRedirectionMovesOneSlot(t *testing.T) {
	w := &world{}
	w.set(row(0, 16383, []byte("a"), 1))
	table := w.table(t, "seed:1")
	slot := names.Slot("k")
	want := func(key, addr string) {
		t.Helper()
		if got, err := table.Owner(t.Context(), names.Slot(key)); err != nil || got != addr {
			t.Errorf("%s is at %s, %v", key, got, err)
		}
	}
	want("k", "a:1")
	table.Redirected("a:1", wire.Redirect{Slot: slot, Addr: "b:1", Ask: true})
	want("k", "a:1") // it is still there
	n := int64(slot)
	w.set(row(0, n-1, []byte("a"), 1), row(n, n, []byte("b"), 1), row(n+1, 16383, []byte("a"), 1))
	table.Redirected("a:1", wire.Redirect{Slot: slot, Addr: "b:1"})
	want("k", "b:1")
	want("other", "a:1")
	if err := table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("k", "b:1")
	w.set(row(0, 16383, []byte("a"), 1))
	if err := table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want("k", "a:1")
	table.Close()
	if !slices.Equal(w.moved, []string{"a:1", "b:1"}) {
		t.Errorf("told that the slot left %q", w.moved)
	}
}

// All who ask while a refresh is under way share the next one.
func TestRefreshesAreShared(t *testing.T) {
	w := &world{}
	w.set(row(0, 16383, []byte("a"), 1))
	table := w.table(t, "a:1")
	var asking sync.WaitGroup
	for range 1000 {
		asking.Go(func() {
			if err := table.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if n := w.asked.Load(); n > 100 {
		t.Errorf("asked %d times for 1000 refreshes", n)
	}
}

// A slot without an owner is trouble that passes. A password that is refused is
// not.
func TestMissingOwnerPasses(t *testing.T) {
	w := &world{}
	w.set(row(0, 1, []byte("a"), 1))
	passes := func() bool {
		_, err := w.table(t, "a:1").Owner(t.Context(), 2)
		var judged interface{ Passing() bool }
		if !errors.As(err, &judged) {
			t.Fatalf("error %v", err)
		}
		return judged.Passing()
	}
	if !passes() {
		t.Error("a slot without an owner")
	}
	w.err = wire.Judged(redis.Error("WRONGPASS invalid username-password pair"))
	if passes() {
		t.Error("a wrong password")
	}
}

func TestClosedTableAnswers(t *testing.T) {
	w := &world{}
	w.set(row(0, 16383, []byte("a"), 1))
	table := w.table(t, "a:1")
	table.Close()
	if _, err := table.Owner(context.Background(), 1); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

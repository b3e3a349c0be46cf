// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

const ttl = 10 * time.Second

// bubble runs f in virtual time, on an embedded server that must have no key
// left at the end.
func bubble(t *testing.T, f func(t *testing.T, w *redistest.World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		f(t, w)
		w.Pass(0)
		for _, key := range w.Mini.Keys() {
			if !strings.HasPrefix(key, "gsl:fence:") {
				t.Errorf("key %q was left", key)
			}
		}
	})
}

func try(t *testing.T, b *modern.Backend, key string) backend.Grant {
	t.Helper()
	g, err := b.Contract().Try(bg, key, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func free(t *testing.T, g backend.Grant) {
	t.Helper()
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

func extend(t *testing.T, g backend.Grant) {
	t.Helper()
	if _, err := g.Extend(bg, ttl); err != nil {
		t.Fatal(err)
	}
}

// enter makes a place, which has not tried yet.
func enter(t *testing.T, b *modern.Backend, key string) backend.Place {
	t.Helper()
	p, err := b.Contract().(backend.Queuer).Enter(bg, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stand takes a place in the queue of a held key.
func stand(t *testing.T, b *modern.Backend, key string) backend.Place {
	t.Helper()
	p := enter(t, b, key)
	held(t, p)
	return p
}

func held(t *testing.T, p backend.Place) {
	t.Helper()
	if _, err := p.Try(bg, ttl); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("%v; it should wrap ErrHeld", err)
	}
}

// granted tries from a place and gives the key back.
func granted(t *testing.T, p backend.Place) {
	t.Helper()
	g, err := p.Try(bg, ttl)
	if err != nil {
		t.Fatal(err)
	}
	free(t, g)
}

// That holds for a single attempt without a place too.
func TestKeyIsFreeAtOnceIfAllItsWaitersAreDead(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true})
		dead := open(t, w, modern.Config{Fair: true})
		try(t, b, "k")
		p := stand(t, dead, "k")
		w.Mini.Del("k")
		if _, err := b.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("while a waiter lives: %v", err)
		}
		got(t, p)
		stand(t, dead, "k")
		dead.Close()
		synctest.Wait() // the server sees the connections end
		w.Mini.Del("k")
		free(t, try(t, b, "k"))
	})
}

func TestQueueForgetsAGoneWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		holder := try(t, b, "k")
		stays := stand(t, b, "k")
		for range 8 {
			held(t, stand(t, b, "k")) // tried twice, like a waiter that waits longer
			w.Pass(4 * time.Second)
			extend(t, holder)
			held(t, stays)
		}
		alive, err := w.Mini.ZMembers("gsl:alive::{k}")
		if err != nil || len(alive) > 5 {
			t.Errorf("%d places count as alive instead of one: %v", len(alive), err)
		}
		free(t, holder)
		if err := stays.Leave(bg); err != nil {
			t.Error(err)
		}
		w.Pass(20 * time.Second) // the queue's keys end by themselves
	})
}

func TestCallBetweenTryAndAwaitIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		free(t, holder)
		synctest.Wait()
		woken := false
		if _, _, err := p.Await(bg, func() { woken = true }); err != nil || !woken {
			t.Errorf("woken %v, error %v", woken, err)
		}
		granted(t, p)
	})
}

func TestReleaseCallsTheFirstIfTheServerReportsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		holders, waiters := open(t, w, modern.Config{}), open(t, w, modern.Config{})
		for _, b := range []*modern.Backend{holders, waiters} { // both find out what the server reports
			if _, _, err := b.Contract().(backend.Waker).Await(bg, "other", func() {}); !errors.Is(err,
				backend.ErrNoWake) {
				t.Fatal(err)
			}
		}
		holder := try(t, holders, "k")
		p := stand(t, waiters, "k")
		woken := make(chan struct{}, 9)
		if _, free, err := p.Await(bg, func() { woken <- struct{}{} }); err != nil || free {
			t.Fatal(free, err)
		}
		var refusal *lock.HeldError
		if _, err := p.Try(bg, ttl); !errors.As(err, &refusal) || refusal.Again != 100*time.Millisecond {
			t.Errorf("the first waiter got %+v: it must poll, to find releases by other libraries", refusal)
		}
		free(t, holder)
		<-woken
		granted(t, p)
	})
}

const ofTheOldKind = "a timestamp without a TTL: an old client's lock; package legacy shares it with old clients, and getsetlock migrate"

func TestRefusalDescribesTheKeysValue(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		for _, cfg := range []modern.Config{{}, {Fence: true}, {Fair: true}} {
			b := open(t, w, cfg)
			for say, put := range map[string]func(){
				"a list, not a lock":          func() { w.Mini.Push("k", "x") },
				"a hash: probably a Redisson": func() { w.Mini.HSet("k", "a", "b") },
				ofTheOldKind:                  func() { w.Mini.Set("k", "1773482400001") },
				// Machinery and Gorlock keep their stamps under a TTL.
				"(a timestamp: an old client's lock; package legacy shares it with old clients, and getsetlock migrate": func() {
					w.Mini.Set("k", strconv.FormatInt(w.ServerNow().Add(time.Minute).UnixNano(), 10))
					w.Mini.SetTTL("k", 5*time.Second)
				},
				// SetPexpire's tokens are numbers too, mostly of no time that
				// is near.
				`by "4773482400001773482", its lease runs until 00:00:05Z (in 5s) and may be renewed`: func() {
					w.Mini.Set("k", "4773482400001773482")
					w.Mini.SetTTL("k", 5*time.Second)
				},
				"a value without a TTL": func() { w.Mini.Set("k", "anything") },
				"a value of 5000 bytes": func() { w.Mini.Set("k", string(make([]byte, 5000))) },
				`by "their token", its lease runs until 00:00:05Z (in 5s) and may be renewed`: func() {
					w.Mini.Set("k", "their token")
					w.Mini.SetTTL("k", 5*time.Second)
				},
			} {
				w.Mini.Del("k")
				put()
				_, err := b.Contract().Try(bg, "k", ttl)
				names(t, err, say)
				p := enter(t, b, "k")
				_, err = p.Try(bg, ttl)
				names(t, err, say)
				if err := p.Leave(bg); err != nil {
					t.Error(err)
				}
				if !w.Mini.Exists("k") {
					t.Error("the foreign value is gone")
				}
			}
			w.Mini.Del("k")
		}
	})
}

// called arms a waiter that is not the first. The func reports whether it was
// called since.
func called(t *testing.T, p backend.Place) func() bool {
	t.Helper()
	var n atomic.Int32
	if _, free, err := p.Await(bg, func() { n.Add(1) }); err != nil || free {
		t.Fatal(free, err)
	}
	return func() bool {
		synctest.Wait()
		return n.Load() > 0
	}
}

func TestWaiterThatTakesTheKeyCallsTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		holder := try(t, b, "k")
		first, second := stand(t, b, "k"), stand(t, b, "k")
		isCalled := called(t, second)
		w.Mini.Del("k") // as another library's client releases it
		if isCalled() {
			t.Error("the second waiter was called together with the first")
		}
		g := got(t, first)
		if !isCalled() {
			t.Error("no waiter watches the key: the second was not called")
		}
		free(t, g)
		granted(t, second)
		_ = holder.Release(bg)
	})
}

func TestFairQueueIsNotOvertakenWhenTheKeyExpires(t *testing.T) {
	for name, newcomer := range map[string]bool{"by a newcomer": true, "by the second": false} {
		t.Run(name, func(t *testing.T) { expires(t, newcomer) })
	}
}

// expires lets a key with two waiters expire. Then another client tries first.
func expires(t *testing.T, newcomer bool) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true})
		try(t, b, "k") // and its process dies
		first, second := stand(t, b, "k"), stand(t, b, "k")
		for range 9 {
			w.Pass(time.Second)
			held(t, first)
			held(t, second)
		}
		w.Pass(time.Second)
		if newcomer {
			if _, err := b.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("a later client got %v", err)
			}
		}
		held(t, second)
		granted(t, first)
		granted(t, second)
	})
}

// The server has no subscriber for the dead process. So the key goes to the
// next waiter at once, however many processes have died.
func TestReleaseSkipsADeadProcess(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b := open(t, w, cfg)
		holder := try(t, b, "k")
		first := got(t, waiting(t, b, holder))
		for range 2 {
			dead := open(t, w, cfg)
			stand(t, dead, "k")
			dead.Close()
		}
		synctest.Wait() // the server sees the connections end
		p := stand(t, b, "k")
		free(t, first)
		granted(t, p)
	})
}

// waiting returns a place that is called when holder gives its key back.
func waiting(t *testing.T, b *modern.Backend, holder backend.Grant) backend.Place {
	t.Helper()
	p := stand(t, b, "k")
	free(t, holder)
	return p
}

// A foreign member of the sorted set is no place and delays no waiter.
func TestQueueSkipsForeignMembers(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b := open(t, w, cfg)
		spoil := func() {
			for i := range 40 {
				w.Mini.ZAdd("gsl:queue::{k}", float64(i), fmt.Sprint("garbage-", i))
			}
			w.Mini.ZAdd("gsl:queue::{k}", 41, "")
		}
		holder := try(t, b, "k")
		spoil()
		first := got(t, waiting(t, b, holder))
		p := stand(t, b, "k")
		spoil()
		free(t, first)
		spoil()
		granted(t, p)
		w.Pass(21 * time.Second)
		w.Mini.Del("gsl:queue::{k}") // the scripts no longer know this key
	})
}

// The fair form cannot work without the queue; waiters of the other forms poll.
func TestErrorNamesAQueueOfAnotherType(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b := open(t, w, cfg)
		holder := try(t, b, "k")
		_ = w.Mini.Set("gsl:queue::{k}", "garbage")
		p := enter(t, b, "k")
		_, err := p.Try(bg, ttl)
		if cfg.Fair {
			if err == nil ||
				!strings.Contains(err.Error(), `"gsl:queue::{k}" or "gsl:alive::{k}" is no sorted set`) {
				t.Error(err)
			}
		} else if !errors.Is(err, lock.ErrHeld) {
			t.Error(err)
		}
		free(t, holder)
		if !cfg.Fair {
			granted(t, p)
		}
		w.Mini.Del("gsl:queue::{k}")
	})
}

// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func client(t *testing.T, b backend.Store, cfg lock.Config) *lock.Client {
	t.Helper()
	c, err := lock.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(bg, redistest.Patience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func acquire(t *testing.T, c *lock.Client, key string) *lock.Lease {
	t.Helper()
	l, err := c.Acquire(bg, key)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLeaseEndsOnTimeIfTheServerIsSilent(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b, wire := on(t, w, cfg)
		var warned atomic.Pointer[time.Time]
		c := client(t, b, lock.Config{TTL: ttl, Hooks: lock.Hooks{Endangered: func(lock.Event) {
			now := time.Now()
			warned.Store(&now)
		}}})
		l := acquire(t, c, "k")
		time.Sleep(25 * time.Second) // some renewals
		wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence},
			redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Silence})
		<-l.Done()
		if end := l.Until(); time.Now().After(end) {
			t.Errorf("ended %v too late", time.Since(end))
		}
		if !errors.Is(l.Err(), lock.ErrLost) {
			t.Error(l.Err())
		}
		if at := warned.Load(); at == nil || !at.Before(l.Until()) {
			t.Errorf("warned at %v, lost at %v", at, l.Until())
		}
		wire.Calm()
		_ = l.Release()
	})
}

func TestFullOrClosedPoolEndsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		pool := &redis.Pool{MaxActive: 1, Wait: true, Dial: w.Pool().Dial, DialContext: w.Pool().DialContext}
		b := openOn(t, pool, modern.Config{})
		c := client(t, b, lock.Config{TTL: ttl})
		taken := pool.Get() // by other traffic of the program
		if err := taken.Err(); err != nil {
			t.Fatal(err)
		}
		l := acquire(t, c, "k")
		time.Sleep(3 * ttl)
		taken.Close()
		pool.Close()
		time.Sleep(3 * ttl)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestSlowRenewalDoesNotStretchTrust(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Timeout: 5 * time.Second})
		var mu sync.Mutex
		var until []time.Time
		c := client(t, b, lock.Config{TTL: ttl, Hooks: lock.Hooks{Renewed: func(e lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			until = append(until, e.Until)
		}}})
		l := acquire(t, c, "k")
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.HoldReply(gate)},
			redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
		<-gate.Reached()
		sent := time.Now()
		time.Sleep(3 * time.Second)
		gate.Open()
		synctest.Wait()
		mu.Lock()
		if len(until) == 0 || until[0].After(sent.Add(ttl-ttl/10)) {
			t.Errorf("sent %v, answered 3 s later, trusted until %v", sent, until)
		}
		mu.Unlock()
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}

// A renewal is lost with its connection, which stays open and brings nothing.
func TestSilentConnectionEndsNoShortLease(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, time.Second, 1500 * time.Millisecond, ttl} {
		for when, c := range map[string]struct{ before, timeout time.Duration }{
			"first": {0, 0}, "later": {3 * ttl, 0}, "of a patient client": {3 * ttl, time.Minute},
		} {
			t.Run(ttl.String()+" "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, modern.Config{Timeout: c.timeout})
					l := acquire(t, client(t, b, lock.Config{TTL: ttl}), "k")
					time.Sleep(c.before)
					renews := func(c redistest.Command) bool { return c.Is("EVALSHA") || c.Is("EVAL") }
					wire.Fault(redistest.Rule{When: renews, Do: redistest.Silence})
					time.Sleep(2 * ttl)
					if err := l.Err(); err != nil {
						t.Error(err)
					}
					if err := l.Release(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

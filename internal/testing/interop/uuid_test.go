// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

const deadUUID = theirs + ":1500000000000"

// javaUUID returns a client of the later rules that stops before each of its
// commands.
func javaUUID(t *testing.T, ctx context.Context, s *redistest.Server, wait time.Duration) *Client {
	t.Helper()
	c := SharedClient(t, s.Addr())
	check(t, c.Lock(ctx, UUID, key, wait, time.Minute))
	check(t, c.Step(ctx, true))
	return c
}

func pass(t *testing.T, ctx context.Context, c *Client, verbs ...string) {
	t.Helper()
	for _, v := range verbs {
		must[Call](t)(c.Pass(ctx, v))
	}
}

// goUUID returns a getsetlock client in verbatim mode with the same rules. If
// holdGetset is true, its GETSET waits at the gate.
func goUUID(t *testing.T, s *redistest.Server, holdGetset bool) (b *legacy.Backend, gate *redistest.Gate) {
	t.Helper()
	gate = redistest.NewGate()
	wire := s.Wire()
	if holdGetset {
		wire = s.Wire(redistest.Rule{Command: "GETSET", Do: redistest.HoldRequest(gate)})
	}
	pool := wire.Pool()
	t.Cleanup(func() { pool.Close() })
	b, err := legacy.New(pool, legacy.Config{
		Mode: legacy.Verbatim, Dialect: dialect.JedisUUID(), Timeout: 30 * time.Second})
	check(t, err)
	t.Cleanup(func() { check(t, b.Close()) })
	return b, gate
}

// try is the result of one attempt of the getsetlock client.
type try struct {
	grant backend.Grant
	err   error
}

func begin(ctx context.Context, b *legacy.Backend) <-chan try {
	done := make(chan try, 1)
	go func() {
		g, err := b.Contract().Try(ctx, key, time.Minute)
		done <- try{g, err}
	}()
	return done
}

func TestUUIDRulesLetTwoJavaClientsHold(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text(deadUUID)))
	a, b := javaUUID(t, ctx, s, 0), javaUUID(t, ctx, s, time.Second)
	first, second := must[*Acquiring](t)(a.BeginAcquire()), must[*Acquiring](t)(b.BeginAcquire())
	pass(t, ctx, a, "setnx", "get")
	pass(t, ctx, b, "setnx", "get")
	pass(t, ctx, a, "getset") // a wins
	pass(t, ctx, b, "getset") // loses, and leaves its value
	pass(t, ctx, b, "setnx", "get", "getset")
	if !must[Acquired](t)(first.Wait(ctx)).Won || !must[Acquired](t)(second.Wait(ctx)).Won {
		t.Error("one of the two does not hold: the transliteration is too good")
	}
}

func TestUUIDRulesLetBothHoldIfJavaLoses(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text(deadUUID)))
	java := javaUUID(t, ctx, s, time.Second)
	ours, _ := goUUID(t, s, false)
	p := must[*Acquiring](t)(java.BeginAcquire())
	pass(t, ctx, java, "setnx", "get")
	must[backend.Grant](t)(ours.Contract().Try(ctx, key, time.Minute))
	pass(t, ctx, java, "getset", "setnx", "get", "getset")
	if !must[Acquired](t)(p.Wait(ctx)).Won {
		t.Error("Java does not hold at the same time")
	}
	check(t, java.Step(ctx, false))
}

func TestUUIDRulesLetBothHoldIfGetsetlockLoses(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text(deadUUID)))
	java := javaUUID(t, ctx, s, 0)
	ours, gate := goUUID(t, s, true)
	done := begin(ctx, ours)
	<-gate.Reached()
	p := must[*Acquiring](t)(java.BeginAcquire())
	pass(t, ctx, java, "setnx", "get", "getset")
	if !must[Acquired](t)(p.Wait(ctx)).Won {
		t.Fatal("Java did not win")
	}
	gate.Open()
	if got := <-done; !errors.Is(got.err, lock.ErrHeld) {
		t.Fatalf("the getsetlock client did not lose: %v", got.err)
	}
	if g, err := ours.Contract().Try(ctx, key, time.Minute); err != nil {
		t.Errorf("the getsetlock client does not hold at the same time after its next poll: %v", err)
	} else {
		check(t, g.Release(ctx))
	}
}

// The ghost blocks for a whole lease, although no client holds; only the client
// that wrote it passes.
func TestGetsetlockGhostBlocksJava(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	store := openStore(t, s)
	check(t, store.put(key, text(deadUUID)))
	java := javaUUID(t, ctx, s, 0)
	check(t, java.Step(ctx, false))
	ours, gate := goUUID(t, s, true)
	done := begin(ctx, ours)
	<-gate.Reached()
	if !must[Acquired](t)(java.Acquire(ctx)).Won {
		t.Fatal("Java did not take the dead value over")
	}
	check(t, java.Release(ctx))
	gate.Open()
	if got := <-done; !errors.Is(got.err, lock.ErrHeld) {
		t.Fatalf("the getsetlock client: %v", got.err)
	}
	if must[Acquired](t)(java.Acquire(ctx)).Won {
		t.Errorf("no ghost: the key held %s", must[string](t)(store.state(key)))
	}
}

func TestJavaGhostBlocksGetsetlock(t *testing.T) {
	for name, verbs := range map[string][]string{
		"gone before the GET":    {"setnx", "!", "get", "getset"},
		"gone before the GETSET": {"setnx", "get", "!", "getset"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			s := redistest.Real(t, redistest.Options{})
			store := openStore(t, s)
			check(t, store.put(key, text(deadUUID)))
			java := javaUUID(t, ctx, s, 0)
			ours, _ := goUUID(t, s, false)
			p := must[*Acquiring](t)(java.BeginAcquire())
			for _, v := range verbs {
				if v == "!" {
					check(t, store.put(key, "missing"))
					continue
				}
				pass(t, ctx, java, v)
			}
			if must[Acquired](t)(p.Wait(ctx)).Won {
				t.Fatal("Java won by a GETSET that returned nil")
			}
			if _, err := ours.Contract().Try(ctx, key, time.Minute); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("the getsetlock client: %v, the key held %s", err, must[string](t)(store.state(key)))
			}
		})
	}
}

// Each generation of the library misreads the other's values.
func TestGenerationsOfJedisLockDoNotExclude(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	old, young := SharedClient(t, s.Addr()), SharedClient(t, s.Addr())
	check(t, old.Lock(ctx, Jar, key, 0, time.Minute))
	check(t, young.Lock(ctx, UUID, key, 0, time.Minute))
	if !must[Acquired](t)(old.Acquire(ctx)).Won || !must[Acquired](t)(young.Acquire(ctx)).Won {
		t.Error("the later rules let a number hold")
	}
	var thrown *Exception
	if _, err := old.Acquire(ctx); !errors.As(err, &thrown) ||
		!strings.HasSuffix(thrown.Class, "NumberFormatException") {
		t.Errorf("the jar reads a uuid: %v", err)
	}
}

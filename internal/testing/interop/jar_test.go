// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// must ends the test on an error of the driver; the tests are about the jar and
// never expect one.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stamp returns a value's number, in ms since 1970.
func stamp(t testing.TB, value string) int64 {
	t.Helper()
	return must[int64](t)(strconv.ParseInt(value, 10, 64))
}

// await returns when the JVM's clock is past the instant. Real time passes,
// since nothing else moves that clock.
func await(t testing.TB, ctx context.Context, j *JVM, millis int64) {
	t.Helper()
	for must[int64](t)(j.Clock(ctx)) <= millis {
		check(t, ctx.Err())
	}
}

func TestJarWorksOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			ctx := testContext(t)
			s := b.Start(t, redistest.Options{})
			first, second := SharedClient(t, s.Addr()), SharedClient(t, s.Addr())
			check(t, first.Lock(ctx, Jar, key, 0, time.Minute))
			check(t, second.Lock(ctx, Jar, key, 0, time.Minute))
			if got := must[Acquired](t)(first.Acquire(ctx)); !got.Won || got.Sleeps != 0 {
				t.Fatalf("a free key: %+v", got)
			}
			if got := must[Acquired](t)(second.Acquire(ctx)); got.Won || got.Sleeps != 1 {
				t.Fatalf("a held key: %+v", got)
			}
			check(t, first.Release(ctx))
			if got := must[Acquired](t)(second.Acquire(ctx)); !got.Won {
				t.Fatalf("a released key: %+v", got)
			}
			check(t, openStore(t, s).put(key, text("1500000000000")))
			if got := must[Acquired](t)(first.Acquire(ctx)); !got.Won {
				t.Fatalf("a dead stamp: %+v", got)
			}
		})
	}
}

// A pause between the two commands is how a stalled loser comes to write an old
// stamp.
func TestJarsGetSetWritesTheStampOfItsSetnx(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text("1")))
	c := SharedClient(t, s.Addr())
	check(t, c.Lock(ctx, Jar, key, 0, time.Minute))
	check(t, c.Step(ctx, true))
	p := must[*Acquiring](t)(c.BeginAcquire())
	setnx := must[Call](t)(c.Pass(ctx, "setnx"))
	must[Call](t)(c.Pass(ctx, "get"))
	await(t, ctx, Shared(t), setnx.ClockMillis+20)
	getset := must[Call](t)(c.Pass(ctx, "getset"))
	if got := must[Acquired](t)(p.Wait(ctx)); !got.Won || getset.Value != setnx.Value {
		t.Errorf("%+v; wrote %s, and before the pause %s", got, getset.Value, setnx.Value)
	}
}

func TestJarJudgesByItsClockAfterTheGet(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	c := SharedClient(t, s.Addr())
	live := must[int64](t)(Shared(t).Clock(ctx)) + 500
	check(t, openStore(t, s).put(key, text(strconv.FormatInt(live, 10))))
	check(t, c.Lock(ctx, Jar, key, 0, time.Minute))
	check(t, c.Step(ctx, true))
	p := must[*Acquiring](t)(c.BeginAcquire())
	must[Call](t)(c.Pass(ctx, "setnx"))
	await(t, ctx, Shared(t), live)
	must[Call](t)(c.Pass(ctx, "get"))
	must[Call](t)(c.Pass(ctx, "getset"))
	if got := must[Acquired](t)(p.Wait(ctx)); !got.Won {
		t.Errorf("a stamp that died between the SETNX and the GET: %+v", got)
	}
}

func TestJarStampsAnewAtEveryPoll(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	check(t, openStore(t, s).put(key, text("9223372036854775807")))
	c := SharedClient(t, s.Addr())
	check(t, c.Lock(ctx, Jar, key, 300*time.Millisecond, time.Minute))
	must[Acquired](t)(c.Acquire(ctx))
	last := int64(0)
	for _, call := range must[[]Call](t)(c.Trace(ctx)) {
		if call.Verb != "setnx" {
			continue
		}
		if at := stamp(t, call.Value); at <= last {
			t.Errorf("%d after %d: the same stamp, a poll later", at, last)
		} else {
			last = at
		}
	}
	if last == 0 {
		t.Error("no SETNX at all")
	}
}

// For the other clients, a cut connection and a killed process are the same:
// the key stays. A client that judges by a clock takes the key over only when
// that clock is past the stamp.
func TestDeadJavaHolderIsTakenOverAfterItsStamp(t *testing.T) {
	deaths := map[string]func(t *testing.T, j *JVM, c *Client){
		"connection cut": func(t *testing.T, _ *JVM, c *Client) { check(t, c.Die(testContext(t))) },
		"process killed": func(t *testing.T, j *JVM, _ *Client) { check(t, j.Kill()) },
	}
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			s := redistest.Real(t, redistest.Options{})
			j := must[*JVM](t)(Start(ctx, Options{}))
			t.Cleanup(func() { check(t, j.Kill()) })
			holder, heir := NewClient(t, j, s.Addr()), SharedClient(t, s.Addr())
			check(t, holder.Lock(ctx, Jar, key, 0, 700*time.Millisecond))
			check(t, heir.Lock(ctx, Jar, key, 10*time.Second, time.Minute))
			if got := must[Acquired](t)(holder.Acquire(ctx)); !got.Won {
				t.Fatalf("%+v", got)
			}
			until := stamp(t, must[[]Call](t)(holder.Trace(ctx))[0].Value)
			die(t, j, holder)
			if got := must[Acquired](t)(heir.Acquire(ctx)); !got.Won {
				t.Fatalf("the heir: %+v", got)
			}
			calls := must[[]Call](t)(heir.Trace(ctx))
			last := calls[len(calls)-1]
			if last.Verb != "getset" || last.ClockMillis <= until {
				t.Errorf("taken over by %s at %d, the stamp was %d", last, last.ClockMillis, until)
			}
		})
	}
}

func TestDeadClientSendsNothing(t *testing.T) {
	ctx := testContext(t)
	s := redistest.Real(t, redistest.Options{})
	store := openStore(t, s)
	check(t, store.put(key, text("9223372036854775807")))
	polling, standing := SharedClient(t, s.Addr()), SharedClient(t, s.Addr())
	check(t, polling.Lock(ctx, Jar, key, time.Hour, time.Minute))
	check(t, standing.Lock(ctx, Jar, key, time.Hour, time.Minute))
	check(t, standing.Step(ctx, true))
	poll, stand := must[*Acquiring](t)(polling.BeginAcquire()), must[*Acquiring](t)(standing.BeginAcquire())
	if _, there, err := standing.Next(ctx); err != nil || !there {
		t.Fatal("no command is held at the gate", err)
	}
	check(t, polling.Die(ctx))
	check(t, standing.Die(ctx))
	check(t, store.put(key, "missing"))
	for _, p := range []*Acquiring{poll, stand} {
		var thrown *Exception
		if _, err := p.Wait(ctx); !errors.As(err, &thrown) {
			t.Errorf("an acquire of a dead client: %v", err)
		}
	}
	if got := must[string](t)(store.state(key)); got != "missing" {
		t.Errorf("the key became %s", got)
	}
}

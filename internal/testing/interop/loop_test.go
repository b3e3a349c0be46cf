// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

const counter = "counter"

// contend lets four Java clients work on one counter until each has made at
// least that many acquisitions. It returns the counter's value and the number
// of acquisitions.
func contend(t *testing.T, kind Kind, each int) (counted, acquired int) {
	ctx := patientContext(t)
	s := redistest.Real(t, redistest.Options{})
	loops := make([]*Loop, 4)
	for i := range loops {
		c := SharedClient(t, s.Addr())
		check(t, c.Lock(ctx, kind, key, 30*time.Second, time.Minute))
		loops[i] = must[*Loop](t)(c.StartLoop(ctx, counter, time.Millisecond, 0))
	}
	for _, l := range loops {
		if n := must[int](t)(l.Reach(ctx, each)); n < each {
			t.Errorf("a loop ended after %d acquisitions", n)
		}
	}
	for _, l := range loops {
		check(t, l.Stop(ctx))
	}
	for _, l := range loops {
		r := must[Report](t)(l.Wait(ctx))
		acquired += r.Acquired
		if spans := must[[]Span](t)(l.Spans(ctx)); len(spans) != r.Acquired {
			t.Errorf("%d spans of %d acquisitions", len(spans), r.Acquired)
		}
	}
	return must[int](t)(redis.Int(s.Do("GET", counter), nil)), acquired
}

func TestFourJavaClientsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	if counted, acquired := contend(t, Jar, 5); counted != acquired {
		t.Errorf("%d acquisitions, and the counter says %d", acquired, counted)
	}
}

// Without this test, the one above could pass because the clients never met.
func TestWithoutALockFourJavaClientsLoseUpdates(t *testing.T) {
	if counted, acquired := contend(t, None, 100); counted >= acquired {
		t.Errorf("%d acquisitions without a lock, and the counter says %d", acquired, counted)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestJavaTokenLocksAndGoExcludeEachOther runs the listing of Java services,
// with Jedis 2.9.3, alongside this package on one key.
func TestJavaTokenLocksAndGoExcludeEachOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(bg, 5*time.Minute)
	defer cancel()
	jvm := must[*interop.JVM](t)(interop.Start(ctx, interop.Options{}))
	defer jvm.Close()
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			java := interop.NewClient(t, jvm, s.Addr())
			if err := java.Lock(ctx, interop.Token, "k", 0, time.Minute); err != nil {
				t.Fatal(err)
			}
			b := openOn(t, s.Pool(), modern.Config{Note: "host 7"})
			c := client(t, b, lock.Config{RetryEvery: 10 * time.Millisecond})

			if !must[interop.Acquired](t)(java.Acquire(ctx)).Won {
				t.Fatal("a free key was refused to Java")
			}
			var held *lock.HeldError
			if _, err := c.TryAcquire(bg, "k"); !errors.As(err, &held) || len(held.Owner) != 36 ||
				held.Left <= 0 || held.Protocol != "" {
				t.Errorf("while Java holds it: %+v", held)
			}
			waiting := c.Request(ctx, "k")
			if err := java.Release(ctx); err != nil {
				t.Fatal(err)
			}
			got := <-waiting
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			if must[interop.Acquired](t)(java.Acquire(ctx)).Won {
				t.Error("Java was granted a key that Go holds")
			}
			if err := java.Release(ctx); err != nil { // does nothing: it holds nothing
				t.Fatal(err)
			}
			if value, _ := redis.String(s.Do("GET", "k"), nil); value != got.Lease.Token() {
				t.Errorf("the key holds %q", value)
			}
			if err := got.Lease.Release(); err != nil {
				t.Error(err)
			}
			countTogether(t, ctx, s, jvm, c)
			redistest.NoKeys(t, s.Pool())
		})
	}
}

// countTogether makes two Java clients and two goroutines add to one counter in
// two commands.
func countTogether(t *testing.T, ctx context.Context, s *redistest.Server, jvm *interop.JVM, c *lock.Client) {
	t.Helper()
	const each = 20
	var loops []*interop.Loop
	for range 2 {
		java := interop.NewClient(t, jvm, s.Addr())
		if err := java.Lock(ctx, interop.Token, "k", 30*time.Second, time.Minute); err != nil {
			t.Fatal(err)
		}
		loops = append(loops, must[*interop.Loop](t)(java.StartLoop(ctx, "counter", time.Millisecond, each)))
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range each {
				err := c.Do(ctx, "k", func(context.Context) error {
					n, err := redis.Int(s.Do("GET", "counter"), nil)
					if err != nil && !errors.Is(err, redis.ErrNil) {
						return err
					}
					s.Do("SET", "counter", n+1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := 2 * each
	for _, l := range loops {
		total += must[interop.Report](t)(l.Wait(ctx)).Acquired
	}
	if n, err := redis.Int(s.Do("GET", "counter"), nil); err != nil || n != total || total < 3*each {
		t.Errorf("%d acquisitions, and the counter says %d (%v)", total, n, err)
	}
	s.Do("DEL", "counter")
}

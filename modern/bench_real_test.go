//go:build real

package modern_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

var bareRelease = redis.NewScript(1, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func BenchmarkUncontended(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("bare", func(b *testing.B) {
		pool := s.Pool()
		b.ReportAllocs()
		for b.Loop() {
			c := pool.Get()
			if _, err := c.Do("SET", "k", "0123456789012345678901", "NX", "PX", 30000); err != nil {
				b.Fatal(err)
			}
			c.Close()
			c = pool.Get()
			if _, err := bareRelease.Do(c, "k", "0123456789012345678901"); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
	for _, fence := range []bool{false, true} {
		b.Run(fmt.Sprintf("modern fence=%v", fence), func(b *testing.B) {
			backend, err := modern.New(s.Pool(), modern.Config{Fence: fence})
			if err != nil {
				b.Fatal(err)
			}
			c, err := lock.New(backend, lock.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(ctx)
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.Acquire(ctx, "k")
				if err != nil {
					b.Fatal(err)
				}
				if err := l.Release(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

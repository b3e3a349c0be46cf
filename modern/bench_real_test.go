//go:build real

package modern_test

import (
	"context"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

var bareRelease = redis.NewScript(1,
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// BenchmarkUncontended compares an acquisition and its release with SET NX PX
// and a script that compares and deletes, sent by redigo on a pooled
// connection. The two alternate in short rounds. Alongside the time the
// benchmark reports the median of the rounds' ratios. With client and server on
// one CPU (taskset -c 0) it repeats within a few per cent if nothing else runs.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	for name, cfg := range map[string]modern.Config{"plain": {}, "fenced": {Fence: true}} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			backend, err := modern.New(s.Pool(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			c, err := lock.New(backend, lock.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close(ctx)
			pool := s.Pool()
			defer pool.Close()
			b.ReportAllocs()
			b.ReportMetric(redistest.Ratio(b, func() { bare(b, pool) }, func() { ours(b, ctx, c) }), "x-bare")
		})
	}
}

func ours(b *testing.B, ctx context.Context, c *lock.Client) {
	l, err := c.Acquire(ctx, "k")
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Release(); err != nil {
		b.Fatal(err)
	}
}

func bare(b *testing.B, pool *redis.Pool) {
	const token = "0123456789012345678901"
	conn := pool.Get()
	if _, err := conn.Do("SET", "k", token, "NX", "PX", 30000); err != nil {
		b.Fatal(err)
	}
	conn.Close()
	conn = pool.Get()
	if _, err := bareRelease.Do(conn, "k", token); err != nil {
		b.Fatal(err)
	}
	conn.Close()
}

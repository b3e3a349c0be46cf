//go:build real

package legacy

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
)

// BenchmarkUncontended compares an acquisition and its release with the same
// commands sent by bare redigo on one connection; for Hardened these are the
// same scripts. The two take turns in short rounds, and the benchmark also
// reports the median of the rounds' ratios.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	for _, mode := range []Mode{Verbatim, Hardened} {
		b.Run(mode.String(), func(b *testing.B) {
			conn := s.Pool().Get()
			defer conn.Close()
			backend, err := New(s.Pool(), Config{Mode: mode})
			if err != nil {
				b.Fatal(err)
			}
			client, err := lock.New(backend, lock.Config{Politeness: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close(context.Background())
			bare := bareVerbatim
			if mode == Hardened {
				bare = bareHardened
			}
			b.ReportAllocs()
			b.ReportMetric(redistest.Ratio(b, func() { bare(b, conn) }, func() { ours(b, client) }), "x-bare")
		})
	}
}

func ours(b *testing.B, client *lock.Client) {
	lease, err := client.Acquire(context.Background(), "k")
	if err != nil {
		b.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		b.Fatal(err)
	}
}

func bareVerbatim(b *testing.B, conn redis.Conn) {
	stamp, _ := dialect.Jedis().Stamp(time.Now(), time.Minute, "")
	if n, err := redis.Int(conn.Do("SETNX", "k", stamp)); n != 1 || err != nil {
		b.Fatal(n, err)
	}
	if n, err := redis.Int(conn.Do("DEL", "k")); n != 1 || err != nil {
		b.Fatal(n, err)
	}
}

var (
	acquire = redis.NewScript(3, twokey.Source("stamp", "acquire"))
	release = redis.NewScript(2, twokey.Source("stamp", "release"))
)

func bareHardened(b *testing.B, conn redis.Conn) {
	const token = "bbbbbbbbbbbbbbbbbbbbbb"
	f, err := redis.Values(acquire.Do(conn, "k", "{k}:gsl", "{k}:gsl:look", token, 30000, 31003, "ms", 30,
		1000, "", "plain", "", "", ""))
	if err != nil || len(f) != 5 {
		b.Fatal(f, err)
	}
	if n, err := redis.Int(release.Do(conn, "k", "{k}:gsl", token, "")); err != nil || n != 1 {
		b.Fatal(n, err)
	}
}

func BenchmarkRenewal(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	backend, err := New(s.Pool(), Config{Mode: Hardened})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	g, err := backend.Contract().Try(context.Background(), "k", 30*time.Second)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Extend(context.Background(), 30*time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

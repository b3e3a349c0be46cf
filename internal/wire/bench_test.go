package wire

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The benchmarks need a redis-server. They compare with bare redigo on a pooled
// connection, in alternating rounds of one run. Only the ratios mean something,
// and only with client and server on one CPU:
//
//	taskset -c 0 go test -run '^$' -bench . -benchtime 20000x ./internal/wire

const deleteIfSource = "-- deleteIf: KEYS[1], ARGV[1] token → 1 deleted, 0 not ours\n" +
	"if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

var deleteIf = NewScript(1, deleteIfSource)

// pair is one acquisition and its release.
type pair func(ctx context.Context, key, token string) error

func onPool(pool *redis.Pool) pair {
	script := redis.NewScript(1, deleteIfSource)
	return func(_ context.Context, key, token string) error {
		conn := pool.Get()
		_, err := conn.Do("SET", key, token, "NX", "PX", 30000)
		conn.Close()
		if err != nil {
			return err
		}
		conn = pool.Get()
		_, err = script.Do(conn, key, token)
		conn.Close()
		return err
	}
}

func onMux(m *Mux) pair {
	return func(ctx context.Context, key, token string) error {
		if _, err := m.Do(ctx, "SET", key, token, "NX", "PX", 30000); err != nil {
			return err
		}
		_, err := m.Eval(ctx, deleteIf, key, token)
		return err
	}
}

// bench compares both in alternating rounds, with n pairs a round for each of
// the goroutines.
func bench(b *testing.B, goroutines, rounds int) {
	server := redistest.Real(b, redistest.Options{})
	pool := &redis.Pool{MaxIdle: goroutines,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) }}
	b.Cleanup(func() { pool.Close() })
	m, err := New(pool, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close() })
	sides := []pair{onPool(pool), onMux(m)}
	n := max(b.N/goroutines/rounds, 10)
	for _, p := range sides {
		measure(b, p, goroutines, 10)
	}
	took, allocs := [2][]float64{}, [2]float64{}
	var ratios []float64
	for r := range rounds {
		first := r % 2
		for _, side := range []int{first, 1 - first} {
			t, a := measure(b, sides[side], goroutines, n)
			took[side] = append(took[side], t)
			allocs[side] += a / float64(rounds)
		}
		ratios = append(ratios, took[0][r]/took[1][r])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(took[0]), "µs-bare")
	b.ReportMetric(median(took[1]), "µs-wire")
	b.ReportMetric(median(ratios), "×throughput")
	b.ReportMetric(1/median(ratios), "×time")
	b.ReportMetric(allocs[0], "allocs-bare")
	b.ReportMetric(allocs[1], "allocs-wire")
}

// measure returns microseconds and allocations a pair.
func measure(b *testing.B, p pair, goroutines, n int) (float64, float64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		key, token := fmt.Sprintf("bench:%d", g), fmt.Sprint(rand.Uint64())
		wg.Go(func() {
			for range n {
				if err := p(ctx, key, token); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begun)
	runtime.ReadMemStats(&after)
	ops := float64(goroutines * n)
	return float64(took.Nanoseconds()) / 1e3 / ops, float64(after.Mallocs-before.Mallocs) / ops
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	return s[len(s)/2]
}

func BenchmarkLone(b *testing.B) { bench(b, 1, 15) }
func Benchmark2(b *testing.B)    { bench(b, 2, 9) }
func Benchmark8(b *testing.B)    { bench(b, 8, 9) }
func Benchmark64(b *testing.B)   { bench(b, 64, 9) }
func Benchmark1000(b *testing.B) { bench(b, 1000, 7) }

// SPDX-License-Identifier: Apache-2.0

//go:build real

package probe

import (
	"runtime"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// peakHeap runs work and returns by how many bytes the heap in use rose at
// most.
func peakHeap(work func(sample func())) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapInuse, m.HeapInuse
	work(func() {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	})
	return peak - before
}

func TestProbeOfAMillionKeysNeedsBoundedMemory(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	fill := func(from, n int) {
		t.Helper()
		// Each key has a stamp, a name and a prefix. There are ten thousand
		// prefixes, more than a probe remembers.
		const script = `for i = ARGV[1], ARGV[2] do redis.call('SET', 'lock:' .. (i % 10000) .. ':' .. i, string.format('%.0f', ARGV[3] + i)) end`
		for at := from; at < from+n; at += 50_000 {
			s.Do("EVAL", script, 0, at, at+50_000-1, time.Now().UnixMilli())
		}
	}
	probe := func(want int64) (uint64, time.Duration) {
		var took time.Duration
		rose := peakHeap(func(sample func()) {
			pool := s.Pool()
			defer pool.Close()
			slices := 0
			begun := time.Now()
			got, err := Run(t.Context(), pool,
				Config{Match: "lock:*", Hurry: true, Dialects: []dialect.Dialect{dialect.Jedis()},
					Progress: func(int64) {
						if slices++; slices%50 == 0 {
							sample()
						}
					}})
			took = time.Since(begun)
			if err != nil || got.Keys < want || got.Keys > want+want/10 || len(got.Prefixes) > mostPrefixes ||
				got.Forgotten == 0 {
				t.Errorf("%d keys, %d prefixes, %d forgotten, %v", got.Keys, len(got.Prefixes), got.Forgotten,
					err)
			}
		})
		return rose, took
	}
	fill(0, 100_000)
	small, _ := probe(100_000)
	fill(100_000, 900_000)
	large, took := probe(1_000_000)
	t.Logf("heap rose by %d KiB at 100,000 keys, by %d KiB at 1,000,000, in %v", small>>10, large>>10, took)
	if large > 24<<20 || large > 2*small+(4<<20) {
		t.Errorf("heap rose by %d KiB at 100,000 keys, by %d KiB at 1,000,000", small>>10, large>>10)
	}
}

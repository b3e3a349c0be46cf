//go:build real

package audit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

// saturate keeps the server busy with pipelined reads and writes, and counts them.
func saturate(ctx context.Context, tb testing.TB, s *redistest.Server, clients int) (count *atomic.Int64, wait func()) {
	pool := s.Pool()
	count = new(atomic.Int64)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := pool.Get()
			defer c.Close()
			const batch = 32
			for n := 0; ctx.Err() == nil; n++ {
				for j := range batch {
					key := fmt.Sprint("app:", (n*batch+j+i)%1000)
					if j%4 == 0 {
						_ = c.Send("SET", key, "some value of an application")
					} else {
						_ = c.Send("GET", key)
					}
				}
				if _, err := redis.Values(c.Do("")); err != nil {
					tb.Error(err)
					return
				}
				count.Add(batch)
			}
		}()
	}
	return count, func() { wg.Wait(); pool.Close() }
}

// price measures the server's throughput with and without a watch in slices side by side, off-on and on-off by turns, so that
// what else the machine does falls on both alike. A pair is one figure; the median of them is the answer, which
// a few pairs that something disturbed do not move, and low and high are the ends of its interval of 95 %.
//
// A slice must be long enough for a watch to find its keys and reach its rate, or, with MONITOR, for the time without it by
// which it measures itself; and short enough for many pairs.
func price(b *testing.B, slice time.Duration, cfg Config) {
	s := redistest.Real(b, redistest.Options{})
	for i := range 1000 {
		s.Do("SET", fmt.Sprint("lock:", i), jedisStamp(time.Now().Add(time.Hour)))
	}
	ctx, stop := context.WithCancel(b.Context())
	count, wait := saturate(ctx, b, s, 4)
	pool := s.Pool()
	defer pool.Close()
	cfg.For = slice
	var offs, ons, lost []float64
	var looks int64
	var looked time.Duration
	var last *Result
	off := func() float64 { return perSecond(count, func() { <-time.After(slice) }) }
	on := func() float64 {
		return perSecond(count, func() {
			r, err := Watch(ctx, pool, cfg)
			if err != nil {
				b.Error(err)
			}
			last = r
			looks, looked = looks+r.Cost.Looks, looked+r.Cost.Elapsed
		})
	}
	b.ResetTimer()
	for i := range b.N {
		var without, with float64
		if i%2 == 0 {
			without, with = off(), on()
		} else {
			with, without = on(), off()
		}
		offs, ons, lost = append(offs, without), append(ons, with), append(lost, 100*(1-with/without))
	}
	b.StopTimer()
	stop()
	wait()
	b.ReportMetric(quantile(offs, 0.5), "ops/s-off")
	b.ReportMetric(quantile(ons, 0.5), "ops/s-on")
	// Of n draws the median lies between those that are √n beside the middle one, at 95 %, whatever their distribution.
	beside := 1 / math.Sqrt(float64(b.N))
	b.ReportMetric(quantile(lost, 0.5-beside), "%lost-low")
	b.ReportMetric(quantile(lost, 0.5), "%lost")
	b.ReportMetric(quantile(lost, 0.5+beside), "%lost-high")
	b.ReportMetric(100*last.Cost.Share, "%core-by-itself")
	b.ReportMetric(float64(looks)/looked.Seconds(), "looks/s")
	if m := last.Cost.Monitor; m != nil {
		b.ReportMetric(m.OpsOff, "ops/s-off-by-itself")
		b.ReportMetric(m.OpsOn, "ops/s-on-by-itself")
		b.ReportMetric(float64(m.Lines)/m.Time.Seconds(), "lines/s")
		b.Log(m.Stopped)
	}
}

func quantile(of []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[int(min(max(q, 0), 1)*float64(len(sorted)-1)+0.5)]
}

func perSecond(count *atomic.Int64, work func()) float64 {
	before, from := count.Load(), time.Now()
	work()
	return float64(count.Load()-before) / time.Since(from).Seconds()
}

// Nothing is done in either half: what this says is the noise of the measurement.
func BenchmarkRealNothing(b *testing.B) {
	price(b, time.Second/2, Config{Match: "none:*", Looks: -1, NoClients: true, NoStats: true, NoTracking: true})
}

func BenchmarkRealPollingAThousandKeysASecond(b *testing.B) {
	price(b, time.Second/2, Config{Match: "lock:*", Looks: 1000, NoClients: true, NoStats: true})
}

func BenchmarkRealMonitor(b *testing.B) {
	price(b, 2*time.Second, Config{Match: "lock:*", Looks: -1, Monitor: MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute, Bytes: 1 << 40, Slower: 1e6, Least: time.Hour}})
}

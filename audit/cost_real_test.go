//go:build real

package audit

import (
	"context"
	"fmt"
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

// price measures the server's throughput with and without a watch by turns, in one run.
func price(b *testing.B, cfg Config) {
	s := redistest.Real(b, redistest.Options{})
	for i := range 1000 {
		s.Do("SET", fmt.Sprint("lock:", i), jedisStamp(time.Now().Add(time.Hour)))
	}
	ctx, stop := context.WithCancel(b.Context())
	count, wait := saturate(ctx, b, s, 4)
	pool := s.Pool()
	defer pool.Close()
	const turn = 2 * time.Second
	var off, on float64
	var last *Result
	b.ResetTimer()
	for range b.N {
		off += perSecond(count, func() { <-time.After(turn) })
		cfg.For = turn
		on += perSecond(count, func() {
			r, err := Watch(ctx, pool, cfg)
			if err != nil {
				b.Error(err)
			}
			last = r
		})
	}
	b.StopTimer()
	stop()
	wait()
	n := float64(b.N)
	b.ReportMetric(off/n, "ops/s-off")
	b.ReportMetric(on/n, "ops/s-on")
	b.ReportMetric(100*(1-on/off), "%lost")
	b.ReportMetric(100*last.Cost.Share, "%core-by-itself")
	b.ReportMetric(float64(last.Cost.Looks)/last.Cost.Elapsed.Seconds(), "looks/s")
	if m := last.Cost.Monitor; m != nil {
		b.ReportMetric(m.OpsOff, "ops/s-off-by-itself")
		b.ReportMetric(m.OpsOn, "ops/s-on-by-itself")
		b.ReportMetric(float64(m.Lines)/m.Time.Seconds(), "lines/s")
		b.Log(m.Stopped)
	}
}

func perSecond(count *atomic.Int64, work func()) float64 {
	before, from := count.Load(), time.Now()
	work()
	return float64(count.Load()-before) / time.Since(from).Seconds()
}

func BenchmarkRealPollingAThousandKeysASecond(b *testing.B) {
	price(b, Config{Match: "lock:*", Looks: 1000, NoClients: true, NoStats: true})
}

func BenchmarkRealMonitor(b *testing.B) {
	price(b, Config{Match: "lock:*", Looks: -1, Monitor: MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute, Bytes: 1 << 40, Slower: 1e6, Least: time.Hour}})
}

//go:build real

package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/internal/redisurl"
)

func TestZZ(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	addr, _ := redisurl.Parse(s.URL())
	for _, a := range Own() {
		if a.Name != os.Getenv("ZZ") {
			continue
		}
		l, err := a.Open(context.Background(), Server{address: addr, Goroutines: 1, TTL: 30 * time.Second, Prefix: "b:"})
		if err != nil {
			t.Fatal(err)
		}
		sp := Spec{Goroutines: 1, Keys: 1, Prefix: "b:", TTL: 30 * time.Second}
		sp.warm(context.Background(), l)
		runtime.GC()
		var m0, m1 runtime.MemStats
		runtime.ReadMemStats(&m0)
		ctx, cancel := context.WithCancel(context.Background())
		const n = 20
		var sum, cnt [n]int
		var big [n]int
		begun := time.Now()
		for last := begun; ; {
			h, err := l.Lock(ctx, "b:k")
			if err != nil {
				t.Fatal(err)
			}
			mid := time.Now()
			h.Release()
			now := time.Now()
			if x := now.Sub(last); x > 100*time.Microsecond && os.Getenv("ZT") != "" {
				fmt.Printf("at %.2fms lock %d release %d\n", float64(last.Sub(begun))/1e6, int(mid.Sub(last))/1000, int(now.Sub(mid))/1000)
			}
			b := int(now.Sub(begun) / (20 * time.Millisecond))
			if b >= n {
				break
			}
			d := int(now.Sub(last))
			sum[b] += d
			cnt[b]++
			if d > 100000 {
				big[b] += d
			}
			last = now
		}
		runtime.ReadMemStats(&m1)
		line := ""
		tot := 0
		for b := range n {
			line += fmt.Sprintf(" %.1f/%d", float64(sum[b])/float64(cnt[b])/1e3, big[b]/1000)
			tot += cnt[b]
		}
		fmt.Println(a.Name, tot, "gcs", m1.NumGC-m0.NumGC, line)
		cancel()
		l.Close()
	}
}

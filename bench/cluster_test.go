// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// eachCluster measures one server without a cluster, and then clusters of these
// many primaries.
func eachCluster(b *testing.B, measure func(b *testing.B, s Spec), nodes ...int) {
	each(b, 1, []string{"modern"}, measure)
	for _, n := range nodes {
		c := redistest.StartCluster(b, redistest.ClusterOptions{Path: os.Getenv("BENCH_SERVER"), Primaries: n,
			Patient: true})
		s := Spec{Setup: Setup{TTL: 30 * time.Second}, Lock: "modern, cluster"}
		for _, node := range c.Primaries {
			s.Addrs = append(s.Addrs, node.Addr())
		}
		b.Run(fmt.Sprintf("lock=modern, cluster of %d", n), func(b *testing.B) {
			for b.Loop() {
				s.Prefix = fmt.Sprint("bench:", measured.Add(1))
				measure(b, s)
			}
		})
	}
}

// One goroutine acquires and releases a key, with nobody else about.
func BenchmarkCluster(b *testing.B) {
	eachCluster(b, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 1, 1, brief(time.Second)
		uncontended(b, s)
	}, 1, 3, 6)
}

// One process holds 10,000 leases of 10 s, and renews them.
func BenchmarkClusterLeases(b *testing.B) {
	eachCluster(b, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Keep = 64, fewer(10_000), true
		s.TTL, s.Window = max(brief(10*time.Second), time.Second), brief(5*time.Second)
		res := together(b, nil, s)
		report(b, res, figures{"messages/s": float64(res.Messages) / s.Window.Seconds(),
			"writes/s": float64(res.Writes) / s.Window.Seconds(), "lost": float64(res.Lost)})
	}, 3)
}

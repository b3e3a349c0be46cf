// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/lock"
)

// What part of the acquisitions of one name do foreign clients get while two
// getsetlock clients take it too? All clients ask again at once. With two jetcd
// clients or four etcdctl processes, one of them waits at nearly every moment.
func BenchmarkSharesOfForeignClients(b *testing.B) {
	turns := 50
	if testing.Short() {
		turns = 5
	}
	b.Run("jetcd", func(b *testing.B) {
		c := Start(b, 1)
		shares(b, c, c.jetcd(b, patient), c.jetcd(b, patient), turns)
	})
	b.Run("etcdctl", func(b *testing.B) {
		c := Start(b, 1)
		var four [4]loop
		for i := range four {
			four[i] = func(n int) error {
				for range n {
					cmd := c.etcdctl(context.Background(), "lock", "stock", "--", "true")
					if err := cmd.Run(); err != nil {
						return err
					}
				}
				return nil
			}
		}
		share(b, c, turns/2+1, four[:]...)
	})
}

// loop takes the lock n times.
type loop func(n int) error

func shares(b *testing.B, c *Cluster, one, two *program.Peer, turns int) {
	of := func(j *program.Peer) loop {
		return func(n int) error {
			_, err := j.Order("count stock goods", n)
			return err
		}
	}
	share(b, c, turns, of(one), of(two))
}

// share lets the foreign loops run, and reports their part of all acquisitions.
func share(b *testing.B, c *Cluster, turns int, foreign ...loop) {
	ctx := context.Background()
	own := c.Client()
	for b.Loop() {
		var ours atomic.Int64
		var others, all sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			locks, err := lock.New(benchBackend(b, c), lock.Config{})
			fatal(b, err)
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := locks.Do(ctx, "stock", func(ctx context.Context) error {
						return addOne(ctx, own, "goods")
					}); err != nil {
						b.Error(err)
						return
					}
					ours.Add(1)
				}
			})
		}
		for _, f := range foreign {
			others.Go(func() {
				if err := f(turns); err != nil {
					b.Error(err)
				}
			})
		}
		others.Wait()
		close(stop)
		all.Wait()
		part := float64(turns * len(foreign))
		b.ReportMetric(part/(part+float64(ours.Load())), "share")
	}
}

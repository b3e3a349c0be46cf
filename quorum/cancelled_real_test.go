//go:build real

package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/quorum"
)

func TestThousandCancellationsLeaveNoVote(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := startNodes(t, 3, nil)
			t.Cleanup(func() { // after the clients are closed
				for i, n := range nodes {
					for _, key := range redistest.Keys(t, n.Pool()) {
						if key != "gsl:fence:" {
							t.Errorf("server %d has %q", i, key)
						}
					}
				}
			})
			s := setup{quorum: quorum.Config{GreatestTTL: time.Minute, Fences: fences},
				lock: lock.Config{TTL: time.Minute}}
			clients := []*lock.Client{s.client(t, nodes), s.client(t, nodes)}
			cancelThousand(t, clients)
		})
	}
}

// cancelThousand begins acquisitions that end at random instants. Some are
// alone on their key and some in crowds, so that they are cancelled in every
// state.
func cancelThousand(t *testing.T, clients []*lock.Client) {
	rng := rand.New(rand.NewPCG(history.Seed(t), 0))
	var won atomic.Int64
	var work sync.WaitGroup
	for n := range 1000 {
		key := fmt.Sprint("k", rng.IntN(8))
		after := time.Duration(rng.IntN(10_000)) * time.Microsecond
		work.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			timer := time.AfterFunc(after, cancel)
			defer timer.Stop()
			l, err := clients[n%len(clients)].Acquire(ctx, key)
			if err != nil {
				return
			}
			won.Add(1)
			_ = l.Release() // its context may have ended first
		})
		if n%20 == 19 {
			work.Wait()
		}
	}
	work.Wait()
	t.Logf("%d of 1,000 were granted", won.Load())
}

//go:build real

package modern_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func openCluster(t *testing.T, c *redistest.Cluster, cfg modern.Config, lc lock.Config) *lock.Client {
	t.Helper()
	client, err := modern.Open(bg, c.URL(), modern.Options{Backend: cfg, Lock: lc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(bg) })
	return client
}

// critical is what a key guards: a count that is exact only if no two holders
// overlap, and the last fencing number.
type critical struct {
	inside atomic.Bool
	count  int
	fence  int64
	taken  atomic.Int64
}

func (c *critical) enter(t *testing.T, l *lock.Lease) {
	if c.inside.Swap(true) {
		t.Errorf("%s: two holders", l.Key())
	}
	number, _ := l.Fence()
	if number <= c.fence {
		t.Errorf("%s: number %d after %d", l.Key(), number, c.fence)
	}
	c.fence = number
	c.count++
}

func (c *critical) leave() {
	c.inside.Store(false)
	c.taken.Add(1)
}

// Twelve clients contend for four keys while the two slots of the keys move to
// and fro. No two hold a key together, numbers grow, and leases that are held
// all the time live.
func TestLocksFollowTheirSlots(t *testing.T) {
	const contenders, moves = 12, 60
	c := redistest.StartCluster(t, false)
	keys := []string{"{a}1", "{b}1", "{a}2", "{b}2"}
	guarded := map[string]*critical{}
	for _, key := range keys {
		guarded[key] = &critical{}
	}
	cfg := modern.Config{Fence: true}
	lc := lock.Config{TTL: redistest.Patience, RenewEvery: 50 * time.Millisecond}
	holder := openCluster(t, c, cfg, lc)
	held := []*lock.Lease{acquire(t, holder, "{a}held"), acquire(t, holder, "{b}held")}

	ctx, stop := context.WithCancel(bg)
	var running sync.WaitGroup
	var total atomic.Int64
	for i := range contenders {
		client, key := openCluster(t, c, cfg, lc), keys[i%len(keys)]
		running.Go(func() {
			g := guarded[key]
			for {
				l, err := client.Acquire(ctx, key)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s: %v", key, err)
					}
					return
				}
				g.enter(t, l)
				total.Add(1)
				g.leave()
				if err := l.Release(); err != nil {
					t.Errorf("%s: release: %v", key, err)
				}
			}
		})
	}
	for i := range moves {
		tag := []string{"{a}", "{b}"}[i%2]
		from := c.Owner(tag)
		to := c.Primaries[0]
		if to == from {
			to = c.Primaries[1+i%2]
		}
		c.Move(c.Slot(tag), from, to)
		for _, key := range keys {
			await(t, guarded[key], 5)
		}
	}
	stop()
	running.Wait()
	sum := 0
	for _, g := range guarded {
		sum += g.count
	}
	if int64(sum) != total.Load() {
		t.Errorf("counted %d of %d", sum, total.Load())
	}
	for _, l := range held {
		if err := l.Release(); err != nil {
			t.Errorf("%s, held all the time: %v", l.Key(), err)
		}
	}
	t.Logf("%d acquisitions", sum)
}

// await waits until the key was released n times more.
func await(t *testing.T, g *critical, n int64) {
	t.Helper()
	end := time.Now().Add(2 * redistest.Patience)
	for want := g.taken.Load() + n; g.taken.Load() < want; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody acquires any more")
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package zookeeper_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/internal/testing/zktest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/zookeeper"
)

// harm is something that happens to an ensemble or to a client while clients
// contend for one lock.
type harm struct {
	name string
	do   func()
}

// historyTTL is longer than the pauses of a busy machine.
const historyTTL = 3 * time.Second

func harms(e *zktest.Ensemble, doors []*zktest.Door) []harm {
	stop := func(which int, pause time.Duration) {
		e.Servers[which].Kill()
		<-time.After(pause)
		e.Servers[which].Run()
		e.Await()
	}
	return []harm{
		{"the leader is killed and restarted", func() { stop(e.Leader(), 2*time.Second) }},
		{"a follower is killed and restarted", func() { stop((e.Leader()+1)%3, time.Second/2) }},
		{"a follower is cut off from the leader", func() {
			leader := e.Leader()
			thaw := e.Freeze((leader+1)%3, leader)
			<-time.After(5 * time.Second) // longer than the follower waits
			thaw()
			e.Await()
		}},
		{"the leader stops, and goes on as one of many", func() {
			leader := e.Servers[e.Leader()]
			leader.Freeze()
			<-time.After(historyTTL + 5*time.Second) // longer than sessions last, and than the others wait
			leader.Thaw()
			e.Await()
		}},
		{"clients move between servers", func() {
			for range 3 {
				for _, d := range doors {
					d.Move()
					<-time.After(50 * time.Millisecond)
				}
			}
		}},
		{"a client is silent until its session has expired", func() {
			release := doors[0].Hold()
			<-time.After(historyTTL + 3*zktest.Tick)
			release()
		}},
	}
}

// Clients of all servers take one lock in turn while the ensemble and the
// network suffer. A thousand waits and more are cancelled at random moments. No
// two clients believe at the same time that they hold the lock, its fencing
// numbers grow, and nothing is left at the end.
func TestHistoriesUnderFaultsFitALock(t *testing.T) {
	t.Parallel()
	const cancelled = 1000
	e := zktest.StartEnsemble(t, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var h history.Steps
	var failed atomic.Int64 // attempts that got no lease
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var work sync.WaitGroup
	var clients []*lock.Client
	var doors []*zktest.Door
	for i := range 4 {
		door := e.NewDoor(t)
		// Each client goes to another server first.
		servers := append(door.Addrs(), door.Addrs()...)[i%3 : i%3+3]
		c, err := lock.New(newBackend(t, zookeeper.Config{Chroot: "/locks"}, servers...),
			lock.Config{TTL: historyTTL})
		if err != nil {
			t.Fatal(err)
		}
		clients, doors = append(clients, c), append(doors, door)
		for j, wait := range []time.Duration{2 * time.Second, 2 * time.Second, 30 * time.Millisecond} {
			id := 3*i + j
			rng := rand.New(rand.NewPCG(seed, uint64(id)))
			one := &history.Contender{Client: c, ID: id, Rand: rng, Note: h.Note}
			work.Go(func() {
				for ctx.Err() == nil {
					looks := rng.IntN(20)
					again := func(look int) <-chan time.Time {
						if look == looks {
							return nil
						}
						return time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
					}
					err := one.Attempt(ctx, "k", time.Duration(rng.Int64N(int64(wait))), again)
					if err != nil {
						failed.Add(1)
					}
				}
			})
		}
	}
	all := harms(e, doors)
	rng := rand.New(rand.NewPCG(seed, 1000))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	h.GoesOn(t, "the start")
	for _, harm := range all {
		t.Log(harm.name)
		harm.do()
		h.GoesOn(t, harm.name)
	}
	for failed.Load() < cancelled {
		h.GoesOn(t, "the last harm")
	}
	stop()
	work.Wait()
	t.Logf("%d leases, %d attempts without one", h.Count(history.Acquired), failed.Load())
	h.Check(t, history.Lock)
	for _, c := range clients {
		closed(t, c)
	}
	// A session whose end got no reply expires.
	nothingLeft(t, admin(t, e.Addrs()...))
}

// nothingLeft waits until no node is below the lock k.
func nothingLeft(t *testing.T, conn *zk.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
	defer cancel()
	for {
		children, _, changed, err := conn.ChildrenW("/locks/k")
		if err == zk.ErrNoNode || err == nil && len(children) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("left: %q, %v", children, err)
		}
	}
}

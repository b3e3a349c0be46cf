// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/lock"
)

// harm is what happens to a cluster while clients contend for one lock. The
// holder keeps the lock meanwhile, if victims says so; nil: each holder does.
type harm struct {
	name    string
	do      func()
	victims func(client int) bool
}

// kills are what every cluster of three can suffer.
func (c *Cluster) kills(t *testing.T, own *clientv3.Client) []harm {
	return []harm{
		{"etcd compacts", func() {
			call(t, func(ctx context.Context) error { return compact(ctx, own) })
		}, nil},
		{"a follower is killed and restarted", func() {
			i := (c.Leader() + 1) % len(c.members)
			c.Kill(i)
			<-time.After(300 * time.Millisecond)
			c.Restart(i)
		}, nil},
		{"the leader is killed and restarted", func() {
			i := c.Leader()
			c.Kill(i)
			<-time.After(1500 * time.Millisecond)
			c.Restart(i)
		}, nil},
		{"the quorum is lost for a TTL", func() {
			a, b := c.Leader(), (c.Leader()+1)%len(c.members)
			c.Kill(a)
			c.Kill(b)
			<-time.After(2500 * time.Millisecond)
			var wg sync.WaitGroup
			for _, i := range []int{a, b} {
				wg.Go(func() { c.Restart(i) })
			}
			wg.Wait()
		}, nil},
	}
}

func compact(ctx context.Context, own *clientv3.Client) error {
	got, err := own.Get(ctx, "stock")
	if err == nil {
		_, err = own.Compact(ctx, got.Header.Revision)
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil
	}
	return err
}

// rude are faults that end a lock before its holder can know.
func (c *Cluster) rude(t *testing.T, own *clientv3.Client) []harm {
	return []harm{
		{"a lease is revoked", func() {
			call(t, func(ctx context.Context) error {
				leases, err := own.Leases(ctx)
				if err == nil && len(leases.Leases) > 0 {
					_, _ = own.Revoke(ctx, leases.Leases[0].ID) // it may be over already
				}
				return err
			})
		}, nil},
		{"the holder's lease is revoked", func() {
			call(t, func(ctx context.Context) error {
				first, err := own.Get(ctx, "stock/", clientv3.WithFirstCreate()...)
				if err == nil && len(first.Kvs) > 0 {
					_, _ = own.Revoke(ctx, clientv3.LeaseID(first.Kvs[0].Lease))
				}
				return err
			})
		}, nil},
	}
}

// fight lets clients contend for one lock while a cluster is harmed.
type fight struct {
	c       *Cluster
	h       *contest
	clients []*lock.Client
	seed    uint64
}

// contenders is how many goroutines of each client contend.
const contenders = 2

// suffer carries out the harms one after the other, in another order in each of
// some rounds. After each, other contenders must get the lock. In the end the
// history must be that of a lock, and nothing may be left.
func (f *fight) suffer(t *testing.T, harms []harm, rounds int) {
	t.Logf("seed %d (-fault-seed)", f.seed)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for i, l := range f.clients {
		for g := range contenders {
			id := contenders*i + g
			rng := rand.New(rand.NewPCG(f.seed, uint64(id)))
			wg.Go(func() { f.h.contend(ctx, l, id, rng) })
		}
	}
	own := f.c.Client()
	wg.Go(func() { f.h.watch(ctx, own) })
	rng := rand.New(rand.NewPCG(f.seed, 1000))
	f.h.GoesOn(t, "the start")
	for range rounds {
		rng.Shuffle(len(harms), func(i, j int) { harms[i], harms[j] = harms[j], harms[i] })
		for _, harm := range harms {
			t.Log(harm.name)
			if harm.victims == nil {
				harm.victims = anyone
			}
			f.h.keep(harm.victims)
			await(t, "a holder of the lock", f.h.kept)
			harm.do()
			f.h.keep(none)
			f.h.GoesOn(t, harm.name)
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d leases, %d looks", f.h.Count(history.Acquired), f.h.Count(history.Trusted))
	f.h.check(t)
	for _, l := range f.clients {
		call(t, l.Close)
	}
	f.c.emptied(t, "stock/")
}

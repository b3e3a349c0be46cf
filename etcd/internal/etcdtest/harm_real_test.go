// SPDX-License-Identifier: Apache-2.0

//go:build real

package etcdtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// crowd makes waits that give up, each within 50 ms, spread over a second.
func (f *fight) crowd(many int) {
	var wg sync.WaitGroup
	for i := range many {
		rng := rand.New(rand.NewPCG(f.seed, uint64(2000+i)))
		wg.Go(func() {
			<-time.After(time.Duration(rng.IntN(1000)) * time.Millisecond)
			_ = f.h.once(context.Background(), f.clients[i%len(f.clients)], 1000+i, rng, rng.IntN(50))
		})
	}
	wg.Wait()
}

// fill fills the database until etcd refuses to write, and empties it a TTL
// later.
func (c *Cluster) fill(t *testing.T, own *clientv3.Client) {
	call(t, func(ctx context.Context) error {
		ballast := strings.Repeat("x", 1<<20)
		for i := 0; ; i++ {
			_, err := own.Put(ctx, "ballast"+strconv.Itoa(i), ballast)
			if errors.Is(err, rpctypes.ErrNoSpace) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	<-time.After(2 * time.Second)
	call(t, func(ctx context.Context) error {
		_, err := own.Delete(ctx, "ballast", clientv3.WithPrefix())
		if err == nil {
			err = compact(ctx, own)
		}
		return err
	})
	// Each member compacts when it comes to it. One that was defragmented too
	// early is still full, and raises the alarm again.
	await(t, "space in each database", func() bool {
		small := true
		call(t, func(ctx context.Context) error {
			for _, at := range c.Endpoints() {
				_, err := own.Defragment(ctx, at)
				if err != nil {
					return err
				}
				status, err := own.Status(ctx, at)
				if err != nil {
					return err
				}
				small = small && status.DbSize < 1<<20
			}
			return nil
		})
		return small
	})
	call(t, func(ctx context.Context) error {
		_, err := own.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
}

// pause waits until no contender asks for the lock or holds it, and keeps it so
// until resume.
func (h *contest) pause(t *testing.T) (resume func()) {
	t.Helper()
	h.mu.Lock()
	h.paused = true
	h.mu.Unlock()
	await(t, "a pause of all contenders", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.active == 0
	})
	return func() {
		h.mu.Lock()
		h.paused = false
		h.mu.Unlock()
	}
}

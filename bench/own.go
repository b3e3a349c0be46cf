// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
	"github.com/getsetlock/getsetlock/redisconn"
)

func onOne(cfg modern.Config) func(Setup) (backend.Store, error) {
	return func(s Setup) (backend.Store, error) { return modern.New(s.Pools()[0], cfg) }
}

// shared is the lock that old clients share.
func shared(mode legacy.Mode) func(Setup) (backend.Store, error) {
	return func(s Setup) (backend.Store, error) { return legacy.New(s.Pools()[0], legacy.Config{Mode: mode}) }
}

// onCluster is for the primaries of a cluster.
func onCluster(s Setup) (backend.Store, error) {
	return modern.NewCluster(redisconn.Nodes{Seeds: s.Addrs, Pool: s.pool}, modern.Config{})
}

func onMost(fences bool) func(Setup) (backend.Store, error) {
	return func(s Setup) (backend.Store, error) {
		var members []quorum.Member
		for i, pool := range s.Pools() {
			m, err := modern.New(pool, modern.Config{Name: s.Addrs[i], Fence: fences})
			if err != nil {
				return nil, err
			}
			members = append(members, m)
		}
		return quorum.New(members, quorum.Config{GreatestTTL: s.TTL, Fences: fences})
	}
}

func opens(store func(Setup) (backend.Store, error), cfg lock.Config) func(Setup) (Locker, error) {
	return func(s Setup) (Locker, error) {
		b, err := store(s)
		if err != nil {
			return nil, err
		}
		cfg.TTL = s.TTL
		c, err := lock.New(b, cfg)
		return client{c, b}, err
	}
}

type client struct {
	*lock.Client
	store backend.Store
}

func (c client) Lock(ctx context.Context, key string) (Held, error) {
	l, err := c.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (c client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := c.Client.Close(ctx)
	if connections, ok := c.store.(io.Closer); ok {
		err = errors.Join(err, connections.Close())
	}
	return err
}

// bare is what the others are compared with: SET NX PX and a compare-and-delete
// script, sent by redigo on a pooled connection, without a library. It waits by
// trying again at once.
type bare struct {
	pool  *redis.Pool
	ttl   int64
	spare sync.Pool // *bareHeld values for reuse, so that they add no allocations
}

const bareToken = "0123456789012345678901"

var (
	bareRelease = redis.NewScript(1,
		`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	bareExtend = redis.NewScript(1, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
)

func openBare(s Setup) (Locker, error) {
	b := &bare{pool: s.Pools()[0], ttl: s.TTL.Milliseconds()}
	b.spare.New = func() any { return &bareHeld{bare: b} }
	return b, nil
}

func (b *bare) Close() error { return b.pool.Close() }

func (b *bare) Lock(ctx context.Context, key string) (Held, error) {
	for {
		conn := b.pool.Get()
		reply, err := conn.Do("SET", key, bareToken, "NX", "PX", b.ttl)
		conn.Close()
		if err != nil {
			return nil, err
		}
		if reply != nil {
			h := b.spare.Get().(*bareHeld)
			h.key = key
			return h, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

type bareHeld struct {
	bare *bare
	key  string
}

func (h *bareHeld) Release() error {
	err := h.run(bareRelease)
	h.bare.spare.Put(h)
	return err
}

func (h *bareHeld) Extend(context.Context) error { return h.run(bareExtend, h.bare.ttl) }

func (h *bareHeld) run(script *redis.Script, args ...any) error {
	conn := h.bare.pool.Get()
	defer conn.Close()
	n, err := redis.Int(script.Do(conn, append([]any{h.key, bareToken}, args...)...))
	if err == nil && n == 0 {
		return errors.New("bare: the lock was lost")
	}
	return err
}

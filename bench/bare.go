package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Baseline returns the adapter that all others are compared with: SET NX PX and
// a compare-and-delete script, sent by redigo on a pooled connection, without a
// library. It waits by trying again at once.
func Baseline() Adapter { return Adapter{Name: "bare", Open: openBare(false)} }

// bareWithContexts is Baseline with commands that obey a context, as those of
// every library do.
func bareWithContexts() Adapter { return Adapter{Name: "bare, contexts", Open: openBare(true)} }

var (
	bareRelease = redis.NewScript(1,
		`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	bareExtend = redis.NewScript(1, `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
)

type bare struct {
	pool     *redis.Pool
	token    string
	ttl      int64
	contexts bool
	spare    sync.Pool // *bareHeld values for reuse, so that the benchmark's own values add no allocations
}

func openBare(contexts bool) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		b := &bare{pool: s.Pool(), token: fmt.Sprintf("%022d", os.Getpid()), ttl: s.TTL.Milliseconds(),
			contexts: contexts}
		b.spare.New = func() any { return &bareHeld{bare: b} }
		return b, nil
	}
}

func (b *bare) Close() error { return b.pool.Close() }

func (b *bare) Lock(ctx context.Context, key string) (Held, error) {
	for {
		reply, err := b.set(ctx, key)
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

func (b *bare) set(ctx context.Context, key string) (any, error) {
	if b.contexts {
		conn, err := b.pool.GetContext(ctx)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return redis.DoContext(conn, ctx, "SET", key, b.token, "NX", "PX", b.ttl)
	}
	conn := b.pool.Get()
	defer conn.Close()
	return conn.Do("SET", key, b.token, "NX", "PX", b.ttl)
}

type bareHeld struct {
	bare *bare
	key  string
}

func (h *bareHeld) Release() error {
	b := h.bare
	conn := b.pool.Get()
	defer conn.Close()
	var err error
	if b.contexts {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err = bareRelease.DoContext(ctx, conn, h.key, b.token)
		cancel()
	} else {
		_, err = bareRelease.Do(conn, h.key, b.token)
	}
	b.spare.Put(h)
	return err
}

func (h *bareHeld) Extend(context.Context) error {
	conn := h.bare.pool.Get()
	defer conn.Close()
	n, err := redis.Int(bareExtend.Do(conn, h.key, h.bare.token, h.bare.ttl))
	if err == nil && n == 0 {
		return errNotOurs
	}
	return err
}

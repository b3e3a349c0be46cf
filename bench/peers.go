package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/redis/go-redis/v9"
)

// adapters returns the adapters that children open: of getsetlock and of the
// other libraries.
func adapters() []Adapter { return append(Own(), peers()...) }

func peers() []Adapter {
	return []Adapter{
		{Name: "redsync (redigo)", Open: openRedsync(redigoPool)},
		{Name: "redsync (go-redis)", Open: openRedsync(goredisPool)},
		{Name: "redislock", Open: openRedislock(100 * time.Millisecond)},
		{Name: "rueidislock", Open: openRueidis(false), Key: rueidisKey},
		{Name: "rueidislock, one key", Open: openRueidis(true), Key: rueidisKey},
		{Name: "redsync, every 1 ms",
			Open: openRedsync(redigoPool, redsync.WithTries(1<<30),
				redsync.WithRetryDelay(time.Millisecond))},
		{Name: "redislock, every 1 ms", Open: openRedislock(time.Millisecond)},
	}
}

// defaults returns the other libraries with their defaults. redislock does not
// retry by default; the strategy of its own example, every 100 ms, is used as
// its default.
func defaults() []string {
	return []string{"redsync (redigo)", "redsync (go-redis)", "redislock", "rueidislock",
		"rueidislock, one key"}
}

// tuned returns the polling libraries, set to poll as often as is useful in a
// wait.
func tuned() []string { return []string{"redsync, every 1 ms", "redislock, every 1 ms"} }

func redigoPool(s Server) (redsyncredis.Pool, func() error) {
	pool := s.Pool()
	return redsyncredigo.NewPool(pool), pool.Close
}

func goredisPool(s Server) (redsyncredis.Pool, func() error) {
	client := newGoredis(s)
	return redsyncgoredis.NewPool(client), client.Close
}

// newGoredis returns a client with go-redis's own pool, with a connection per
// goroutine like redigo's.
func newGoredis(s Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, Dialer: s.Dial(), PoolSize: s.Goroutines + 1})
}

type redsyncLocker struct {
	sync    *redsync.Redsync
	options []redsync.Option
	close   func() error
}

func openRedsync(pool func(Server) (redsyncredis.Pool, func() error),
	options ...redsync.Option) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		p, closer := pool(s)
		return &redsyncLocker{redsync.New(p), append([]redsync.Option{redsync.WithExpiry(s.TTL)}, options...),
			closer}, nil
	}
}

// Lock asks again if the library gave up after its tries.
func (l *redsyncLocker) Lock(ctx context.Context, key string) (Held, error) {
	for {
		m := l.sync.NewMutex(key, l.options...)
		err := m.LockContext(ctx)
		if err == nil {
			return redsyncHeld{m}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (l *redsyncLocker) Close() error { return l.close() }

type redsyncHeld struct{ *redsync.Mutex }

func (h redsyncHeld) Release() error {
	_, err := h.Unlock()
	return err
}

func (h redsyncHeld) Extend(ctx context.Context) error {
	_, err := h.ExtendContext(ctx)
	return err
}

type redislockLocker struct {
	client *redislock.Client
	redis  *redis.Client
	every  time.Duration
	ttl    time.Duration
}

func openRedislock(every time.Duration) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		client := newGoredis(s)
		return &redislockLocker{redislock.New(client), client, every, s.TTL}, nil
	}
}

func (l *redislockLocker) Lock(ctx context.Context, key string) (Held, error) {
	for {
		// Obtain gives up after one TTL if the context has no deadline.
		lock, err := l.client.Obtain(ctx, key, l.ttl,
			&redislock.Options{RetryStrategy: redislock.LinearBackoff(l.every)})
		if err == nil {
			return redislockHeld{lock, l.ttl}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (l *redislockLocker) Close() error { return l.redis.Close() }

type redislockHeld struct {
	lock *redislock.Lock
	ttl  time.Duration
}

func (h redislockHeld) Release() error                   { return h.lock.Release(context.Background()) }
func (h redislockHeld) Extend(ctx context.Context) error { return h.lock.Refresh(ctx, h.ttl, nil) }

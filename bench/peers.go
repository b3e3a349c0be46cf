// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type redsyncLocker struct {
	sync    *redsync.Redsync
	options []redsync.Option
}

func openRedsync(options ...redsync.Option) func(Setup) (Locker, error) {
	return func(s Setup) (Locker, error) {
		var pools []redsyncredis.Pool
		for _, p := range s.Pools() {
			pools = append(pools, redsyncredigo.NewPool(p))
		}
		return redsyncLocker{redsync.New(pools...), append(options, redsync.WithExpiry(s.TTL))}, nil
	}
}

// Lock asks again if the library gave up after its tries.
func (l redsyncLocker) Lock(ctx context.Context, key string) (Held, error) {
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

// Close leaves the connections to the end of the process.
func (l redsyncLocker) Close() error { return nil }

type redsyncHeld struct{ *redsync.Mutex }

func (h redsyncHeld) Release() error { return lost(h.Unlock()) }

func (h redsyncHeld) Extend(ctx context.Context) error { return lost(h.ExtendContext(ctx)) }

func lost(ok bool, err error) error {
	if err == nil && !ok {
		return errors.New("redsync: the lock was lost")
	}
	return err
}

type redislockLocker struct {
	redis *redis.Client
	every time.Duration
	ttl   time.Duration
}

func openRedislock(every time.Duration) func(Setup) (Locker, error) {
	return func(s Setup) (Locker, error) {
		options := redis.Options{Addr: s.Addrs[0], Dialer: s.Dial, PoolSize: s.Goroutines + 1}
		return redislockLocker{redis.NewClient(&options), every, s.TTL}, nil
	}
}

// Lock asks again if the library gave up after one TTL.
func (l redislockLocker) Lock(ctx context.Context, key string) (Held, error) {
	for {
		lock, err := redislock.Obtain(ctx, l.redis, key, l.ttl,
			&redislock.Options{RetryStrategy: redislock.LinearBackoff(l.every)})
		if err == nil {
			return redislockHeld{lock, l.ttl}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (l redislockLocker) Close() error { return l.redis.Close() }

type redislockHeld struct {
	lock *redislock.Lock
	ttl  time.Duration
}

func (h redislockHeld) Release() error                   { return h.lock.Release(context.Background()) }
func (h redislockHeld) Extend(ctx context.Context) error { return h.lock.Refresh(ctx, h.ttl, nil) }

type rueidisLocker struct{ rueidislock.Locker }

// openRueidis opens the library with its defaults, which take three keys per
// lock. With oneKey it takes one key, receives no notices of its own writes,
// and is patient with a busy server; that suits a single server.
func openRueidis(oneKey bool) func(Setup) (Locker, error) {
	return func(s Setup) (Locker, error) {
		option := rueidislock.LockerOption{
			KeyValidity:    s.TTL,
			ExtendInterval: s.TTL / 3,
			ClientOption: rueidis.ClientOption{
				InitAddress: s.Addrs,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn,
					error) {
					return s.Dial(ctx, "tcp", addr)
				},
			},
		}
		if oneKey {
			option.KeyMajority, option.NoLoopTracking = 1, true
			// After its default of 20 ms without a reply it would wait for a
			// notice of its own write, which never comes.
			option.TryNextAfter = time.Second
		}
		l, err := rueidislock.NewLocker(option)
		return rueidisLocker{l}, err
	}
}

func (l rueidisLocker) Lock(ctx context.Context, key string) (Held, error) {
	_, cancel, err := l.WithContext(ctx, key)
	return rueidisHeld(cancel), err
}

func (l rueidisLocker) Close() error {
	l.Locker.Close()
	return nil
}

type rueidisHeld context.CancelFunc

// Release waits until the keys are deleted, as the library does. It cannot tell
// whether the lock had been lost.
func (h rueidisHeld) Release() error {
	h()
	return nil
}

package main

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisKey is the first of the library's keys for a lock.
func rueidisKey(name string) string { return "rueidislock:0:" + name }

type rueidisLocker struct{ rueidislock.Locker }

// openRueidis opens the library with its defaults, which take three keys per
// lock. With oneKey it takes one key, receives no notices of its own writes,
// and is patient with a busy server; that suits a single server.
func openRueidis(oneKey bool) func(context.Context, Server) (Locker, error) {
	return func(_ context.Context, s Server) (Locker, error) {
		option := rueidislock.LockerOption{
			KeyValidity:    s.TTL,
			ExtendInterval: s.TTL / 3,
			ClientOption: rueidis.ClientOption{
				InitAddress: []string{s.Addr},
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn,
					error) {
					return s.Dial()(ctx, "tcp", addr)
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
		if err != nil {
			return nil, err
		}
		return rueidisLocker{l}, nil
	}
}

func (l rueidisLocker) Lock(ctx context.Context, key string) (Held, error) {
	ctx, cancel, err := l.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidisHeld{ctx, cancel}, nil
}

func (l rueidisLocker) Close() error {
	l.Locker.Close()
	return nil
}

type rueidisHeld struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// Release waits until the keys are deleted, as the library does.
func (h rueidisHeld) Release() error {
	h.cancel()
	return nil
}

func (h rueidisHeld) Err() error { return context.Cause(h.ctx) }

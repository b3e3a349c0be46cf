//go:build real

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// party is a library that tries once to take the key.
type party struct {
	name string
	// errRefused if another party holds the key
	try func(ctx context.Context, key string) (release func() error, err error)
}

var errRefused = errors.New("held by another")

// parties returns three libraries on one server. getsetlock comes twice: with a
// fencing number a script takes the key, and with a note the value is longer.
func parties(t *testing.T, s *redistest.Server) []party {
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { client.Close() })
	return []party{
		getsets(t, "getsetlock", s.Pool(), modern.Config{}),
		getsets(t, "getsetlock, fenced and noted", s.Pool(),
			modern.Config{Fence: true, Note: "host-7 pid 12"}),
		{"redsync", func(ctx context.Context, key string) (func() error, error) {
			m := redsync.New(redsyncgoredis.NewPool(client)).NewMutex(key)
			var taken *redsync.ErrTaken
			if err := m.TryLockContext(ctx); errors.As(err, &taken) {
				return nil, errRefused
			} else if err != nil {
				return nil, err
			}
			return func() error {
				ok, err := m.UnlockContext(ctx)
				if err == nil && !ok {
					err = errors.New("redsync: the key no longer belongs to this mutex")
				}
				return err
			}, nil
		}},
		{"redislock", func(ctx context.Context, key string) (func() error, error) {
			l, err := redislock.Obtain(ctx, client, key, time.Minute, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return nil, errRefused
			}
			return func() error { return l.Release(ctx) }, err
		}},
	}
}

func getsets(t *testing.T, name string, pool *redis.Pool, cfg modern.Config) party {
	b, err := modern.New(pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := lock.New(b, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return party{name, func(ctx context.Context, key string) (func() error, error) {
		l, err := c.TryAcquire(ctx, key)
		if errors.Is(err, lock.ErrHeld) {
			return nil, errRefused
		}
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}}
}

func TestLibrariesExcludeEachOtherOnOneKey(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	all := parties(t, redistest.Real(t, redistest.Options{}))
	for _, holder := range all {
		release, err := holder.try(ctx, "stock")
		if err != nil {
			t.Fatalf("%s takes a free key: %v", holder.name, err)
		}
		for _, other := range all {
			if _, err := other.try(ctx, "stock"); !errors.Is(err, errRefused) {
				t.Errorf("%s holds, %s tries: %v", holder.name, other.name, err)
			}
		}
		if err := release(); err != nil {
			t.Errorf("%s releases what the others tried to take: %v", holder.name, err)
		}
	}
}

// A library holds a key that expires, and the next library takes it. The late
// release of the first must leave the key alone.
func TestLateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	s := redistest.Real(t, redistest.Options{})
	all := parties(t, s)
	for i, late := range all {
		next := all[(i+1)%len(all)]
		lateRelease, err := late.try(ctx, "stock")
		if err != nil {
			t.Fatalf("%s: %v", late.name, err)
		}
		s.Do("DEL", "stock") // as if it had expired
		release, err := next.try(ctx, "stock")
		if err != nil {
			t.Fatalf("%s after %s: %v", next.name, late.name, err)
		}
		if err := lateRelease(); err == nil {
			t.Errorf("%s did not say that it had lost the key", late.name)
		}
		if err := release(); err != nil {
			t.Errorf("%s lost its key to the late release of %s: %v", next.name, late.name, err)
		}
	}
}

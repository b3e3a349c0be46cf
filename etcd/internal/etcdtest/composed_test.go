// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/etcd"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// newLocks returns locks on the old server and in etcd, for a program that
// migrates. docs/guide/etcd.md shows it.
//
// doc: composed
func newLocks(pool *redis.Pool, member *migrate.Member, cli *clientv3.Client) (*lock.Client, error) {
	bridge, err := migrate.New(pool, migrate.Config{
		Phases: member,
		Terms:  dialect.Terms{Lease: time.Minute}, // the old clients' smallest lease
	})
	if err != nil {
		return nil, err
	}
	target, err := etcd.New(cli, etcd.Config{})
	if err != nil {
		return nil, errors.Join(err, bridge.Close())
	}
	both, err := migrate.Compose(bridge, target)
	if err != nil {
		return nil, errors.Join(err, bridge.Close(), target.Close())
	}
	return lock.New(both, lock.Config{TTL: 10 * time.Second}) // its Close closes both
}

// doc: end

func TestComposedLocksOfThePageHoldBothKeys(t *testing.T) {
	t.Parallel()
	c := Start(t, 1)
	ctx := testContext(t)
	server := miniredis.RunT(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) }}
	defer pool.Close()
	if _, err := fleet.Init(ctx, pool, fleet.Options{Namespace: "stock:"}); err != nil {
		t.Fatal(err)
	}
	member, err := migrate.Join(ctx, pool, migrate.MemberConfig{Namespace: "stock:", Target: "etcd"})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := newLocks(pool, member, c.Client())
	if err != nil {
		t.Fatal(err)
	}
	err = locks.Do(ctx, "stock:42", func(context.Context) error {
		if !server.Exists("stock:42") || !server.Exists("{stock:42}:gsl") {
			t.Errorf("on the old server: %q", server.Keys())
		}
		if keys := c.Keys("stock:42/"); len(keys) != 1 {
			t.Errorf("in etcd: %q", keys)
		}
		return nil
	})
	if err := errors.Join(err, locks.Close(ctx), member.Goodbye(ctx)); err != nil {
		t.Error(err)
	}
	if keys := c.Keys(""); len(keys) > 0 {
		t.Errorf("left in etcd: %q", keys)
	}
}

var composedKit = flag.Bool("composed", false, "run the kit with a composed lock, 21 s")

// The old server is embedded, and etcd a real one whose keys live on with
// their lease. Package migrate does the same in every phase, in virtual time.
func TestComposedBackendPassesTheKit(t *testing.T) {
	if !*composedKit {
		return
	}
	t.Parallel()
	c := Start(t, 1)
	client := c.Client()
	server := miniredis.RunT(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", server.Addr()) }}
	defer pool.Close()
	locktest.Run(t, locktest.Traits{Session: true, CannotWake: true}, func(t *testing.T) *locktest.World {
		server.FlushAll()
		if _, err := client.Delete(context.Background(), "locktest:", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		cuts := map[backend.Store]*Cut{}
		return &locktest.World{
			Backend: func() backend.Store {
				bridge, err := migrate.New(pool, migrate.Config{
					Phases: migrate.Fixed(migrate.Sealed),
					Terms:  dialect.Terms{Lease: time.Minute, Gap: 10 * time.Millisecond},
				})
				if err != nil {
					t.Fatal(err)
				}
				cut := new(Cut)
				both, err := migrate.Compose(bridge,
					backend.Of(struct{ backend.Backend }{c.backend(cut.Into).Contract()}))
				if err != nil {
					t.Fatal(err)
				}
				cuts[both] = cut
				return both
			},
			Pass: func(d time.Duration) { <-time.After(d); server.FastForward(d) },
			TTL:  2 * time.Second, FreeAfter: 1500 * time.Millisecond,
			RealTime: true,
			Seize:    func(key string) { seize(t, client, key) },
			Cut: func(b backend.Store) func() {
				cuts[b].On.Store(true)
				return func() { cuts[b].On.Store(false) }
			},
		}
	})
}

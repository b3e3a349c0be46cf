// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// fleet is old clients and getsetlock clients on one key, and how many of them
// believe to hold it at each moment of true time.
type fleet struct {
	t       *testing.T
	dialect dialect.Dialect
	w       *redistest.World
	over    time.Time
	holders atomic.Int32
	had     [2]atomic.Int32 // acquisitions by mode
	died    atomic.Int32
}

// client is one member, whose clock is off by skew. Every fifth time it dies:
// the key stays as it is, and the member starts anew.
func (f *fleet) client(mode legacy.Mode, skew time.Duration, rnd *rand.Rand) {
	clock := f.w.Clock(redistest.Skew{Offset: skew})
	b, err := legacy.New(f.w.Pool(),
		legacy.Config{Mode: mode, Dialect: f.dialect, Terms: dialect.Terms{Lease: 10 * time.Second},
			Clock: clock})
	if err != nil {
		f.t.Error(err)
		return
	}
	client, err := lock.New(b, lock.Config{Clock: clock, Wait: time.Hour})
	if err != nil {
		f.t.Error(err)
		return
	}
	defer client.Close(context.Background())
	for time.Now().Before(f.over) {
		if rnd.IntN(5) == 0 {
			f.die(b, client, mode, rnd)
			continue
		}
		lease, err := client.Acquire(context.Background(), "k")
		if errors.Is(err, backend.ErrNoRetry) {
			continue
		}
		if err != nil {
			f.t.Error(err)
			return
		}
		f.hold(lease.Context(context.Background()), mode, rnd)
		if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
			f.t.Error(err)
		}
	}
}

// hold works for less time than makes an old client dishonest, or until the
// lease is lost.
func (f *fleet) hold(ctx context.Context, mode legacy.Mode, rnd *rand.Rand) {
	if n := f.holders.Add(1); n > 1 {
		f.t.Errorf("%d holders at %v", n, time.Now())
	}
	f.had[mode].Add(1)
	select {
	case <-time.After(time.Duration(rnd.Int64N(int64(8 * time.Second)))):
	case <-ctx.Done():
	}
	f.holders.Add(-1)
}

// die takes the key once, if it is free, and forgets it.
func (f *fleet) die(b *legacy.Backend, client *lock.Client, mode legacy.Mode, rnd *rand.Rand) {
	ttl := 10 * time.Second
	if mode == legacy.Hardened {
		ttl = 5 * time.Second
	}
	if _, err := b.Contract().Try(context.Background(), "k", ttl); err == nil {
		f.died.Add(1)
	}
	<-time.After(time.Duration(rnd.Int64N(int64(time.Second))))
}

// Promise 2: no old client holds the key together with a getsetlock client
// while the old clients are honest. Old clients exclude each other as they
// always did.
func TestHardenedAndHonestOldClientsExcludeEachOther(t *testing.T) {
	dialects := []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.RedisMutex()}
	if raced { // the race detector shows as much with one dialect; make test has them all
		dialects = dialects[:1]
	}
	for _, d := range dialects {
		t.Run(d.Name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{t: t, dialect: d, w: redistest.Bubble(t), over: time.Now().Add(3 * time.Minute)}
				var all sync.WaitGroup
				for i, skew := range []time.Duration{-200, 0, 200} {
					for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
						rnd := rand.New(rand.NewPCG(seed, uint64(2*i)+uint64(mode)))
						all.Go(func() { f.client(mode, skew*time.Millisecond, rnd) })
					}
				}
				all.Wait()
				if f.had[0].Load() < 3 || f.had[1].Load() < 3 || f.died.Load() == 0 {
					t.Errorf("acquisitions: old %d, getsetlock %d; deaths %d", f.had[0].Load(),
						f.had[1].Load(), f.died.Load())
				}
				t.Logf("acquisitions: old %d, getsetlock %d; deaths %d", f.had[0].Load(), f.had[1].Load(),
					f.died.Load())
			})
		})
	}
}

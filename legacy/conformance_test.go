// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// kitWorld is a store for the conformance kit, in a bubble of mocked time.
func kitWorld(cfg legacy.Config, ttl, freeAfter time.Duration) func(*testing.T) *locktest.World {
	return func(t *testing.T) *locktest.World {
		w := redistest.Bubble(t)
		return &locktest.World{
			Backend: func() backend.Store {
				cfg := cfg
				cfg.Clock = w.Clock(redistest.Skew{})
				b, err := legacy.New(w.Pool(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				return b
			},
			Pass: w.Pass, Clock: w.Clock(redistest.Skew{}), TTL: ttl, FreeAfter: freeAfter,
			Seize: func(key string) {
				w.ServerNow() // brings the server up to the bubble's time
				stamp, err := cfg.Dialect.Stamp(w.Now(), time.Minute, cfg.Dialect.NewID([16]byte{1, 2, 3}))
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Mini.Set(key, stamp); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
}

func TestHardenedConforms(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisUUID(), dialect.RedisPy(), dialect.Kdyby(), dialect.Gorlock(),
		dialect.Bare(), dialect.SetPexpire()} {
		t.Run(d.Name, func(t *testing.T) {
			cfg := legacy.Config{Mode: legacy.Hardened, Dialect: d,
				Terms: dialect.Terms{Lease: time.Minute, Gap: time.Millisecond}, Wake: lock.WakeOn}
			locktest.RunInBubbles(t, locktest.Traits{CannotWake: true},
				kitWorld(cfg, 15*time.Second, 4*time.Second))
		})
	}
}

func TestVerbatimConforms(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisUUID(), dialect.RedisMutex(), dialect.Errorception(), dialect.Gorlock(),
		dialect.SetGetDel()} {
		t.Run(d.Name, func(t *testing.T) {
			cfg := legacy.Config{Mode: legacy.Verbatim, Dialect: d}
			traits := locktest.Traits{
				NotRenewable: true, CannotWake: true,
				LateRelease:  d.Release == dialect.ReleaseDel,
				BlindRelease: !d.ReleaseGets(),
				SameTokens:   d.Shape == dialect.ShapeNumber || d.OrMine,
			}
			locktest.RunInBubbles(t, traits, kitWorld(cfg, 15*time.Second, 2*time.Second))
		})
	}
}

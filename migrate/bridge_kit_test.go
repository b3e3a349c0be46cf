// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

// kitWorld is a store for the conformance kit, inside a bubble.
func kitWorld(cfg migrate.Config, freeAfter time.Duration) func(*testing.T) *locktest.World {
	return func(t *testing.T) *locktest.World {
		w := redistest.Bubble(t)
		return &locktest.World{
			Backend: func() backend.Store {
				cfg := cfg
				cfg.Clock = w.Clock(redistest.Skew{})
				b, err := migrate.New(w.Pool(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				return b
			},
			Pass: w.Pass, Clock: w.Clock(redistest.Skew{}), TTL: 15 * time.Second, FreeAfter: freeAfter,
			Seize: func(key string) {
				w.ServerNow() // brings the server up to the bubble's time
				at := key
				stamp, err := cfg.Dialect.Stamp(w.Now(), time.Minute, cfg.Dialect.NewID([16]byte{1, 2, 3}))
				if err != nil {
					t.Fatal(err)
				}
				if cfg.Phases == migrate.Fixed(migrate.Clean) {
					at, stamp = legacy.MarkKey(key), "a-token-of-somebody-else"
				}
				if err := w.Mini.Set(at, stamp); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
}

func TestTheBridgeConformsInEveryPhase(t *testing.T) {
	for _, p := range migrate.Phases() {
		for _, d := range []dialect.Dialect{
			dialect.Jedis(), dialect.JedisUUID(), dialect.RedisPy(), dialect.Bare()} {
			t.Run(p.String()+"/"+d.Name, func(t *testing.T) {
				cfg := migrate.Config{
					Phases: migrate.Fixed(p), Dialect: d, Fence: true, Wake: lock.WakeOn,
					Terms: dialect.Terms{Lease: time.Minute, Gap: time.Millisecond},
				}
				freeAfter := time.Duration(0)
				if p == migrate.Observe {
					freeAfter = 4 * time.Second
				}
				traits := locktest.Traits{CannotWake: true}
				locktest.RunInBubbles(t, traits, kitWorld(cfg, freeAfter))
			})
		}
	}
}

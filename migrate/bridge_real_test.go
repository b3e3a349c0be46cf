// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate"
)

func realBridge(t *testing.T, s *redistest.Server, p migrate.Phase,
	change ...func(*migrate.Config)) *migrate.Bridge {
	t.Helper()
	cfg := migrate.Config{Phases: migrate.Fixed(p), Terms: dialect.Terms{Lease: lease}}
	for _, f := range change {
		f(&cfg)
	}
	b, err := migrate.New(s.Pool(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The oldest server lets no script write after it has read the clock, and has
// no tracking.
func TestTheBridgeConformsOnEveryServer(t *testing.T) {
	for _, bin := range redistest.Servers(t) {
		for _, p := range []migrate.Phase{migrate.Dual, migrate.Sealed} {
			t.Run(bin.Name+"/"+p.String(), func(t *testing.T) {
				t.Parallel()
				s := bin.Start(t, redistest.Options{})
				terms := dialect.Terms{
					Lease: 2 * time.Minute, Spread: 50 * time.Millisecond, Gap: 10 * time.Millisecond}
				locktest.Run(t, locktest.Traits{CannotWake: !bin.Tracking},
					func(t *testing.T) *locktest.World {
						w := redistest.On(t, s)
						s.Do("FLUSHALL")
						return &locktest.World{
							Backend: func() backend.Store {
								return realBridge(t, s, p, func(c *migrate.Config) {
									c.Terms, c.Timeout, c.Fence, c.Wake = terms, time.Minute, true,
										lock.WakeOn
								})
							},
							Pass: func(d time.Duration) { <-time.After(d) }, TTL: time.Second,
							FreeAfter: 300 * time.Millisecond, RealTime: true,
							Seize: func(key string) {
								s.Do("SET", key, strconv.FormatInt(w.Now().Add(time.Minute).UnixMilli(), 10))
							},
						}
					})
			})
		}
	}
}

// Lua reads "nan" as a number, which is neither above nor below any bound; the
// embedded server's does not.
func TestACounterThatIsNoNumberTakesNothingOnAnyServer(t *testing.T) {
	for _, bin := range redistest.Servers(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			s := bin.Start(t, redistest.Options{})
			b := realBridge(t, s, migrate.Dual,
				func(c *migrate.Config) { c.Fence, c.Namespace = true, "shop" })
			s.Do("SET", "gsl:fence:shop:{m5p}", "nan")
			if g, err := b.Contract().Try(background, "k", ttl); err == nil ||
				!strings.Contains(err.Error(), "holds no fencing number") {
				t.Errorf("grant %v, error %v", g, err)
			}
			for _, key := range []string{"k", keyM} {
				if s.Do("EXISTS", key) != int64(0) {
					t.Errorf("%s is taken", key)
				}
			}
		})
	}
}

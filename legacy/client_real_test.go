// SPDX-License-Identifier: Apache-2.0

//go:build real

package legacy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestBothModesConformOnEveryServer(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, bin redistest.Binary) {
		for _, cfg := range []legacy.Config{
			{Mode: legacy.Hardened, Timeout: time.Minute,
				Terms: dialect.Terms{
					Lease: 2 * time.Minute, Spread: 20 * time.Millisecond, Gap: 10 * time.Millisecond}},
			{Mode: legacy.Verbatim, Timeout: time.Minute, Wake: lock.WakeOn},
		} {
			traits := locktest.Traits{CannotWake: !bin.Tracking}
			if cfg.Mode == legacy.Verbatim {
				traits.NotRenewable, traits.LateRelease, traits.BlindRelease, traits.SameTokens = true, true,
					true, true
			}
			t.Run(cfg.Mode.String(), func(t *testing.T) {
				locktest.Run(t, traits, func(t *testing.T) *locktest.World {
					s.Do("FLUSHALL")
					return &locktest.World{
						RealTime: true,
						Backend:  func() backend.Store { return newBackend(t, s, cfg) },
						// The server's TTLs follow its own clock, so here time
						// really has to pass.
						Pass: func(d time.Duration) { <-time.After(d) },
						TTL:  400 * time.Millisecond, FreeAfter: 250 * time.Millisecond,
						Seize: func(key string) {
							stamp, _ := dialect.Jedis().Stamp(time.Now(), time.Minute, "")
							s.Do("SET", key, stamp)
						},
					}
				})
			})
		}
	})
}

func TestTryNamesRightsThatUserLacks(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, bin redistest.Binary) {
		if !bin.ACL {
			return
		}
		for name, rules := range map[string][]string{
			"onekey": {"~stock", "+@all"},
			"noeval": {"~*", "+@all", "-eval", "-evalsha"},
			"notime": {"~*", "+@all", "-time"},
		} {
			url := s.User(name, "pw", rules...)
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
			defer pool.Close()
			b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			_, err = b.Contract().Try(bg, "stock", 10*time.Second)
			var unsure *backend.UnsureError
			if err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "{stock}:gsl") ||
				strings.Contains(err.Error(), "pw@") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n, _ := redis.Int(s.Do("DBSIZE"), nil); n != 0 {
			t.Errorf("%d keys left", n)
		}
	})
}

func TestReleaseWithoutDELRightLeavesKeyToTTL(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, bin redistest.Binary) {
		if !bin.ACL {
			return
		}
		url := s.User("app", "pw", "~*", "+@all", "-del")
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
		defer pool.Close()
		b, err := legacy.New(pool, legacy.Config{Mode: legacy.Hardened})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		g, err := b.Contract().Try(bg, "stock", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) ||
			!strings.Contains(err.Error(), "DEL") {
			t.Errorf("%v", err)
		}
		for _, key := range []string{"stock", "{stock}:gsl"} {
			if left, _ := redis.Int(s.Do("PTTL", key), nil); left <= 0 {
				t.Errorf("%s has no end: %d", key, left)
			}
		}
	})
}

func TestTryOnReplicaSaysREADONLY(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, _ redistest.Binary) {
		r := s.StartReplica()
		for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
			_, err := newBackend(t, r, legacy.Config{Mode: mode}).Contract().Try(bg, "stock", 10*time.Second)
			var unsure *backend.UnsureError
			if err == nil || errors.As(err, &unsure) || !strings.Contains(err.Error(), "READONLY") {
				t.Errorf("%v: %v", mode, err)
			}
		}
	})
}

func TestRenewalAfterRestartContinuesOrReportsLoss(t *testing.T) {
	for _, persist := range []bool{true, false} {
		s := redistest.Real(t, redistest.Options{Persist: persist})
		b := newBackend(t, s, legacy.Config{Mode: legacy.Hardened})
		g, err := b.Contract().Try(bg, "stock", 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		s.Restart()
		var last error
		for range 100 { // the first call finds the connection dead
			if _, last = g.Extend(bg, 30*time.Second); last == nil || errors.Is(last, lock.ErrLost) {
				break
			}
		}
		if persist && last != nil || !persist && !errors.Is(last, lock.ErrLost) {
			t.Errorf("persist %v: %v", persist, last)
		}
	}
}

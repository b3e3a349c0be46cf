// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestBridgeTakesNothingFarFromItsMember: in another database or on another
// server no gate sees its locks. The member's scripts fail there too.
func TestBridgeTakesNothingFarFromItsMember(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	other := redistest.Real(t, redistest.Options{})
	for name, c := range map[string]struct {
		server   *redistest.Server
		database int
	}{"here": {s, 0}, "another database": {s, 1}, "another server": {other, 0}} {
		t.Run(name, func(t *testing.T) {
			pool := &redis.Pool{Dial: func() (redis.Conn, error) {
				return redis.Dial("tcp", c.server.Addr(), redis.DialDatabase(c.database))
			}}
			namespace := strings.ReplaceAll(name, " ", "-") + ":"
			_, err := fleet.Init(t.Context(), s.Pool(), fleet.Options{Namespace: namespace})
			if err != nil {
				t.Fatal(err)
			}
			m, err := migrate.Join(t.Context(), s.Pool(), migrate.MemberConfig{Namespace: namespace})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Leave()
			b, err := migrate.New(pool, migrate.Config{Phases: m, Terms: dialect.Terms{Lease: lease}})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			for range 2 {
				g, err := b.Contract().Try(t.Context(), namespace+"k", ttl)
				if name == "here" {
					if err != nil {
						t.Fatal(err)
					}
					_ = g.Release(t.Context())
					continue
				}
				for _, place := range []string{
					fmt.Sprintf("registered on %s (database 0)", s.Addr()),
					fmt.Sprintf("locks on %s (database %d)", c.server.Addr(), c.database),
				} {
					if err == nil || !strings.Contains(err.Error(), place) {
						t.Errorf("%v, %v does not say %q", g, err, place)
					}
				}
				if probe := m.State().Probe; !strings.Contains(probe, "open both on one server") {
					t.Errorf("its probe says %q", probe)
				}
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestStepWithATargetOnEveryServer: the script names keys that are no KEYS, and
// reads the roster before it writes. Some servers are strict about that, and so
// is a cluster, even of one shard.
func TestStepWithATargetOnEveryServer(t *testing.T) {
	for _, server := range redistest.Servers(t) {
		t.Run(server.Name, func(t *testing.T) {
			goesToCleanWithATarget(t, server.Start(t, redistest.Options{}))
		})
	}
	t.Run("cluster", func(t *testing.T) {
		s := redistest.Real(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
		s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
		late := time.After(redistest.Patience)
		for {
			about, err := redis.String(s.Do("CLUSTER", "INFO"), nil)
			if err == nil && strings.Contains(about, "cluster_state:ok") {
				break
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-late:
				t.Fatalf("no cluster within %v: %v, %v", redistest.Patience, about, err)
			}
		}
		goesToCleanWithATarget(t, s)
	})
}

func goesToCleanWithATarget(t *testing.T, s *redistest.Server) {
	pool := s.Pool()
	o := fleet.Options{Go: true, Claims: fleet.Claims{Lease: time.Minute, Spread: time.Second,
		Gap: time.Second, Job: time.Second, Idle: time.Second, Gone: true}}
	if _, err := fleet.Init(t.Context(), pool, o); err != nil {
		t.Fatal(err)
	}
	m, err := migrate.Join(t.Context(), pool, migrate.MemberConfig{Target: "etcd of the shop"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := fleet.ReadRecord(t.Context(), pool, "")
	if err != nil {
		t.Fatal(err)
	}
	r.Phase, r.Epoch = migrate.Modern, r.Epoch+1
	s.Do("SET", "gsl:phase:", r.String())
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := redis.String(s.Do("HGET", "gsl:roster:", m.ID()), nil)
	if err != nil {
		t.Fatal(err)
	}
	said, err := migrate.ParseMember(text)
	if err != nil {
		t.Fatal(err)
	}
	said.Sight = m.ID() // as if it had met its own acquisition in the target
	s.Do("HSET", "gsl:roster:", m.ID(), said.String())
	if got, err := fleet.CleanUp(t.Context(), pool, o); err != nil || !got.Moved ||
		got.Target != "etcd of the shop" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := m.Goodbye(t.Context()); err != nil {
		t.Error(err)
	}
}

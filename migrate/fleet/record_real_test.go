//go:build real

package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/fleet"
)

// TestAMeasuredBoundIsOfTheServerThatRuns: after a restart or a fail-over the
// record's Behind is unknown, and its claimed Ahead holds on.
func TestAMeasuredBoundIsOfTheServerThatRuns(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	about, err := redis.String(s.Do("INFO", "server"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(about, "run_id:")
	id, _, _ = strings.Cut(id, "\r\n")
	r := migrate.Record{Epoch: 1, Phase: migrate.Dual, Since: time.Now(), Dialect: "Jedis",
		Fleet: migrate.Fleet{
			Behind: migrate.Known{Time: time.Second, Source: migrate.Measured},
			Ahead:  migrate.Known{Time: time.Second, Source: migrate.Claimed}, Server: id,
		}}
	for range 2 {
		s.Do("SET", "gsl:phase:", r.String())
		got, err := fleet.ReadRecord(t.Context(), s.Pool(), "")
		if err != nil {
			t.Fatal(err)
		}
		road, err := fleet.Plan(t.Context(), s.Pool(), fleet.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := r.Fleet
		if r.Fleet.Server != id {
			want.Behind, want.Server = migrate.Known{}, ""
		}
		if got.Fleet != want || road.Fleet.Behind != want.Behind || road.Fleet.Ahead != want.Ahead ||
			road.Fleet.Server != want.Server {
			t.Errorf("measured by %q, and %q runs: read %+v, planned with %+v", r.Fleet.Server, id, got.Fleet,
				road.Fleet)
		}
		r.Fleet.Server = strings.Repeat("0", len(id))
	}
}

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
	if got, err := fleet.CleanUp(t.Context(), pool, o); err != nil || !got.Moved ||
		got.Target != "etcd of the shop" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := m.Goodbye(t.Context()); err != nil {
		t.Error(err)
	}
}

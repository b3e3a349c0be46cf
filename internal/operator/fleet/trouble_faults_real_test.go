// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestClusterRefusesANameWithoutASlot asks a real one, of one node.
func TestClusterRefusesANameWithoutASlot(t *testing.T) {
	s := redistest.Real(t, redistest.Options{Args: []string{"--cluster-enabled", "yes"}})
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	pool := s.Pool()
	b, err := migrate.New(pool, migrate.Config{Phases: migrate.Fixed(migrate.Dual)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	took := func(key string) error {
		g, err := b.Contract().Try(bg, key, leaseOfOurs)
		for err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") { // it takes a moment to be up
			g, err = b.Contract().Try(bg, key, leaseOfOurs)
		}
		if err == nil {
			err = g.Release(bg)
		}
		return err
	}
	for _, key := range []string{"stock", "{stock}:1"} {
		if err := took(key); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	says(t, took("sto}ck"), "lies in another slot")

	s.Do("SET", "sto}ck", fmt.Sprint(time.Now().Add(time.Minute).UnixMilli()))
	if _, err := Init(bg, pool, Options{}); err != nil {
		t.Fatal(err)
	}
	r, err := Advance(bg, pool, Options{Claims: known, Go: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(rules(r.Gate), "slot") || r.Moved {
		t.Errorf("moved %v, closed by %q", r.Moved, rules(r.Gate))
	}
}

// TestTwoDialectsOnOneKeyCloseTheGate: clients of both dialects write the key
// in turn during a watch.
func TestTwoDialectsOnOneKeyCloseTheGate(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	pool := s.Pool()
	if _, err := Init(bg, pool, Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(bg, redistest.Patience)
	defer stop()
	turn, mixed := 0, false
	err := WatchClients(ctx, pool, ObserverConfig{
		Dialect: dialect.Jedis(), Every: 100 * time.Millisecond,
		Seen: func(seen Sighting, _ *audit.Result) {
			if mixed = len(seen.Mixed) > 0; mixed {
				stop()
				return
			}
			end := time.Now().Add(time.Minute)
			stamps := []string{fmt.Sprint(end.UnixMilli()), fmt.Sprint(end.Unix())}
			s.Do("SET", "stock", stamps[turn%2])
			turn++
		},
	})
	if err != nil || !mixed {
		t.Fatalf("never seen (%v)", err)
	}
	r, err := Advance(bg, pool, Options{Claims: known, Go: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(rules(r.Gate), "dialect") || r.Moved {
		t.Errorf("moved %v, closed by %q", r.Moved, rules(r.Gate))
	}
}

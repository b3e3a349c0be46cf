// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestHoldersLearnOfAServerRestartedEmpty has a program in each phase.
// The server is killed and started again at the same port, without its keys,
// scripts and registry.
func TestHoldersLearnOfAServerRestartedEmpty(t *testing.T) {
	for _, p := range migrate.Phases() {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Options{})
			pool := s.Pool()
			r := migrate.Record{Epoch: 5, Phase: p, Since: time.Now(), Dialect: "Jedis"}
			s.Do("SET", "gsl:phase:", r.String())
			m := joins(t, pool)
			a := realBridge(t, s, p, func(cfg *migrate.Config) { cfg.Phases = m })
			b := realBridge(t, s, p)
			defer a.Close()
			defer b.Close()
			g, err := lets(t, a, "k")
			if err != nil {
				t.Fatal(err)
			}
			s.Restart()
			next, err := lets(t, b, "k")
			if err != nil {
				t.Fatalf("nothing is held on an empty server: %v", err)
			}
			if err := renewal(t, "k", g); !errors.Is(err, lock.ErrLost) {
				t.Errorf("the holder's renewal: %v", err)
			}
			_ = g.Release(background)
			if _, err := next.Extend(background, promotedTTL); err != nil {
				t.Errorf("the next holder was harmed: %v", err)
			}
			if err := next.Release(background); err != nil {
				t.Error(err)
			}
			refreshes(t, m)
			acts(t, m, p)
			if r, err := fleet.Init(background, pool, fleet.Options{}); err != nil || r.Phase != p ||
				r.Epoch != 6 {
				t.Errorf("the record written anew: %+v (%v)", r, err)
			}
		})
	}
}

// TestARealServerThatForgetsItsScriptsHarmsNobody between any two steps.
func TestARealServerThatForgetsItsScriptsHarmsNobody(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	for _, p := range migrate.Phases() {
		a, b := realBridge(t, s, p), realBridge(t, s, p)
		s.Do("SCRIPT", "FLUSH")
		g := takes(t, a, "k")
		for range 2 {
			s.Do("SCRIPT", "FLUSH")
			if _, err := g.Extend(background, promotedTTL); err != nil {
				t.Errorf("%v: renewal: %v", p, err)
			}
			s.Do("SCRIPT", "FLUSH")
			if _, err := b.Contract().Try(background, "k", promotedTTL); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%v: another is told %v", p, err)
			}
		}
		s.Do("SCRIPT", "FLUSH")
		if err := g.Release(background); err != nil {
			t.Errorf("%v: release: %v", p, err)
		}
		s.Do("DEL", "k") // the tombstone
		a.Close()
		b.Close()
	}
}

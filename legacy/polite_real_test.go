// SPDX-License-Identifier: Apache-2.0

//go:build real

package legacy_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// An old client that enters and leaves between two looks is seen where the
// server reports changes. One that stays is seen on every server.
func TestOldClientInAGapIsSeenOnEveryServer(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server, _ redistest.Binary) {
		const gap = time.Minute // long, so that the test does not depend on the machine's speed
		b := newBackend(t, s, legacy.Config{Dialect: dialect.Jedis(),
			Terms: dialect.Terms{Lease: time.Minute, Behind: time.Second}})
		left := func(key string) backend.Yielder {
			t.Helper()
			g, err := b.Contract().Try(bg, key, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			p := g.(backend.Yielder)
			if err := p.ReleaseTo(bg, gap); err != nil {
				t.Fatal(err)
			}
			if m := s.Do("GET", legacy.MarkKey(key)); string(m.([]byte)) != polite.Value(g.Token()) {
				t.Errorf("M is %q", m)
			}
			return p
		}
		seen := func(key string) bool {
			t.Helper()
			s.Do("DEL", key, legacy.MarkKey(key))
			g, err := b.Contract().Try(bg, key, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Release(bg)
			return g.(backend.Yielder).YieldFor(0) > 0
		}

		p := left("nobody")
		wait := p.Recheck(bg)
		tracks := wait == gap*9/10 || wait > gap*8/10
		if seen("nobody") {
			t.Error("an old client is seen that was not there")
		}

		p = left("stays")
		p.Recheck(bg)
		s.Do("SETNX", "stays", time.Now().Add(time.Minute).UnixMilli())
		p.Recheck(bg)
		if !seen("stays") {
			t.Error("an old client that holds is not seen")
		}

		p = left("short")
		p.Recheck(bg)
		if tracks {
			told := make(chan struct{}, 1)
			cancel, free, err := b.Contract().(backend.Waker).Await(bg, "short",
				func() { told <- struct{}{} })
			if err != nil || free {
				t.Fatalf("free %v, %v", free, err)
			}
			s.Do("SETNX", "short", time.Now().Add(time.Minute).UnixMilli())
			s.Do("DEL", "short")
			<-told
			cancel()
			p.Recheck(bg)
		}
		if seen("short") != tracks {
			t.Errorf("an old client that was in and out: seen %v, the server tells %v", !tracks, tracks)
		}
	})
}

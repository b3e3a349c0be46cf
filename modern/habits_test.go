// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// The expected TTL counts from the last renewal, also for a lease that was
// handed over inside the process.
func TestInspectReportsAShortenedTTLOfAnOldLease(t *testing.T) {
	for _, share := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b := open(t, w, modern.Config{})
			g := try(t, b, "k")
			for range 5 {
				w.Pass(ttl / 2)
				if _, err := g.Extend(bg, ttl); err != nil {
					t.Fatal(err)
				}
			}
			if share {
				g, _ = g.(backend.Sharer).Share()
			}
			if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
				t.Errorf("without foreign commands: habits %q, %v", info.Habits, err)
			}
			w.Mini.SetTTL("k", 2*time.Second)
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
			if info, err := b.Inspect(bg, "k"); err != nil ||
				!strings.Contains(strings.Join(info.Habits, ""), "to 2s when 10s should be left") {
				t.Errorf("share %v: habits %q, %v", share, info.Habits, err)
			}
			free(t, g)
		})
	}
}

// A process may see many habits, and each in many forms.
func TestHabitsAreKeptForTheLastKeysOnly(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		habits := func(key string) int {
			info, err := b.Inspect(bg, key)
			if err != nil {
				t.Fatal(err)
			}
			return len(info.Habits)
		}
		g := try(t, b, "touched")
		for i := range 20 {
			w.Mini.SetTTL("touched", time.Duration(2+i)*time.Second/4)
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
		}
		if n := habits("touched"); n != 8 {
			t.Errorf("of 20 changes of one key's TTL %d are remembered", n)
		}
		free(t, g)
		var grants []backend.Grant
		for i := range 300 {
			grants = append(grants, try(t, b, fmt.Sprint("k", i)))
			w.Mini.Del(fmt.Sprint("k", i))
		}
		b.Contract().(backend.BatchExtender).ExtendAll(bg, grants, ttl)
		if first, last := habits("k0"), habits("k299"); first != 0 || last == 0 || habits("touched") != 0 {
			t.Errorf("of 300 keys that were deleted %d is remembered of the first, %d of the last", first,
				last)
		}
	})
}

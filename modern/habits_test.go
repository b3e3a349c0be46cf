package modern_test

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestAShortenedTtlIsNoticedHoweverOldTheLease: what a TTL should be counts from the last renewal, also
// of a lease that was handed on inside the process.
func TestAShortenedTtlIsNoticedHoweverOldTheLease(t *testing.T) {
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
				g, _ = g.(lock.Sharer).Share()
			}
			if info, err := b.Inspect(bg, "k"); err != nil || len(info.Habits) > 0 {
				t.Errorf("nobody did anything: habits %q, %v", info.Habits, err)
			}
			w.Mini.SetTTL("k", 2*time.Second)
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
			if info, err := b.Inspect(bg, "k"); err != nil || !strings.Contains(strings.Join(info.Habits, ""), "2s were left where 10s should be") {
				t.Errorf("share %v: habits %q, %v", share, info.Habits, err)
			}
			free(t, g)
		})
	}
}

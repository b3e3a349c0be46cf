//go:build real

package audit

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The server never answers again, so no later reply can end the hole: the end
// of the watch does.
func TestLostServerLeavesAHoleUntilTheEnd(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	pool := s.Pool()
	defer pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const every = 500 * time.Millisecond
	beats := 0
	r, err := Watch(ctx, pool, Config{
		Config:    census.Config{Match: "lock:*"},
		SeenEvery: every,
		Seen: func(*Result) {
			switch beats++; beats {
			case 2:
				s.Kill()
			case 2 + int(2*mostAbsent/every):
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Evidence.Covered(census.SourcePoll)
	if !slices.ContainsFunc(p.Holes,
		func(h census.Hole) bool {
			return h.Reason == census.HoleAbsent &&
				h.Until.Sub(h.From) > mostAbsent
		}) {
		t.Errorf("polls: %+v", p)
	}
}

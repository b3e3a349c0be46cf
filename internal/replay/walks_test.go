package replay_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/getsetlock/getsetlock/internal/replay"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

var (
	seed  = flag.Uint64("seed", 1, "of the random walks")
	walks = flag.Int("walks", 2, "how many a scenario")
)

// wander takes n random steps of what the model allows.
func wander(p *replay.Play, w *skew.Walk, rng *rand.Rand, n int, may func(skew.Event) bool) {
	for range n {
		next := w.Next()
		weights, sum := make([]int, len(next)), 0
		for i, e := range next {
			weights[i] = weight(e)
			if may != nil && !may(e) {
				weights[i] = 0
			}
			sum += weights[i]
		}
		if sum == 0 {
			return
		}
		at, draw := 0, rng.IntN(sum)
		for ; draw >= weights[at]; at++ {
			draw -= weights[at]
		}
		p.Step(w, at)
	}
}

// weight makes crashes and abandoned attempts rarer, and lets time pass.
func weight(e skew.Event) int {
	switch e.What {
	case skew.Tick.What:
		return 12
	case "quit", "crash", "cancel", "lost", "extend":
		return 1
	case "clock", "judge":
		return 2
	}
	return 5
}

// TestVerbatimFollowsTheModelOfItsDialect: whatever the model's old clients may do in turn, the real
// ones do, with the same answers of the server, the same values on the key, the same beliefs.
func TestVerbatimFollowsTheModelOfItsDialect(t *testing.T) {
	for _, d := range dialect.Presets() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n := range *walks {
				rng := rand.New(rand.NewPCG(*seed, uint64(n)))
				sc := skew.Scenario{Dialect: d, Old: 3, Lease: 4 + rng.IntN(3), Job: 1 + rng.IntN(9), Gap: rng.IntN(4), Reply: rng.IntN(3), Behind: rng.IntN(3), Ahead: rng.IntN(3), Overrun: n%3 == 0}
				w, err := skew.NewWalk(sc)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("walk %d of seed %d: %+v", n, *seed, sc)
				wander(replay.NewPlay(t, sc, nil), w, rng, 300, nil)
			}
		})
	}
}

// beside is a scenario of ours beside old clients that keep to the rules.
func beside(d dialect.Dialect, old, ours int, rng *rand.Rand) skew.Scenario {
	sc := skew.Scenario{Dialect: d, Old: old, Lease: 6, Job: 4, Gap: 1, Reply: 1, Ahead: 1}
	sc.Ours = skew.Ours{Clients: ours, TTL: 5, Margin: 2, Stop: 1, TakeoverMargin: rng.IntN(2)}
	if rng.IntN(2) == 0 || d.OrMine {
		sc.Ours.Settle = sc.Gap + 1
		sc.Ours.SettleAlways = rng.IntN(2) == 0
	}
	sc.Overrun = rng.IntN(2) == 0
	return sc
}

func TestHardenedFollowsItsModel(t *testing.T) {
	for _, d := range dialect.Presets() {
		if d.NeverReleases() {
			continue // ours leaves the old client's own stamp there (rule 10), which the model leaves out
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n := range *walks {
				rng := rand.New(rand.NewPCG(*seed, uint64(n)))
				sc := beside(d, 2, 2, rng)
				w, err := skew.NewWalk(sc)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("walk %d of seed %d: %+v", n, *seed, sc)
				wander(replay.NewPlay(t, sc, replay.Hardened{}), w, rng, 300, nil)
			}
		})
	}
}

var _ = fmt.Sprint

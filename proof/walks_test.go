// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"flag"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

var (
	seed  = flag.Uint64("seed", 1, "of the random walks")
	walks = flag.Int("walks", 2, "how many a scenario")
)

// strolls are walks with the fixed seed, and one with the commit's seed.
func strolls(t *testing.T, many int) iter.Seq2[int, *rand.Rand] {
	return func(yield func(int, *rand.Rand) bool) {
		for n := range many {
			if !yield(n, rand.New(rand.NewPCG(*seed, uint64(n)))) {
				return
			}
		}
		for _, drawn := range seeds.With(t, *seed)[1:] {
			if !yield(many, rand.New(rand.NewPCG(drawn, uint64(many)))) {
				return
			}
		}
	}
}

// wander takes n random steps that the model allows, each as likely as its
// weight.
func wander(p *Play, w *model.Walk, rng *rand.Rand, n int, weight func(model.Event) int) {
	if raced.On {
		n /= 4
	}
	for range n {
		next := w.Next()
		weights, sum := make([]int, len(next)), 0
		for i, e := range next {
			weights[i] = weight(e)
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
func weight(e model.Event) int {
	switch e.What + " " + e.Result {
	case "renewed lost", "check lost", "getset lost":
		return 60 // rarely possible, and important
	}
	switch e.What {
	case model.Tick.What:
		return 12
	case "quit", "crash", "cancel", "lost", "extend", "vanish", "beat", "revert", "empty", "miss", "enter",
		"forget":
		return 1
	case "clock", "judge":
		return 2
	}
	return 5
}

// Whatever the model's old clients may do in turn, the real ones do too: with
// the same answers of the server, the same values on the key, and the same
// beliefs.
func TestVerbatimFollowsTheModelOfItsDialect(t *testing.T) {
	for _, d := range dialect.Presets() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n, rng := range strolls(t, *walks) {
				sc := model.Scenario{Olds: model.Olds{
					Dialect: d, Old: 3, Lease: 4 + rng.IntN(3), Job: 1 + rng.IntN(9), Gap: rng.IntN(4),
					Reply: rng.IntN(3), Behind: rng.IntN(3), Ahead: rng.IntN(3), Overrun: n%3 == 0}}
				play(t, n, sc, nil, rng, 300)
			}
		})
	}
}

// beside is a scenario of getsetlock clients together with old clients that
// keep the rules.
func beside(d dialect.Dialect, old, ours int, rng *rand.Rand) model.Scenario {
	sc := model.Scenario{Olds: model.Olds{Dialect: d, Old: old, Lease: 6, Job: 4, Gap: 1, Reply: 1, Ahead: 1}}
	sc.Ours = model.Ours{Clients: ours, TTL: 5, Margin: 2, Stop: 1, TakeoverMargin: rng.IntN(2),
		Known: rng.IntN(3) == 0}
	sc.Ours.Look = sc.Lease + 4 // the real rule asks for such an old look with a lease that allows such a TTL
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
			// a release leaves the old client's own stamp there (rule 10),
			// which the model does not have
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n, rng := range strolls(t, *walks) {
				sc := beside(d, 2, 2, rng)
				play(t, n, sc, Hardened{}, rng, 300)
			}
		})
	}
}

// The walks cover every phase, and the way from each to the next and back.
// Members may lag behind the record, and leases may be of the former phase.
func TestBridgeFollowsItsModel(t *testing.T) {
	ways := [][2]model.Phase{
		{model.PhaseObserve, model.PhaseDual}, {model.PhaseDual, model.PhaseSealed},
		{model.PhaseSealed, model.PhaseModern},
		{model.PhaseModern, model.PhaseClean}, {model.PhaseDual, model.PhaseClean},
	}
	for _, d := range dialect.Presets() {
		if d.NeverReleases() {
			continue // see TestHardenedFollowsItsModel
		}
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n, rng := range strolls(t, *walks*2) {
				sc := beside(d, 2, 2, rng)
				way := ways[rng.IntN(len(ways))]
				sc.Ours.Phase, sc.Ours.To, sc.Ours.NoTombstone = way[0], way[1], rng.IntN(3) == 0
				// Members that send no heartbeats, members that read of a step
				// while their lease runs, and a registry that forgets them.
				sc.Ours.Vanishes, sc.Ours.Restored = rng.IntN(3) == 0,
					way[1] == model.PhaseClean && rng.IntN(2) == 0
				sc.Ours.Empties = rng.IntN(4) == 0
				if rng.IntN(4) == 0 { // heartbeats that count, and a verb at the same time as another
					sc.Ours.Renewals, sc.Ours.Attempts, sc.Ours.Loses, sc.Ours.Joins, sc.Ours.Slow = 3, 1,
						true, rng.IntN(2) == 0, true
				}
				play(t, n, sc, bridge(t), rng, 300)
			}
		})
	}
}

// Requests reach the server long after they were sent, replies come when they
// are not trusted any more, and attempts are cancelled on their way.
func TestLateCommandsFollowTheModel(t *testing.T) {
	for name, phase := range map[string]model.Phase{
		"modern": model.PhaseClean, "hardened": model.PhaseObserve, "bridge": model.PhaseDual} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, rng := range strolls(t, *walks*3) {
				sc := model.Scenario{Olds: model.Olds{Dialect: dialect.Jedis()}}
				sc.Ours = model.Ours{Clients: 3, Phase: phase, TTL: 4, Margin: 1, Stop: 1, Late: true}
				if phase != model.PhaseClean {
					sc.Old, sc.Lease, sc.Job, sc.Gap, sc.Overrun = 1, 6, 4, 1, n%2 == 0
				}
				play(t, n, sc, speaks(t, sc), rng, 300)
			}
		})
	}
}

// play is a walk of n steps. A takeover is two commands of the real client, so
// it has no late one.
func play(t *testing.T, n int, sc model.Scenario, protocol Protocol, rng *rand.Rand, steps int) {
	t.Helper()
	w, err := model.NewWalk(sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("walk %d of seed %d: %+v", n, *seed, sc)
	wander(NewPlay(t, sc, protocol), w, rng, steps, func(e model.Event) int {
		if sc.Ours.Late && e.Result == "takeover" {
			return 0
		}
		return weight(e)
	})
}

// Getsetlock clients judge by how long the same bytes have been there. They
// look as often as they must, and now and then do not.
//
// A look and an attempt are the same for the real client. So an attempt follows
// right after a look, which then adds nothing to it. A client makes no look if
// it would take the key at once, nor while M exists: then the real client does
// not judge and so does not remember.
func TestObserversOfUnchangedBytesFollowTheModel(t *testing.T) {
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.Errorception(), dialect.Faye(), dialect.RedisPy(), dialect.JedisUUID()} {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			for n, rng := range strolls(t, *walks*2) {
				sc := beside(d, 1, 2, rng)
				sc.Lease, sc.Behind, sc.Overrun = 10, 5, false
				sc.Ours.Unchanged, sc.Ours.Sparse = sc.Lease+1, 1+rng.IntN(2)
				if d.Slack == 0 || d.Inclusive {
					sc.Ours.Unchanged--
				}
				if n%2 == 0 {
					sc.Ours.Phase = model.PhaseDual
				}
				w, err := model.NewWalk(sc)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("walk %d of seed %d: %+v", n, *seed, sc)
				p := NewPlay(t, sc, speaks(t, sc))
				taken := 0
				wander(p, w, rng, 400, func(e model.Event) int {
					if e.Result == "takeover" {
						taken++
					}
					return watchful(w, sc, e)
				})
				t.Logf("%d times a takeover was open", taken)
			}
		})
	}
}

// watchful weighs events so that values are mostly followed for long enough.
func watchful(w *model.Walk, sc model.Scenario, e model.Event) int {
	v := w.World()
	for i, c := range v.Ours {
		if e.Who != "ours"+string(rune('1'+i)) || c.Step != "idle" {
			continue
		}
		switch {
		case e.What == "sample" && (v.M.Kind != "" ||
			w.Find(model.Event{Who: e.Who, What: "acquire", Result: "takeover"}) >= 0):
			return 0
		case e.What == "sample" && c.Watches && c.Looked >= sc.Ours.Sparse:
			return 400
		case e.What == "acquire" && v.L.Kind == "stamp" && !(c.Watches && c.Looked == 0) && v.M.Kind == "":
			return 0
		}
	}
	return weight(e)
}

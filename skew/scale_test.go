// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

func TestScaledScenarioKeepsTheLawsAnswer(t *testing.T) {
	for _, seed := range seeds.With(t, 5) {
		scaledKeepsTheAnswer(t, rand.New(rand.NewPCG(seed, 6)))
	}
}

func scaledKeepsTheAnswer(t *testing.T, random *rand.Rand) {
	t.Helper()
	for _, d := range raced.Few(dialect.Presets()) {
		for range 4 {
			span := func(most time.Duration) time.Duration {
				return time.Duration(random.Int64N(int64(most)))
			}
			l := Law{Dialect: d, Lease: time.Duration(1+random.IntN(60)) * sec, Job: span(80 * sec),
				Delay: span(3 * sec), Spread: span(20 * sec)}
			v, err := l.Verdict()
			if err != nil {
				t.Fatal(err)
			}
			sc, tick, err := l.Scenario(2)
			if err != nil || tick <= 0 {
				t.Fatal(err, tick)
			}
			x := searched(t, sc)
			if x.Found != v.Possible && !v.LateWinner {
				t.Errorf("%s lease %v job %v delay %v spread %v: law %v, scenario %+v %v", d, l.Lease, l.Job,
					l.Delay, l.Spread, v.Possible, sc, x.Found)
			}
		}
	}
}

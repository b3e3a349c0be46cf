// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestMembersFindOutHowManyTheyAre: each knows its own time and the sum, and
// nothing else.
func TestMembersFindOutHowManyTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		within  time.Duration // they join
		fixed   time.Duration // every other one beats so often
		want    time.Duration
	}{
		"one":                        {1, 0, 0, 5 * time.Second},
		"a hundred":                  {100, 5 * time.Second, 0, 5 * time.Second},
		"two hundred at once":        {200, 0, 0, 10 * time.Second},
		"a thousand":                 {1000, 5 * time.Second, 0, 50 * time.Second},
		"a thousand, in minutes":     {1000, 5 * time.Minute, 0, 50 * time.Second},
		"half of them beat often":    {400, 5 * time.Second, time.Second, 20 * time.Second},
		"half of them beat seldom":   {400, time.Minute, time.Minute, 20 * time.Second},
		"more than are provided for": {5000, 5 * time.Second, 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet := make([]struct {
				pace
				pauses
				due time.Duration
			}, c.members)
			random := rand.New(rand.NewPCG(7, uint64(c.members)))
			below := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
			for i := range fleet {
				m, every := &fleet[i], time.Duration(0)
				if i%2 == 1 {
					every = c.fixed
				}
				joins := c.within * time.Duration(i) / time.Duration(c.members)
				m.pace, m.pauses = newPace(every), pauses{below: below}
				m.due = joins + m.after(m.next)
			}
			sum := int64(0)
			for now := time.Duration(0); now < c.within+10*time.Minute; now += 100 * time.Millisecond {
				for i := range fleet {
					if m := &fleet[i]; m.due <= now {
						m.due = now + m.after(m.next)
						sum += m.owes(now)
						m.told(now, sum)
					}
				}
			}
			for i := range fleet {
				if m := &fleet[i]; !m.fixed && (m.next < c.want*9/10 || m.next > c.want*11/10) {
					t.Fatalf("member %d beats every %v, want %v", i, m.next, c.want)
				}
			}
		})
	}
}

// TestAStrangeSumChangesNoMoreThanThePace: the server was emptied, another
// program wrote the sum, or a clock was set.
func TestAStrangeSumChangesNoMoreThanThePace(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, told := range map[string][2]int64{ // elapsed milliseconds, the sum
		"began anew":              {10_000, 0},
		"beyond all fleets":       {10_000, 1 << 62},
		"below nothing":           {10_000, -1 << 62},
		"nothing grew":            {10_000, 5_000},
		"elapsed time went back":  {-40_000, 10_000},
		"no time went by":         {-20_000, 10_000},
		"a year, and nobody beat": {year.Milliseconds(), 10_000},
	} {
		p := newPace(0)
		p.told(-20*time.Second, 5000)
		p.told(time.Duration(told[0])*time.Millisecond, told[1])
		if p.next < defaultEvery || p.next > longestEvery {
			t.Errorf("%s: every %v", name, p.next)
		}
		if n := p.owes(year); n < 0 || n > longestEvery.Milliseconds() {
			t.Errorf("%s: it adds %d", name, n)
		}
	}
}

func TestMembersStartedAtOnceSpreadTheirHeartbeats(t *testing.T) {
	ends := map[time.Duration]bool{}
	for range 100 {
		p := pauses{below: rand.N[time.Duration]}
		if d := p.after(defaultEvery); d != defaultEvery {
			t.Fatalf("the first pause is %v", d)
		}
		d := p.after(longestEvery)
		if d < 0 || d >= longestEvery {
			t.Fatalf("%v is later than was promised", d)
		}
		ends[d.Round(time.Second)] = true
		if d := p.after(longestEvery); d != longestEvery {
			t.Fatalf("then %v", d)
		}
		if d := p.after(defaultEvery); d != defaultEvery {
			t.Fatalf("of a fleet that is gone: %v", d)
		}
	}
	if len(ends) < 10 {
		t.Errorf("a hundred members beat at %d instants", len(ends))
	}
}

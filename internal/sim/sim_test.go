// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

var (
	oneSeed = flag.Uint64("seed", 0, "play only this seed, and draw it with -v")
	amount  = flag.Int("seeds", 0, "how many fixed seeds to play, and as many fresh ones; default 600 fixed ones")
	first   = flag.Uint64("first", 1, "the first fixed seed")
	form    = flag.String("form", "", "play only seeds whose plans have one of these forms, as in hardened,beside")
	shrinks = flag.Bool("shrink", true, "make a failing case short")
)

// On one processor goroutines that wake at one instant go on in the order in
// which they were woken. On two, one of them may overtake another, and a play
// differs from the one before. The race detector looks for just that.
func TestMain(m *testing.M) {
	if !raced {
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400) // a play makes much garbage and keeps none
	redistest.Main(m)
}

// count returns how many seeds to play from each first one.
func count() uint64 {
	switch {
	case *amount > 0:
		return uint64(*amount)
	case raced:
		return 15
	case testing.Short():
		return 50
	}
	return 600
}

// tally is what a run of many seeds has reached.
type tally struct {
	seen   map[string]int
	leases int
	gap    time.Duration
}

func (c *tally) add(h *History) {
	for name, n := range h.Seen {
		c.seen[name] += n
	}
	c.leases += h.Leases()
	c.gap = max(c.gap, h.Gap)
}

// No seed breaks a promise, and together they reach every state of Sometimes.
// Fresh seeds are played only where -seeds asks: they have found something in
// one of a thousand.
func TestNoSeedBreaksAPromise(t *testing.T) {
	if *oneSeed != 0 {
		h := check(t, *oneSeed)
		if testing.Verbose() {
			t.Log("\n" + Case(h))
		}
		return
	}
	all := slices.Collect(seeds.Range(t, *first, count()))
	if *amount == 0 {
		all = all[:count()]
	}
	if *form != "" {
		forms := strings.Split(*form, ",")
		all = slices.DeleteFunc(all, func(seed uint64) bool {
			return !slices.Contains(forms, string(Draw(seed).Form))
		})
	}
	reached := tally{seen: map[string]int{}}
	for _, seed := range all {
		if reached.add(check(t, seed)); t.Failed() {
			break
		}
	}
	t.Logf("%d seeds, %d leases, longest time without a holder %v", len(all), reached.leases, reached.gap)
	for _, name := range slices.Sorted(maps.Keys(reached.seen)) {
		t.Logf("%7d %s", reached.seen[name], name)
	}
	if len(all) < 300 || *first != 1 || *form != "" || t.Failed() {
		return
	}
	for _, name := range Sometimes {
		if reached.seen[name] == 0 {
			t.Errorf("no seed reached: %s", name)
		}
	}
}

// check plays a seed and fails the test if a judge complains.
func check(t *testing.T, seed uint64) *History {
	t.Helper()
	h := watched(t, Draw(seed))
	if len(h.Events) == 0 {
		t.Errorf("seed %d: the history is empty", seed)
	}
	complaints := Judge(h)
	if len(complaints) == 0 {
		return h
	}
	if *shrinks {
		_, h = Shrink(t, h.Plan, complaints[0].Judge)
	}
	t.Errorf("seed %d: %v\nrepeat: go test ./internal/sim -seed %d -v\n%s", seed, complaints[0], seed, Case(h))
	return h
}

// stands is how long a play may take in real time. It needs a fifth of a
// second, but among fifty other programs it waits for its turn for a minute.
const stands = 5 * time.Minute

// watched plays a plan. If that does not end, it prints the seed and every
// goroutine, and ends the test.
func watched(t *testing.T, p *Plan) *History {
	t.Helper()
	dog := time.AfterFunc(stands, func() {
		fmt.Fprintf(os.Stderr, "sim: seed %d stands still\n", p.Seed)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		os.Exit(2)
	})
	defer dog.Stop()
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("sim: seed %d: %v", p.Seed, r))
		}
	}()
	return Play(t, p)
}

// The same plan gives the same history. Hooks of one instant may come in either
// order. The race detector plays none twice: see TestMain. On two processors
// one of seven plays of seed 164 differs. There the replies to two attempts are
// in one packet. Whether one renewal carries both leases depends on whether the
// scheduler of renewals is quicker than the second of the two goroutines.
func TestPlayIsRepeatable(t *testing.T) {
	if raced {
		return
	}
	for seed := uint64(1); seed <= 40; seed++ {
		if Draw(seed).Form != Quorum { // doc.go's HAZARD
			repeats(t, seed, 1)
		}
	}
	repeats(t, 164, 10)
}

// repeats plays a seed, and so many times again.
func repeats(t *testing.T, seed uint64, times int) {
	t.Helper()
	first := lines(watched(t, Draw(seed)))
	for range times {
		again := lines(watched(t, Draw(seed)))
		for n := range min(len(first), len(again)) {
			if first[n] != again[n] {
				t.Errorf("seed %d: two plays differ after\n%s\none has\n%s\nthe other\n%s", seed,
					strings.Join(first[max(n-3, 0):n], "\n"), first[n], again[n])
				return
			}
		}
	}
}

// lines are the lines of a history, those of one instant sorted.
func lines(h *History) []string {
	all := strings.Split(h.String(), "\n")
	instant := func(line string) string {
		at, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		return at
	}
	for from, to := 0, 0; from < len(all); from = to {
		for to = from; to < len(all) && instant(all[to]) == instant(all[from]); {
			to++
		}
		slices.Sort(all[from:to])
	}
	return all
}

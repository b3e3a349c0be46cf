// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
	"github.com/getsetlock/getsetlock/skew"
)

func mustSimulate(t testing.TB, s Fleet) Rates {
	t.Helper()
	r, err := run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func run(s Fleet) (Rates, error) {
	m, err := New(s)
	if err != nil {
		return Rates{}, err
	}
	for m.Run(1 << 20) {
	}
	return m.Rates(), nil
}

// constantly always draws d.
func constantly(d time.Duration) Distribution { return Distribution{a: d} }

func mustParse(t testing.TB, text string) Distribution {
	t.Helper()
	d, err := ParseDistribution("test", text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plainFleet is healthy: its jobs are far below the lease.
func plainFleet() Fleet {
	return Fleet{
		Dialect: dialect.Jedis(), Clients: 4, Job: constantly(30 * ms), Rest: constantly(20 * ms),
		Latency: constantly(100 * time.Microsecond), Acquisitions: 20_000, Seed: 1,
	}
}

// Two clients with constant times: an episode is seen exactly where the law
// says that one is possible, except where a poll or the phase of a unit can
// hide it.
func TestEpisodesAppearWhereTheLawAllowsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	// A fast client that returned at once would never let the slow one hold.
	rest, seen, unseen := mustParse(t, "0s..12s"), 0, 0
	for i := range less(400) {
		d := []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.Errorception(), dialect.Faye(),
			dialect.JedisAQS(), dialect.TaskTiger(), dialect.SetDel(), dialect.Gorlock()}[i%8]
		lease := time.Duration(1+random.IntN(4)) * sec
		way := time.Duration(random.IntN(3)) * 500 * time.Microsecond
		spread := time.Duration(random.IntN(2000)) * ms
		job := time.Duration(200+random.IntN(3000)) * ms
		s := Fleet{
			Dialect: d, Clients: 2, Lease: lease, Job: constantly(job), Rest: rest, Latency: constantly(way),
			Poll:    10 * ms,
			Offsets: []time.Duration{0, spread}, Acquisitions: 2000, Seed: uint64(i),
		}
		r := mustSimulate(t, s)
		// A holder has the lock for two ways longer than its job. A
		// challenger's stamp is five ways old when its GETSET arrives.
		v, err := skew.Law{Dialect: d, Lease: lease, Job: job + 2*way, Delay: 5 * way,
			Spread: spread}.Verdict()
		if err != nil {
			t.Fatal(err)
		}
		hidden := 10*ms + 8*way + d.Unit.Step()
		switch {
		case r.Episodes > 0 && !v.Possible:
			t.Fatalf("%s lease %v job %v spread %v way %v: %d episodes, the law has none", d, lease, job,
				spread, way, r.Episodes)
		case r.Episodes == 0 && v.Overlap > hidden:
			t.Fatalf("%s lease %v job %v spread %v way %v: no episode, the law has %v", d, lease, job, spread,
				way, v.Overlap)
		case r.Episodes > 0:
			seen++
		default:
			unseen++
		}
	}
	if n := less(100); seen < n || unseen < n {
		t.Errorf("%d with episodes, %d without: one side is hardly tried", seen, unseen)
	}
}

func TestSameSeedHasTheSameResult(t *testing.T) {
	s := plainFleet()
	s.Job, s.Latency = mustParse(t, "lognormal:p50=1s,p99=70s"), mustParse(t, "exp:300us")
	for _, p := range raced.Few(Presets()) {
		s.Clocks, s.For, s.Acquisitions = p.Clocks, 6*time.Hour, 2000
		first, second := mustSimulate(t, s), mustSimulate(t, s)
		if fmt.Sprintf("%+v", first) != fmt.Sprintf("%+v", second) {
			t.Errorf("%s: %+v\nand %+v", p.Name, first, second)
		}
		s.Seed++
		if fmt.Sprintf("%+v", first) == fmt.Sprintf("%+v", mustSimulate(t, s)) {
			t.Errorf("%s: another seed changes nothing", p.Name)
		}
	}
}

// The run is made in pieces and at once, and the holders are counted anew after
// every event.
func TestEpisodesAreSpansWithTwoOrMoreHolders(t *testing.T) {
	s := plainFleet()
	s.Clients, s.Lease, s.Job, s.Acquisitions = 6, sec, mustParse(t, "100ms..2s"), 3000
	s.Offsets = []time.Duration{300 * ms}
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	var episodes, most, entries, acquired int
	var total, longest, since time.Duration
	before := 0
	for m.Run(1) {
		holders := 0
		for i := range m.clients {
			if m.clients[i].holding {
				holders++
			}
		}
		now := time.Duration(m.now - simulationStart)
		if holders > before {
			acquired++
			if before > 0 {
				entries++
			}
		}
		if before < 2 && holders == 2 {
			episodes, since = episodes+1, now
		}
		if before == 2 && holders == 1 {
			total, longest = total+now-since, max(longest, now-since)
		}
		most, before = max(most, holders), holders
	}
	if before > 1 {
		open := time.Duration(m.now-simulationStart) - since
		total, longest = total+open, max(longest, open)
	}
	r := m.Rates()
	if int(r.Episodes) != episodes || r.MostHolders != most || int(r.Entries) != entries ||
		r.EpisodeTime != total ||
		r.LongestEpisode != longest || int(r.Acquisitions) != acquired || episodes < 100 {
		t.Errorf(
			"%d episodes, %v, longest %v, %d holders, %d entries, %d acquisitions; the simulator says %+v",
			episodes, total, longest, most, entries, acquired, r)
	}
	if whole := mustSimulate(t, s); whole != r {
		t.Errorf("at once %+v, in pieces %+v", whole, r)
	}
}

func TestHealthyFleetNeverOverlaps(t *testing.T) {
	s := plainFleet()
	for _, d := range raced.Few(dialect.Presets()) {
		if d.OrMine || d.NeverReleases() {
			continue
		}
		s.Dialect, s.Lease, s.Poll = d, 30*sec, 20*ms
		if r := mustSimulate(t, s); r.Episodes > 0 || r.Acquisitions != s.Acquisitions || r.MostHolders != 1 {
			t.Errorf("%s: %+v", d, r)
		}
	}
}

func TestPercentilesAreWithinASlot(t *testing.T) {
	var h histogram
	random := rand.New(rand.NewPCG(3, 3))
	var all []int64
	for range 20_000 {
		n := int64(1) << random.IntN(50)
		n += random.Int64N(n)
		all = append(all, n)
		h.add(n)
	}
	slices.Sort(all)
	for _, percent := range []int64{1, 50, 99, 100} {
		want := all[len(all)*int(percent)/100-1]
		if got := h.quantile(percent, 0); got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("p%d: %d, want %d", percent, got, want)
		}
	}
	// Of 20,300 attempts of which 300 never ended, one in 100 is among these.
	half, most := h.quantile(50, 300), h.quantile(99, 300)
	if half < all[10_150-1] || half >= all[11_000] || most != -1 {
		t.Errorf("with attempts that never ended: %d and %d", half, most)
	}
	for _, n := range []int64{0, 1, 63, 64, 127, 128, 1 << 40, never} {
		if i := slot(n); slotEnd(i) < n || i > 0 && slotEnd(i-1) >= n {
			t.Errorf("%d is in slot %d, which ends at %d", n, i, slotEnd(i))
		}
	}
}

func TestMemoryDoesNotGrowWithTheRun(t *testing.T) {
	s := plainFleet()
	p, err := Lookup("jvm-gc")
	if err != nil {
		t.Fatal(err)
	}
	s.Clocks, s.Job, s.Acquisitions = p.Clocks, mustParse(t, "exp:30ms"), 1<<40
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(5, func() { m.Run(20_000) }); n > 0 {
		t.Errorf("%v allocations in 20,000 events", n)
	}
}

func TestImpossibleSimulationNamesFieldAndBound(t *testing.T) {
	for field, change := range map[string]func(*Fleet){
		"Clients": func(s *Fleet) { s.Clients = 0 },
		"Lease":   func(s *Fleet) { s.Lease = -1 },
		"Poll":    func(s *Fleet) { s.Poll = -1 },
		"Job":     func(s *Fleet) { s.Job = constantly(-1) },
		"Rest":    func(s *Fleet) { s.Rest = constantly(-1) },
		"Latency": func(s *Fleet) {
			s.Dialect, s.Lease, s.Latency = dialect.JedisAQS(), sec, Distribution{}
		},
		"Offsets":      func(s *Fleet) { s.Offsets = make([]time.Duration, 5) },
		"Acquisitions": func(s *Fleet) { s.Acquisitions = -1 },
		"For":          func(s *Fleet) { s.Acquisitions = 0 },
	} {
		s := plainFleet()
		change(&s)
		_, err := New(s)
		var parameter *skew.ParameterError
		if !errors.As(err, &parameter) || parameter.Field != field || parameter.Bound == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	s := plainFleet()
	s.Dialect.Release = dialect.ReleaseNever
	if _, err := New(s); err == nil {
		t.Error("a run of clients that never release may have no end, and is taken")
	}
}

// FuzzSimulate checks that no fleet makes a simulation hang, panic or count
// what cannot be.
func FuzzSimulate(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(2), uint8(3), "exp:1s", "exp:1ms")
	f.Add(uint64(2), uint8(9), uint8(9), uint8(12), "0s", "5ms")
	presets, dialects := Presets(), dialect.Presets()
	f.Fuzz(func(t *testing.T, seed uint64, which, preset, clients uint8, job, latency string) {
		d := dialects[int(which)%len(dialects)]
		j, err := ParseDistribution("job", job)
		l, err2 := ParseDistribution("latency", latency)
		if errors.Join(err, err2) != nil {
			return
		}
		s := Fleet{
			Dialect: d, Clients: 1 + int(clients)%16, Lease: 5 * sec, Job: j, Latency: l,
			Clocks: presets[int(preset)%len(presets)].Clocks, For: day, Seed: seed,
		}
		m, err := New(s)
		if err != nil {
			return
		}
		m.Run(20_000)
		r := m.Rates()
		if r.Entries > r.Acquisitions || r.Episodes > r.Entries || r.EpisodeTime > r.Span ||
			r.Blocked > r.Span || r.Blocked < 0 ||
			r.LongestEpisode > r.EpisodeTime || r.MostHolders > s.Clients || m.tally.waiting < 0 ||
			m.tally.holders < 0 ||
			r.Episodes != r.Causes.Skew+r.Causes.Job+r.Causes.Jump+r.Causes.Protocol || m.Done() > 1 {
			t.Fatalf("%+v", r)
		}
	})
}

package skew

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

func mustSimulate(t testing.TB, s Simulation) Rates {
	t.Helper()
	r, err := Simulate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustParse(t testing.TB, text string) Distribution {
	t.Helper()
	d, err := ParseDistribution("test", text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plainFleet is healthy: jobs far below the lease.
func plainFleet() Simulation {
	return Simulation{
		Dialect: dialect.Jedis(), Clients: 4, Job: Constant(30 * ms), Rest: Constant(20 * ms),
		Latency: Constant(100 * time.Microsecond), Acquisitions: 20_000, Seed: 1,
	}
}

// bytesOf is what a client of the dialect has on the wire for a value of the simulator.
func bytesOf(d dialect.Dialect, v simValue, present bool) dialect.Reply {
	if !present {
		return dialect.Nil()
	}
	d.CutLease = true
	id := d.NewID([16]byte{byte(v.writer), byte(v.stamp), byte(v.stamp >> 8)})
	at := time.Unix(0, v.stamp)
	if d.HasStamp() {
		at = at.Add(-time.Hour - d.Slack)
	}
	text, err := d.Stamp(at, time.Hour, id)
	if err != nil {
		panic(err)
	}
	return dialect.Text(text)
}

// The simulator's rules on numbers against package dialect's on bytes: every preset, values and clocks
// around each other's edges.
func TestSimulatedRulesAreTheDialects(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, d := range dialect.Presets() {
		r := newSimRules(Simulation{Dialect: d, Lease: time.Hour, Poll: d.Poll})
		grid := max(int64(ms), r.unit)
		base := int64(simulationStart) - simulationStart%grid
		value := func() (simValue, bool) {
			v := simValue{base + random.Int64N(5)*grid, int32(random.IntN(3))}
			return v, random.IntN(5) > 0
		}
		for range 4000 {
			seen, present := value()
			old, oldPresent := value()
			if random.IntN(2) == 0 {
				old, oldPresent = seen, present
			}
			own, _ := value()
			nowNanos := base + random.Int64N(6*grid/int64(ms))*int64(ms)
			if random.IntN(2) == 0 {
				nowNanos -= nowNanos % r.unit
			}
			now, client := time.Unix(0, nowNanos), int32(random.IntN(3))
			id := d.NewID([16]byte{byte(client)})
			if r.uuid {
				// Identities are compared, so each writer has one for all its stamps.
				id = strings.SplitN(bytesOf(d, simValue{0x100000 * int64(time.Hour), client}, true).Value, ":", 2)[0]
			}
			seenBytes, oldBytes, ownBytes := wireOf(d, seen, present), wireOf(d, old, oldPresent), wireOf(d, own, true)
			if got, want := r.next(seen, present, client, nowNanos), d.LegacyNext(seenBytes, wireID(d, client, id), now); got != want {
				t.Fatalf("%s: after %+v at %v: %s, want %s", d, seenBytes, now, got, want)
			}
			if got, want := r.wins(old, seen, oldPresent, present, nowNanos), d.LegacyWins(oldBytes, seenBytes, now); r.takeover && got != want {
				t.Fatalf("%s: GETSET returned %+v, GET %+v at %v: %s, want %s", d, oldBytes, seenBytes, now, got, want)
			}
			if d.Release == dialect.ReleaseNever {
				continue
			}
			if got, want := r.releases(own, seen, present, nowNanos), d.LegacyReleases(ownBytes.Value, seenBytes, now); sameRelease(got) != sameRelease(want) {
				t.Fatalf("%s: release of %+v with %+v at %v: %s, want %s", d, ownBytes, seenBytes, now, got, want)
			}
		}
	}
}

// A release that fails leaves the key, like one that leaves it.
func sameRelease(s dialect.ReleaseStep) dialect.ReleaseStep {
	if s == dialect.ReleaseFails {
		return dialect.ReleaseLeaves
	}
	return s
}

func wireID(d dialect.Dialect, client int32, id string) string {
	if d.Shape == dialect.ShapeUUIDNumber {
		return d.NewID([16]byte{byte(client)})
	}
	return id
}

// wireOf writes a value with one identity for each writer; tokens have one for each value.
func wireOf(d dialect.Dialect, v simValue, present bool) dialect.Reply {
	if !d.HasStamp() || !present {
		return bytesOf(d, v, present)
	}
	d.CutLease = true
	text, err := d.Stamp(time.Unix(0, v.stamp-int64(time.Hour+d.Slack)), time.Hour, d.NewID([16]byte{byte(v.writer)}))
	if err != nil {
		panic(err)
	}
	return dialect.Text(text)
}

func TestStampOfTheSimulatorIsTheDialects(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	for _, d := range dialect.Presets() {
		if !d.HasStamp() {
			continue
		}
		lease := 90 * sec
		r := newSimRules(Simulation{Dialect: d, Lease: lease, Poll: d.Poll})
		for range 2000 {
			now := time.Unix(0, simulationStart+random.Int64N(1e13)).Truncate(time.Microsecond)
			text, err := d.Stamp(now, lease, d.NewID([16]byte{}))
			if err != nil {
				t.Fatal(err)
			}
			value, err := d.Decode(text, now)
			if err != nil {
				t.Fatal(err)
			}
			if away := value.Expiry.Sub(time.Unix(0, r.stamp(now.UnixNano()))).Abs(); away > 0 && (d.Unit != dialect.UnitFloatSeconds || away > time.Microsecond) {
				t.Fatalf("%s at %v: %v away", d, now, away)
			}
		}
	}
}

// Two clients, constant times: an episode is seen exactly where the law says that one is possible, but
// for less than what a poll and the phase of a unit can hide.
func TestEpisodesAreSeenWhereTheLawAllowsThem(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	// A fast client that came back at once would never let the slow one hold.
	rest, seen, unseen := mustParse(t, "0s..12s"), 0, 0
	for i := range 400 {
		d := []dialect.Dialect{dialect.Jedis(), dialect.Page(), dialect.Errorception(), dialect.Faye(), dialect.JedisAQS(), dialect.TaskTiger(), dialect.SetDel(), dialect.Gorlock()}[i%8]
		lease := time.Duration(1+random.IntN(4)) * sec
		way := time.Duration(random.IntN(3)) * 500 * time.Microsecond
		spread := time.Duration(random.IntN(2000)) * ms
		job := time.Duration(200+random.IntN(3000)) * ms
		s := Simulation{
			Dialect: d, Clients: 2, Lease: lease, Job: Constant(job), Rest: rest, Latency: Constant(way), Poll: 10 * ms,
			Offsets: []time.Duration{0, spread}, Acquisitions: 2000, Seed: uint64(i),
		}
		r := mustSimulate(t, s)
		// A holder has the lock for two ways more than its job; a challenger's stamp is five ways old when
		// its GETSET comes.
		v, err := Law{Dialect: d, Lease: lease, Job: job + 2*way, Delay: 5 * way, Spread: spread}.Verdict()
		if err != nil {
			t.Fatal(err)
		}
		hidden := 10*ms + 8*way + d.Unit.Step()
		switch {
		case r.Episodes > 0 && !v.Possible:
			t.Fatalf("%s lease %v job %v spread %v way %v: %d episodes, the law has none", d, lease, job, spread, way, r.Episodes)
		case r.Episodes == 0 && v.Overlap > hidden:
			t.Fatalf("%s lease %v job %v spread %v way %v: no episode, the law has %v", d, lease, job, spread, way, v.Overlap)
		case r.Episodes > 0:
			seen++
		default:
			unseen++
		}
	}
	if seen < 100 || unseen < 100 {
		t.Errorf("%d with episodes, %d without: one side is hardly tried", seen, unseen)
	}
}

func TestSameSeedSameResultToTheByte(t *testing.T) {
	s := plainFleet()
	s.Job, s.Latency = mustParse(t, "lognormal:p50=1s,p99=70s"), mustParse(t, "exp:300us")
	for _, p := range Presets() {
		s.Clocks, s.CrashShare, s.For, s.Acquisitions = p.Clocks, 0.001, 6*time.Hour, 2000
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

// In pieces or at once, and with the holders counted anew after every event.
func TestEpisodesAreTheSpansWithTwoHoldersOrMore(t *testing.T) {
	s := plainFleet()
	s.Clients, s.Lease, s.Job, s.Acquisitions = 6, sec, mustParse(t, "100ms..2s"), 3000
	s.Offsets = []time.Duration{300 * ms}
	m, err := NewSimulator(s)
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
	if int(r.Episodes) != episodes || r.MostHolders != most || int(r.Entries) != entries || r.EpisodeTime != total ||
		r.LongestEpisode != longest || int(r.Acquisitions) != acquired || episodes < 100 {
		t.Errorf("%d episodes, %v, longest %v, %d holders, %d entries, %d acquisitions; the simulator says %+v",
			episodes, total, longest, most, entries, acquired, r)
	}
	if whole := mustSimulate(t, s); whole != r {
		t.Errorf("at once %+v, in pieces %+v", whole, r)
	}
}

func TestHealthyFleetNeverOverlaps(t *testing.T) {
	s := plainFleet()
	for _, d := range dialect.Presets() {
		if d.OrMine || d.NeverReleases() {
			continue
		}
		s.Dialect, s.Lease, s.Poll = d, 30*sec, 20*ms
		if r := mustSimulate(t, s); r.Episodes > 0 || r.Acquisitions != s.Acquisitions || r.MostHolders != 1 {
			t.Errorf("%s: %+v", d, r)
		}
	}
}

func TestDoubleGrantOfJedisUUIDNeedsNoSkew(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.Lease, s.Job, s.Latency = dialect.JedisUUID(), 10*sec, mustParse(t, "exp:500ms"), mustParse(t, "exp:2ms")
	s.CrashShare, s.For = 0.02, 30*day
	r := mustSimulate(t, s)
	if r.Causes.Protocol == 0 || r.Causes.Main() != CauseProtocol {
		t.Errorf("got %+v", r)
	}
	s.Dialect = dialect.Jedis()
	if r := mustSimulate(t, s); r.Causes.Protocol > 0 {
		t.Errorf("Jedis: %+v", r)
	}
}

// SET NX EX 3 with a job of 7 s: the first overrun DEL frees the second's key, and so on.
func TestOneOverrunBecomesAChain(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.Lease, s.Job, s.Clients, s.Acquisitions = dialect.SetDel(), 3*sec, Constant(7*sec), 5, 500
	r := mustSimulate(t, s)
	if r.LongestChain < 3 || r.MostHolders < 3 || r.Causes.Main() != CauseJob || r.Causes.Skew+r.Causes.Jump+r.Causes.Protocol > 0 {
		t.Errorf("got %+v", r)
	}
}

func TestCauseIsSkewWhereJobsAreShortAndClocksApart(t *testing.T) {
	s := plainFleet()
	s.Lease, s.Job, s.Acquisitions = sec, Constant(600*ms), 2000
	s.Offsets = []time.Duration{0, 700 * ms}
	if r := mustSimulate(t, s); r.Causes.Main() != CauseSkew || r.Causes.Job > 0 || r.Causes.Jump > 0 {
		t.Errorf("apart: %+v", r)
	}
	s.Offsets = []time.Duration{-700 * ms, 0, 0, 0}
	if r := mustSimulate(t, s); r.Causes.Main() != CauseSkew || r.Causes.Job > 0 || r.Causes.Jump > 0 {
		t.Errorf("one behind: %+v", r)
	}
	s.Offsets = nil
	if r := mustSimulate(t, s); r.Episodes > 0 {
		t.Errorf("together: %+v", r)
	}
	s.Job = Constant(1500 * ms)
	if r := mustSimulate(t, s); r.Causes.Main() != CauseJob || r.Causes.Skew+r.Causes.Jump > 0 {
		t.Errorf("long jobs: %+v", r)
	}
}

// The clocks agree, but for steps of 1.9 s there and back; only what comes right after one is a jump.
func TestCauseIsTheJumpRightAfterIt(t *testing.T) {
	var jumps int64
	for seed := range uint64(10) {
		s := plainFleet()
		s.Lease, s.Job, s.Rest, s.Clients, s.Acquisitions, s.Seed = 2*sec, Constant(1500*ms), mustParse(t, "exp:1s"), 3, 3000, seed
		s.Clocks = Clocks{Step: Steps{Kind: StepInward, By: 1900 * ms, Every: time.Hour}}
		r := mustSimulate(t, s)
		jumps += r.Causes.Jump
		if r.Causes.Job+r.Causes.Protocol > 0 {
			t.Errorf("seed %d: %+v", seed, r)
		}
	}
	if jumps < 5 {
		t.Errorf("%d jumps in ten runs", jumps)
	}
}

func TestPausesOfAHolderCountAsLongJobs(t *testing.T) {
	p, err := Lookup("vm-pause")
	if err != nil {
		t.Fatal(err)
	}
	s := plainFleet()
	s.Lease, s.Job, s.Clocks, s.Acquisitions, s.For = 3*sec, Constant(500*ms), p.Clocks, 0, 20*day
	s.Rest = Constant(sec)
	r := mustSimulate(t, s)
	if r.Causes.Job == 0 || r.Causes.Skew+r.Causes.Jump > 0 {
		t.Errorf("got %+v", r)
	}
}

// The law's recovery: a crashed holder blocks the key for lease + c, more if its clock was ahead.
func TestCrashedHolderBlocksTheKeyForItsLease(t *testing.T) {
	s := plainFleet()
	s.Clients, s.Lease, s.Job, s.CrashShare, s.For, s.Acquisitions = 2, 10*sec, Constant(ms), 1, time.Hour, 50
	s.Restart = Constant(0)
	for _, ahead := range []time.Duration{0, 40 * sec} {
		s.Offsets = []time.Duration{ahead, ahead}
		r := mustSimulate(t, s)
		each := r.Blocked / time.Duration(r.Acquisitions)
		if each < 9500*ms || each > 10200*ms || r.Crashes < 45 {
			t.Errorf("both %v ahead: %v each, %+v", ahead, each, r)
		}
	}
	// One is 40 s ahead, and stays away after its crash; the other does not give up.
	s.Dialect, s.Lease, s.Restart, s.Offsets = dialect.Errorception(), 10*sec, Constant(2*time.Hour), []time.Duration{40 * sec, 0}
	longest := time.Duration(0)
	for s.Seed = range uint64(8) {
		longest = max(longest, mustSimulate(t, s).WaitMost)
	}
	if longest < 49500*ms || longest > 50200*ms {
		t.Errorf("one ahead: longest wait %v", longest)
	}
}

func TestKeyOfACrashedClientWithoutTimeIsBlockedForEver(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.CrashShare, s.For, s.Acquisitions = dialect.Bare(), 0.5, time.Hour, 0
	r := mustSimulate(t, s)
	if r.Blocked < 59*time.Minute || r.Span != time.Hour {
		t.Errorf("got %+v", r)
	}
}

func TestLostGetsetDropsTheTTL(t *testing.T) {
	s := plainFleet()
	s.Dialect = dialect.Gorlock()
	m, err := NewSimulator(s)
	if err != nil {
		t.Fatal(err)
	}
	c := &m.clients[0]
	m.clients[1].began = m.now
	m.setnx(&m.clients[1])
	if m.key.expires != m.now+int64(s.Dialect.Lease) {
		t.Fatalf("won: %+v", m.key)
	}
	c.waiting, c.pc, c.present, c.seen = true, simGetset, true, simValue{1, 2}
	m.tally.waiting++
	m.getset(c)
	if m.key.expires != never || m.key.value.writer != 0 || m.tally.clobbers != 1 || m.key.owner != 1 {
		t.Errorf("clobbered: %+v", m.key)
	}
}

func TestClientsGiveUpAfterTheirDialectsWait(t *testing.T) {
	s := plainFleet()
	s.Clients, s.Job, s.Acquisitions = 2, Constant(40*sec), 50
	r := mustSimulate(t, s)
	if r.GaveUp < 40 || r.WaitMost > 11*sec {
		t.Errorf("Jedis waits 10 s: %+v", r)
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
		if got := h.quantile(percent); got < want || float64(got) > float64(want)*1.016+1 {
			t.Errorf("p%d: %d, want %d", percent, got, want)
		}
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
	m, err := NewSimulator(s)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(5, func() { m.Run(20_000) }); n > 0 {
		t.Errorf("%v allocations in 20,000 events", n)
	}
}

func TestImpossibleSimulationNamesFieldAndBound(t *testing.T) {
	for field, change := range map[string]func(*Simulation){
		"Clients":      func(s *Simulation) { s.Clients = 0 },
		"Lease":        func(s *Simulation) { s.Lease = -1 },
		"Poll":         func(s *Simulation) { s.Poll = -1 },
		"Job":          func(s *Simulation) { s.Job = Constant(-1) },
		"Rest":         func(s *Simulation) { s.Rest = Constant(-1) },
		"Latency":      func(s *Simulation) { s.Dialect, s.Lease, s.Latency = dialect.JedisAQS(), sec, Distribution{} },
		"Offsets":      func(s *Simulation) { s.Offsets = make([]time.Duration, 5) },
		"CrashShare":   func(s *Simulation) { s.CrashShare = 2 },
		"Acquisitions": func(s *Simulation) { s.Acquisitions = -1 },
		"For":          func(s *Simulation) { s.Acquisitions = 0 },
		"Clocks.PPM":   func(s *Simulation) { s.Clocks.PPM = -1 },
	} {
		s := plainFleet()
		change(&s)
		_, err := Simulate(s)
		var parameter *ParameterError
		if !errors.As(err, &parameter) || parameter.Field != field || parameter.Bound == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	s := plainFleet()
	s.CrashShare = 0.1
	if _, err := Simulate(s); err == nil {
		t.Error("a run that crashes may have no end, and is taken")
	}
}

// FuzzSimulate: no fleet makes it hang, panic or count what cannot be.
func FuzzSimulate(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(2), uint8(3), "exp:1s", "exp:1ms", uint16(10))
	f.Add(uint64(2), uint8(9), uint8(9), uint8(12), "0s", "5ms", uint16(500))
	presets, dialects := Presets(), dialect.Presets()
	f.Fuzz(func(t *testing.T, seed uint64, which, preset, clients uint8, job, latency string, crash uint16) {
		d := dialects[int(which)%len(dialects)]
		j, err := ParseDistribution("job", job)
		l, err2 := ParseDistribution("latency", latency)
		if errors.Join(err, err2) != nil {
			return
		}
		s := Simulation{
			Dialect: d, Clients: 1 + int(clients)%16, Lease: 5 * sec, Job: j, Latency: l, Clocks: presets[int(preset)%len(presets)].Clocks,
			CrashShare: float64(crash%1000) / 1000, For: day, Seed: seed,
		}
		m, err := NewSimulator(s)
		if err != nil {
			return
		}
		m.Run(20_000)
		r := m.Rates()
		if r.Entries > r.Acquisitions || r.Episodes > r.Entries || r.EpisodeTime > r.Span || r.Blocked > r.Span || r.Blocked < 0 ||
			r.LongestEpisode > r.EpisodeTime || r.MostHolders > s.Clients || m.tally.waiting < 0 || m.tally.holders < 0 ||
			r.Episodes != r.Causes.Skew+r.Causes.Job+r.Causes.Jump+r.Causes.Protocol || m.Done() > 1 {
			t.Fatalf("%+v", r)
		}
	})
}

// The plain case: four clients, constant times. One iteration is one acquisition.
func BenchmarkSimulatePlain(b *testing.B) { benchmarkSimulate(b, plainFleet()) }

// Jobs, latencies, drift, steps and pauses are drawn.
func BenchmarkSimulateEverything(b *testing.B) {
	s := plainFleet()
	s.Job, s.Latency = mustParse(b, "lognormal:p50=20ms,p99=200ms"), mustParse(b, "exp:300us")
	s.Clocks = Clocks{Low: -ms, High: ms, PPM: 30, Step: Steps{Kind: StepInward, By: ms, Every: time.Minute}, Pauses: []Pause{{50 * ms, 3 * sec}}}
	benchmarkSimulate(b, s)
}

func BenchmarkSimulateHundredClients(b *testing.B) {
	s := plainFleet()
	s.Clients = 100
	benchmarkSimulate(b, s)
}

func benchmarkSimulate(b *testing.B, s Simulation) {
	s.Acquisitions = int64(b.N)
	m, err := NewSimulator(s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for m.Run(1 << 16) {
	}
	b.ReportMetric(float64(m.tally.acquisitions)/b.Elapsed().Seconds(), "acquisitions/s")
	b.ReportMetric(float64(m.tally.commands)/b.Elapsed().Seconds(), "commands/s")
}

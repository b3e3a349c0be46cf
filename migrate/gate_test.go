package migrate

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

var judged = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// orderly is a fleet of two members that stands in a phase, of which everything is known, and that
// nobody disturbed for an hour.
func orderly(p Phase) *facts {
	m := MemberState{
		ID: "a", Dialect: "Jedis", Epoch: 3, Phase: p, Seen: judged.Add(-time.Second), Every: defaultEvery,
		TTL: 30 * time.Second, Leases: map[Phase]int{p: 2}, Probe: probeOK,
	}
	n := m
	n.ID = "b"
	return &facts{
		dialect: dialect.Jedis(), now: judged,
		record: stored{bytes: "x", Record: Record{
			Epoch: 3, Phase: p, Since: judged.Add(-time.Hour), Dialect: "Jedis",
			Fleet: Fleet{
				Lease: Known{time.Minute, Claimed}, Greatest: Known{time.Minute, Claimed}, Spread: Known{time.Second, Claimed},
				Gap: Known{time.Second, Claimed}, Job: Known{30 * time.Second, Claimed},
			},
		}},
		survey: survey{members: []MemberState{m, n}, records: map[string]bool{"": true}},
		sighting: Sighting{
			Format: sightingFormat, Observer: "a", From: judged.Add(-time.Hour), Until: judged.Add(-time.Second),
			Quiet: map[Watch]time.Duration{WatchStats: time.Hour},
		},
		server: serverInfo{policy: "noeviction", known: true},
	}
}

// needed is the window of an orderly fleet.
const needed = time.Minute + 30*time.Second + time.Second

func TestAnOrderlyFleetFindsEveryGateOpenToANeighbourAlone(t *testing.T) {
	for _, from := range Phases() {
		for _, to := range Phases() {
			if from.Adjacent(to) {
				g := judge(orderly(from), to)
				closed(t, &g)
			}
		}
	}
}

// inferred is a guess of who watches.
func inferred(d time.Duration) Fact { return Fact{Time: d, Basis: "inferred"} }

// disorder is one thing wrong with an orderly fleet, and the rules that it closes the gate by.
type disorder struct {
	from, to Phase
	harm     func(*facts)
	rules    []string
}

var disorders = map[string]disorder{
	"no record":                 {Dual, Sealed, func(f *facts) { f.record = stored{} }, []string{"record"}},
	"a newer record":            {Dual, Sealed, func(f *facts) { f.record.err = ErrNewer }, []string{"record"}},
	"another dialect":           {Dual, Sealed, func(f *facts) { f.dialect = dialect.Page() }, []string{"dialect"}},
	"an empty registry":         {Sealed, Dual, func(f *facts) { f.survey.members = nil }, []string{"members"}},
	"an unreadable member":      {Dual, Sealed, func(f *facts) { f.survey.members[1].err = ErrNewer }, []string{"members"}},
	"a vanished member":         {Sealed, Dual, func(f *facts) { f.survey.members[1].Seen = judged.Add(-17 * time.Second) }, []string{"vanished"}},
	"a heartbeat in the future": {Dual, Sealed, func(f *facts) { f.survey.members[1].Seen = judged.Add(2 * time.Second) }, []string{"clock"}},
	"a member of a later epoch": {Dual, Sealed, func(f *facts) { f.survey.members[1].Epoch = 4 }, []string{"epoch"}},
	"a phaseless member":        {Sealed, Modern, func(f *facts) { f.survey.members[1].Phase = NoPhase }, []string{"phase"}},
	"a lagging member":          {Sealed, Modern, func(f *facts) { f.survey.members[1].Phase = Dual }, []string{"phase"}},
	"a member two ahead":        {Observe, Dual, func(f *facts) { f.survey.members[1].Phase = Sealed }, []string{"phase"}},
	"a member lagging by an epoch": {Dual, Sealed, func(f *facts) {
		f.survey.members[1].Phase, f.survey.members[1].Epoch = Sealed, 2
	}, []string{"phase"}},
	"a member of another dialect":  {Sealed, Dual, func(f *facts) { f.survey.members[1].Dialect = "Page" }, []string{"dialect"}},
	"an old lease":                 {Sealed, Modern, func(f *facts) { f.survey.members[1].Leases = map[Phase]int{Dual: 1} }, []string{"leases"}},
	"a long lease on the way back": {Sealed, Dual, func(f *facts) { f.survey.members[1].Leases = map[Phase]int{Modern: 1} }, []string{"leases"}},
	"scripts not run":              {Observe, Dual, func(f *facts) { f.survey.members[1].Probe = "" }, []string{"probe"}},
	"scripts refused":              {Observe, Dual, func(f *facts) { f.survey.members[1].Probe = "NOPERM" }, []string{"probe"}},
	"nothing known":                {Observe, Dual, func(f *facts) { f.record.Fleet = Fleet{} }, []string{"lease", "spread", "gap", "job"}},
	"a gap only seen": {Observe, Dual, func(f *facts) {
		f.record.Fleet.Gap, f.sighting.Gap = Known{}, Fact{Time: time.Second, Basis: "measured"}
	}, []string{"gap"}},
	"a lease only inferred": {Observe, Dual, func(f *facts) {
		f.record.Fleet.Lease, f.record.Fleet.Greatest = Known{}, Known{}
		f.sighting.Lease, f.sighting.Greatest = inferred(time.Minute), inferred(time.Minute)
	}, []string{"lease"}},
	"a greater lease inferred": {Observe, Dual, func(f *facts) {
		f.record.Fleet.Greatest, f.sighting.Greatest = Known{}, inferred(90*time.Second)
	}, []string{"greatest"}},
	"a spread only inferred": {Observe, Dual, func(f *facts) {
		f.record.Fleet.Spread, f.sighting.Spread = Known{}, inferred(time.Second)
	}, []string{"spread"}},
	"a job only inferred": {Observe, Dual, func(f *facts) {
		f.record.Fleet.Job, f.sighting.Job = Known{}, inferred(time.Second)
	}, []string{"job"}},
	"a refuted lease":                    {Dual, Sealed, func(f *facts) { f.sighting.Lease = Fact{Time: 50 * time.Second, Basis: "measured"} }, []string{"claim"}},
	"a refuted spread":                   {Dual, Sealed, func(f *facts) { f.sighting.Proved = Fact{Time: 2 * time.Second, Basis: "measured"} }, []string{"claim"}},
	"a refuted gap":                      {Dual, Sealed, func(f *facts) { f.sighting.Gap = Fact{Time: 2 * time.Second, Basis: "measured"} }, []string{"claim"}},
	"a lease of ours against the rule":   {Observe, Dual, func(f *facts) { f.survey.members[1].TTL = 59 * time.Second }, []string{"lease-rule"}},
	"two dialects":                       {Observe, Dual, func(f *facts) { f.sighting.Mixed = []string{"k"} }, []string{"dialect"}},
	"another dialect on keys of its own": {Observe, Dual, func(f *facts) { f.survey.UUIDs.add("stock:7") }, []string{"dialect"}},
	"GETSET first":                       {Observe, Dual, func(f *facts) { f.sighting.GetsetFirst = []string{"10.0.0.1:1"} }, []string{"getset-first"}},
	"overlapping namespaces":             {Dual, Sealed, func(f *facts) { f.survey.records["stock"] = true }, []string{"namespace"}},
	"an eviction policy": {Dual, Sealed, func(f *facts) {
		f.server = serverInfo{policy: "allkeys-lru", maxMemory: 1, known: true}
	}, []string{"eviction"}},
	"a name without a slot": {Dual, Sealed, func(f *facts) {
		f.server.cluster = true
		f.survey.Unslotted.add("a}b")
	}, []string{"slot"}},
	"nobody watches":               {Dual, Sealed, func(f *facts) { f.sighting = Sighting{} }, []string{"window"}},
	"a watcher that left":          {Dual, Sealed, func(f *facts) { f.sighting.Until = judged.Add(-16 * time.Second) }, []string{"window"}},
	"a look in the future":         {Dual, Sealed, func(f *facts) { f.sighting.Until = judged.Add(2 * time.Second) }, []string{"window"}},
	"a window too short":           {Dual, Sealed, func(f *facts) { f.sighting.Quiet[WatchStats] = needed - time.Millisecond }, []string{"window"}},
	"a window of the phase before": {Sealed, Modern, func(f *facts) { f.record.Since = judged.Add(-needed) }, []string{"window"}},
	"counts alone where nobody sends SETNX": {Dual, Sealed, func(f *facts) {
		f.dialect = dialect.SetDel()
		f.record.Dialect = "SetDel"
		for i := range f.survey.members {
			f.survey.members[i].Dialect = "SetDel"
		}
	}, []string{"window"}},
	"an attempt in vain": {Dual, Sealed, func(f *facts) {
		f.sighting.Keys = []SightedKey{{Key: "k", LastFailed: &Touch{At: judged.Add(time.Second - needed), What: "lost"}}}
	}, []string{"old-clients"}},
	"an attempt against a claim": {Dual, Sealed, func(f *facts) {
		f.claims.Gone = true
		f.sighting.Keys = []SightedKey{{Key: "k", LastWrite: &Touch{At: judged.Add(time.Second - needed), What: "acquired"}}}
	}, []string{"old-clients"}},
	"a stranger's guard":      {Dual, Sealed, func(f *facts) { f.survey.Strangers.add("k") }, []string{"guards"}},
	"tombstones":              {Dual, Observe, func(f *facts) { f.survey.Tombstones = 1 }, []string{"tombstones"}},
	"an unfinished way back":  {Dual, Observe, func(f *facts) { f.record.Pending = Sealed }, []string{"pending"}},
	"an unfinished beginning": {Observe, Dual, func(f *facts) { f.record.Pending = Clean }, []string{"pending"}},
}

func TestEveryDisorderClosesTheGate(t *testing.T) {
	for name, c := range disorders {
		t.Run(name, func(t *testing.T) {
			f := orderly(c.from)
			c.harm(f)
			g := judge(f, c.to)
			closed(t, &g, c.rules...)
			for _, b := range g.Blocks {
				if len(b.Detail) < 20 {
					t.Errorf("%s is no sentence", b.Detail)
				}
			}
		})
	}
}

func TestWhatOnlyLooksLikeDisorderLeavesTheGateOpen(t *testing.T) {
	for name, c := range map[string]struct {
		from, to Phase
		change   func(*facts)
	}{
		"three heartbeats missed":          {Dual, Sealed, func(f *facts) { f.survey.members[1].Seen = judged.Add(-16 * time.Second) }},
		"a member that is there already":   {Dual, Sealed, func(f *facts) { f.survey.members[1].Phase = Sealed }},
		"forward again":                    {Dual, Sealed, func(f *facts) { f.record.Pending = Sealed; f.survey.Tombstones = 5 }},
		"a claimed end of the old clients": {Dual, Sealed, func(f *facts) { f.sighting, f.claims.Gone = Sighting{}, true }},
		"long leases of modern":            {Modern, Clean, func(f *facts) { f.survey.members[1].TTL = time.Hour }},
		"a stranger before the seal":       {Observe, Dual, func(f *facts) { f.survey.Strangers.add("k") }},
		"a window that is just enough":     {Dual, Sealed, func(f *facts) { f.sighting.Quiet[WatchStats] = needed }},
		"a greatest lease claimed beside a guess": {Observe, Dual, func(f *facts) {
			f.claims.Greatest, f.sighting.Greatest = time.Minute, inferred(90*time.Second)
		}},
		"a policy without a bound": {Dual, Sealed, func(f *facts) { f.server.policy = "allkeys-lru" }},
		"MONITOR without a break": {Dual, Sealed, func(f *facts) {
			f.sighting.Quiet = map[Watch]time.Duration{WatchMonitor: needed}
			f.sighting.Missing = map[Watch]string{WatchStats: "other programs use SETNX"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := orderly(c.from)
			c.change(f)
			g := judge(f, c.to)
			closed(t, &g)
		})
	}
}

func TestClaimsArePrintedAsClaims(t *testing.T) {
	f := orderly(Observe)
	f.record.Fleet = Fleet{}
	f.claims = Claims{Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: time.Second}
	g := judge(f, Dual)
	closed(t, &g)
	claimed := 0
	for _, e := range g.Evidence {
		if e.Claimed {
			claimed++
		}
	}
	if claimed != 5 { // who claims one lease for all has claimed the greatest
		t.Errorf("%d claims are printed as such: %v", claimed, g.Evidence)
	}
}

// TestAGatePrintsWhatItRestsOn goes through what a human has to be shown before each step forwards.
func TestAGatePrintsWhatItRestsOn(t *testing.T) {
	at := judged.Add(-time.Hour)
	measured := func(d time.Duration) Fact { return Fact{Time: d, Basis: "measured", At: at, Who: "10.0.0.7:1 till"} }
	for p := Observe; p < Clean; p++ {
		f := orderly(p)
		f.survey.members[0].Leases = map[Phase]int{p: 2}
		f.survey.members[1].Leases, f.survey.members[1].Seen = nil, judged.Add(-time.Hour) // vanished
		f.survey.Keys, f.survey.Stamps = 2, 2
		f.survey.NoTTL.add("stock:41")
		s := &f.sighting
		s.Lease, s.Greatest, s.Spread, s.Proved = measured(time.Minute), measured(time.Minute), measured(time.Second), measured(800*time.Millisecond)
		s.Gap, s.Job = measured(300*time.Millisecond), measured(25*time.Second)
		s.Keys = []SightedKey{{
			Key: "stock:42", LastWrite: &Touch{At: at, What: "acquired", Who: "10.0.0.7:1 till"}, LastFailed: &Touch{At: at, What: "lost", Who: "10.0.0.8:2 report"},
		}}
		f.record.Fleet = Fleet{Gap: Known{time.Second, Claimed}}
		shown := map[string]bool{}
		g := judge(f, p+1)
		for _, e := range g.Evidence {
			shown[e.Rule+": "+e.Detail] = true
		}
		for _, want := range []string{
			"member: a: phase " + p.String() + ", leases " + p.String() + " 2, scripts ok",
			"member: b: phase " + p.String() + ", no leases, scripts ok",
			"lease: their smallest lease: 1m0s (measured)",
			"greatest: their greatest lease: 1m0s (measured)",
			"greatest: seen of it so far: 1m0s (measured) at 10.0.0.7:1 till",
			"spread: how far their clocks are apart at most: 1s (measured)",
			"spread: seen of it so far: no less than 800ms",
			"gap: the longest time from a clock reading of theirs to its GETSET, the longest pause included: 1s",
			"gap: seen of it so far: 300ms (measured) at 10.0.0.7:1 till",
			"job: their longest job: 25s (measured)",
			`old-clients: "stock:42" was last written by an old client at 10.0.0.7:1 till (acquired)`,
			`old-clients: "stock:42" was last tried for in vain by an old client at 10.0.0.8:2 report (lost)`,
			"eviction: no maxmemory is set, so nothing is dropped (policy noeviction)",
			"guards: no guard and no tombstone is held by who is not registered",
			`ttl: without a TTL: "stock:41"`,
		} {
			if !shown[want] {
				t.Errorf("the gate to %v does not show %q among\n%v", p+1, want, g.Evidence)
			}
		}
		closed(t, &g, "vanished")
	}
}

// TestGuardsOfStrangersAreShownWhereTheyCloseNothing: only what shuts old clients out needs to know them.
func TestGuardsOfStrangersAreShownWhereTheyCloseNothing(t *testing.T) {
	f := orderly(Observe)
	f.survey.Strangers.add("k")
	g := judge(f, Dual)
	closed(t, &g)
	for _, e := range g.Evidence {
		if e.Rule == "guards" && e.Detail == `guards of no registered member on "k"` {
			return
		}
	}
	t.Errorf("not shown: %v", g.Evidence)
}

func TestAMemberIsForgottenOnlyWhenDeadAndItsLeasesAreOver(t *testing.T) {
	for name, c := range map[string]struct {
		ago  time.Duration
		free bool
	}{"alive": {10 * time.Second, false}, "leases may run": {34 * time.Second, false}, "dead": {36 * time.Second, true}} {
		f := orderly(Dual)
		f.survey.members[1].Seen = judged.Add(-c.ago)
		taken, blocks := f.forget([]string{"b", "gone already"})
		if free := len(taken) == 1 && len(blocks) == 0 && len(f.survey.members) == 1; free != c.free {
			t.Errorf("%s: taken %v, blocks %v", name, taken, blocks)
		}
	}
}

// TestAnAcknowledgementIsOfTheRecordsEpoch: the same phase of an earlier epoch says nothing of what lay
// between.
func TestAnAcknowledgementIsOfTheRecordsEpoch(t *testing.T) {
	for epoch, want := range map[int64][]string{3: nil, 2: {"phase"}, 0: {"members"}} {
		f := orderly(Dual)
		f.survey.members[1].Epoch = epoch
		if epoch == 0 {
			f.survey.members = nil
		}
		b := &builder{facts: f}
		b.acknowledged(Dual)
		b.gate.Open = len(b.gate.Blocks) == 0
		closed(t, &b.gate, want...)
	}
}

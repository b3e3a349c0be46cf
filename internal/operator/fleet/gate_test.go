package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate"
)

var judged = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// orderly is a fleet of two members in a phase, of which everything is known,
// undisturbed for an hour.
func orderly(p migrate.Phase) *facts {
	m := seat{MemberState: migrate.MemberState{
		ID: "a", Dialect: "Jedis", Epoch: 3, Phase: p, Seen: judged.Add(-time.Second), Every: beatEvery,
		Renews: record.LeastRenewals, TTL: 30 * time.Second, Leases: map[migrate.Phase]int{p: 2},
		Probe: record.ProbeOK,
	}}
	n := m
	n.ID = "b"
	return &facts{
		dialect: dialect.Jedis(), now: judged, claims: Claims{Idle: time.Minute},
		record: stored{bytes: "x", Record: migrate.Record{
			Epoch: 3, Phase: p, Since: judged.Add(-time.Hour), Dialect: "Jedis", Roster: testNonce,
			Fleet: migrate.Fleet{
				Lease:    migrate.Known{Time: time.Minute, Source: migrate.Claimed},
				Greatest: migrate.Known{Time: time.Minute, Source: migrate.Claimed},
				Spread:   migrate.Known{Time: time.Second, Source: migrate.Claimed},
				Gap:      migrate.Known{Time: time.Second, Source: migrate.Claimed},
				Job:      migrate.Known{Time: 30 * time.Second, Source: migrate.Claimed},
			},
		}},
		survey: survey{members: []seat{m, n}, records: map[string]bool{"": true}},
		sighting: Sighting{
			Format: sightingFormat, Observer: "a", From: judged.Add(-time.Hour),
			Until: judged.Add(-time.Second),
			Quiet: time.Hour, QuietUntil: judged.Add(-time.Second),
		},
		server: serverInfo{policy: "noeviction", known: true},
		nonce:  testNonce,
	}
}

// needed is the window of an orderly fleet.
const needed = time.Minute + 30*time.Second + time.Second

// It opens to a neighbouring phase, and to no other.
func TestGateOpensForAnOrderlyFleet(t *testing.T) {
	for _, from := range migrate.Phases() {
		for _, to := range migrate.Phases() {
			if adjacent(from, to) {
				g := judge(orderly(from), to)
				closed(t, &g)
			}
		}
	}
}

// pause is what was seen between two attempts on a key.
func pause(d time.Duration) Fact { return Fact{Time: d, Basis: "measured"} }

// TestGateToModernAsksForNoNight: tombstones keep out an old client that
// returns.
func TestGateToModernAsksForNoNight(t *testing.T) {
	for _, idle := range []time.Duration{0, 24 * time.Hour} {
		f := orderly(migrate.Sealed)
		f.claims.Idle = idle
		g := judge(f, migrate.Modern)
		closed(t, &g)
	}
}

// TestPlanShowsTheNightlyClient: the road is as long as its pause, twice.
func TestPlanShowsTheNightlyClient(t *testing.T) {
	f := orderly(migrate.Dual)
	short := f.road(&Report{})
	f.claims.Idle = 25 * time.Hour
	long := f.road(&Report{})
	if d := long.Wait - short.Wait; d != 2*(25*time.Hour-needed) || long.Fleet.Idle.Time != 25*time.Hour {
		t.Errorf("the road is %v longer, idle %v", d, long.Fleet.Idle)
	}
	if needs := strings.Join(long.Legs[0].Needs, "\n"); !strings.Contains(needs,
		"25h0m0s without an attempt") {
		t.Error(needs)
	}
	f.claims.Idle = 0
	unknown := f.road(&Report{})
	closed(t, &Gate{Blocks: unknown.Legs[0].Refuses}, "idle")
	closed(t, &Gate{Open: true, Blocks: unknown.Legs[1].Refuses})
	closed(t, &Gate{Blocks: unknown.Legs[2].Refuses}, "idle")
}

// TestGateToCleanTakesRightsForAWindow: where the server refuses old clients,
// no pause matters. A client that won before may still hold.
func TestGateToCleanTakesRightsForAWindow(t *testing.T) {
	for name, c := range map[string]struct {
		rights []rights
		harm   func(*facts)
		to     migrate.Phase
		rules  []string
	}{
		"refused": {[]rights{{user: "old", refused: 3, last: judged}}, nil, migrate.Clean, nil},
		"not yet": {[]rights{{user: "old"}, {user: "older", trouble: "it may still send SETNX"}},
			nil, migrate.Clean, []string{"idle", "rights", "window"}},
		"for sealed it is not": {[]rights{{user: "old"}}, nil, migrate.Sealed, []string{"idle", "window"}},
		"one is at work": {[]rights{{user: "old"}}, func(f *facts) {
			f.sighting.Keys = []SightedKey{
				{Key: "k", LastWrite: &Touch{At: judged.Add(-time.Minute), What: "acquired"}}}
		}, migrate.Clean, []string{"old-clients"}},
		"a clock that is behind may hold": {[]rights{{user: "old"}},
			func(f *facts) { f.survey.Past.add("k") }, migrate.Clean, []string{"live"}},
		"no clock is": {[]rights{{user: "old"}}, func(f *facts) {
			f.claims.Behind = time.Second
			f.survey.Past.add("k")
		}, migrate.Clean, nil},
		"nobody was asked": {nil, nil, migrate.Clean, []string{"idle", "window"}},
	} {
		f := orderly(c.to - 1)
		f.claims.Idle, f.sighting, f.rights = 0, Sighting{}, c.rights
		if c.harm != nil {
			c.harm(f)
		}
		g := judge(f, c.to)
		closed(t, &g, c.rules...)
		line := fmt.Sprint(g)
		if says := strings.Contains(line,
			"ACL SETUSER USER -@write -@scripting"); says != (name == "nobody was asked") {
			t.Errorf("%s: it prints the line %v: %s", name, says, line)
		}
		if name == "refused" && (!strings.Contains(line, "3 attempts of user old were refused") ||
			!g.Evidence[len(g.Evidence)-1].Claimed && !strings.Contains(line, "old and as no other user")) {
			t.Error(line)
		}
	}
}

// TestGateSaysWhetherAnOldClientWasEverSeen: markers prove that the watch sees
// these names, and not that old clients use them.
func TestGateSaysWhetherAnOldClientWasEverSeen(t *testing.T) {
	f := orderly(migrate.Dual)
	for _, c := range []struct {
		touch *Touch
		want  string
	}{{nil, "no watcher has ever seen an old client here"},
		{&Touch{At: judged.Add(-2 * time.Hour), What: "lost", Who: "10.0.0.1:1"}, "at 10.0.0.1:1 (lost)"}} {
		f.sighting.LastFailed = c.touch
		g := judge(f, migrate.Sealed)
		found := false
		for _, e := range g.Evidence {
			found = found || e.Rule == "seen" && strings.Contains(e.Detail, c.want)
		}
		if !found || !g.Open {
			t.Errorf("it should say %q: %+v", c.want, g)
		}
	}
}

// inferred is a guess of a watcher.
func inferred(d time.Duration) Fact { return Fact{Time: d, Basis: "inferred"} }

// disorder is one thing wrong with an orderly fleet, and the rules that it
// closes the gate by.
type disorder struct {
	from, to migrate.Phase
	harm     func(*facts)
	rules    []string
}

var disorders = map[string]disorder{
	"no record": {migrate.Dual, migrate.Sealed, func(f *facts) { f.record = stored{} },
		[]string{"record"}},
	"a newer record": {migrate.Dual, migrate.Sealed,
		func(f *facts) { f.record.err = record.ErrNewer }, []string{"record"}},
	"another dialect": {migrate.Dual, migrate.Sealed, func(f *facts) { f.dialect = dialect.Page() },
		[]string{"dialect"}},
	"an empty registry": {migrate.Sealed, migrate.Dual, func(f *facts) { f.survey.members = nil },
		[]string{"members"}},
	"an unreadable member": {migrate.Dual, migrate.Sealed,
		func(f *facts) { f.survey.members[1].err = record.ErrNewer }, []string{"members"}},
	"a vanished member": {migrate.Sealed, migrate.Dual,
		func(f *facts) { f.survey.members[1].Seen = judged.Add(-17 * time.Second) }, []string{"vanished"}},
	"a heartbeat in the future": {migrate.Dual, migrate.Sealed,
		func(f *facts) { f.survey.members[1].Seen = judged.Add(2 * time.Second) }, []string{"clock"}},
	"a member of a later epoch": {migrate.Dual, migrate.Sealed,
		func(f *facts) { f.survey.members[1].Epoch = 4 }, []string{"epoch"}},
	"a phaseless member": {migrate.Sealed, migrate.Modern,
		func(f *facts) { f.survey.members[1].Phase = migrate.NoPhase }, []string{"phase"}},
	"a lagging member": {migrate.Sealed, migrate.Modern,
		func(f *facts) { f.survey.members[1].Phase = migrate.Dual }, []string{"phase"}},
	"a member two ahead": {migrate.Observe, migrate.Dual,
		func(f *facts) { f.survey.members[1].Phase = migrate.Sealed }, []string{"phase"}},
	"a member lagging by an epoch": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.survey.members[1].Phase, f.survey.members[1].Epoch = migrate.Sealed, 2
	}, []string{"phase"}},
	"a member of another dialect": {
		migrate.Sealed, migrate.Dual, func(f *facts) { f.survey.members[1].Dialect = "Page" },
		[]string{"dialect"}},
	"an old lease": {
		migrate.Sealed, migrate.Modern,
		func(f *facts) { f.survey.members[1].Leases = map[migrate.Phase]int{migrate.Dual: 1} },
		[]string{"leases"}},
	"a long lease on the way back": {
		migrate.Sealed, migrate.Dual,
		func(f *facts) { f.survey.members[1].Leases = map[migrate.Phase]int{migrate.Modern: 1} },
		[]string{"leases"}},
	"scripts not run": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.survey.members[1].Probe = "" }, []string{"probe"}},
	"scripts refused": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.survey.members[1].Probe = "NOPERM" },
		[]string{"probe"}},
	"nothing known": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.record.Fleet = migrate.Fleet{} },
		[]string{"lease", "spread", "gap", "job"}},
	"a gap only seen": {migrate.Observe, migrate.Dual, func(f *facts) {
		f.record.Fleet.Gap, f.sighting.Gap = migrate.Known{}, Fact{Time: time.Second, Basis: "measured"}
	}, []string{"gap"}},
	"a lease only inferred": {migrate.Observe, migrate.Dual, func(f *facts) {
		f.record.Fleet.Lease, f.record.Fleet.Greatest = migrate.Known{}, migrate.Known{}
		f.sighting.Lease, f.sighting.Greatest = inferred(time.Minute), inferred(time.Minute)
	}, []string{"lease"}},
	"a greater lease inferred": {migrate.Observe, migrate.Dual, func(f *facts) {
		f.record.Fleet.Greatest, f.sighting.Greatest = migrate.Known{}, inferred(90*time.Second)
	}, []string{"greatest"}},
	"a spread only inferred": {migrate.Observe, migrate.Dual, func(f *facts) {
		f.record.Fleet.Spread, f.sighting.Proved = migrate.Known{}, inferred(time.Second)
	}, []string{"spread"}},
	"a job only inferred": {migrate.Observe, migrate.Dual, func(f *facts) {
		f.record.Fleet.Job, f.sighting.Job = migrate.Known{}, inferred(time.Second)
	}, []string{"job"}},
	"a refuted lease": {
		migrate.Dual, migrate.Sealed,
		func(f *facts) { f.sighting.Lease = Fact{Time: 50 * time.Second, Basis: "measured"} },
		[]string{"claim"}},
	"a refuted spread": {
		migrate.Dual, migrate.Sealed,
		func(f *facts) { f.sighting.Proved = Fact{Time: 2 * time.Second, Basis: "measured"} },
		[]string{"claim"}},
	"a refuted gap": {
		migrate.Dual, migrate.Sealed,
		func(f *facts) { f.sighting.Gap = Fact{Time: 2 * time.Second, Basis: "measured"} },
		[]string{"claim"}},
	"a lease of ours against the rule": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.survey.members[1].First = 59 * time.Second },
		[]string{"lease-rule"}},
	"two dialects": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.sighting.Mixed = []string{"k"} },
		[]string{"dialect"}},
	"another dialect on keys of its own": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.survey.UUIDs.add("stock:7") }, []string{"dialect"}},
	"GETSET first": {
		migrate.Observe, migrate.Dual, func(f *facts) { f.sighting.GetsetFirst = []string{"10.0.0.1:1"} },
		[]string{"getset-first"}},
	"overlapping namespaces": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.survey.records["stock"] = true },
		[]string{"namespace"}},
	"an eviction policy": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.server = serverInfo{policy: "allkeys-lru", maxMemory: 1, known: true}
	}, []string{"eviction"}},
	"a name without a slot": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.server.cluster, f.server.shards = true, 1
		f.survey.Unslotted.add("a}b")
	}, []string{"slot"}},
	"nobody watches": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting = Sighting{} }, []string{"window"}},
	"a watcher that left": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting.Until = judged.Add(-16 * time.Second) },
		[]string{"window"}},
	"a look in the future": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting.Until = judged.Add(2 * time.Second) },
		[]string{"window"}},
	"a window too short": {
		migrate.Dual, migrate.Sealed,
		func(f *facts) { f.sighting.Quiet = needed - time.Millisecond }, []string{"window"}},
	"a window of the phase before": {
		migrate.Sealed, migrate.Modern, func(f *facts) { f.record.Since = judged.Add(-needed) },
		[]string{"window"}},
	"nobody says how long old clients pause": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.claims.Idle = 0 }, []string{"idle"}},
	"nor at the last gate": {
		migrate.Modern, migrate.Clean, func(f *facts) { f.claims.Idle = 0 }, []string{"idle"}},
	"a nightly client and a window of a day": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.claims.Idle = time.Hour + time.Millisecond },
		[]string{"window"}},
	"a nightly client at the last gate": {
		migrate.Modern, migrate.Clean, func(f *facts) { f.claims.Idle = time.Hour + time.Millisecond },
		[]string{"window"}},
	"a pause that was seen and is no claim": {
		migrate.Dual, migrate.Sealed,
		func(f *facts) { f.claims.Idle, f.sighting.Pause = 0, pause(time.Minute) }, []string{"idle"}},
	"a longer pause than the claim was seen": {
		migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting.Pause = pause(2 * time.Hour) },
		[]string{"claim"}},
	"a live stamp, whatever is claimed": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.claims.Gone = true
		f.survey.Live.add("k")
	}, []string{"live"}},
	"a live stamp in sealed": {migrate.Sealed, migrate.Modern, func(f *facts) { f.survey.Live.add("k") },
		[]string{"live"}},
	"a live stamp in modern, whatever is claimed": {migrate.Modern, migrate.Clean, func(f *facts) {
		f.claims.Gone = true
		f.survey.Live.add("k")
	}, []string{"live"}},
	"a live stamp in modern, whatever rights say": {migrate.Modern, migrate.Clean, func(f *facts) {
		f.rights = []rights{{user: "old"}}
		f.survey.Live.add("k")
	}, []string{"live"}},
	"an act of a nightly client": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.claims.Idle = time.Hour
		f.sighting.Keys = []SightedKey{
			{Key: "k", LastFailed: &Touch{At: judged.Add(-59 * time.Minute), What: "lost"}}}
	}, []string{"old-clients"}},
	"a window that ended long ago": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.sighting.QuietUntil = judged.Add(-16 * time.Second)
	}, []string{"window"}},
	"a window of MONITOR without markers": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.sighting.Quiet, f.sighting.Missing = 0, "no right to GET"
	}, []string{"window"}},
	"an attempt in vain": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.sighting.Keys = []SightedKey{
			{Key: "k", LastFailed: &Touch{At: judged.Add(time.Second - needed), What: "lost"}}}
	}, []string{"old-clients"}},
	"an attempt against a claim": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.claims.Gone = true
		f.sighting.Keys = []SightedKey{
			{Key: "k", LastWrite: &Touch{At: judged.Add(time.Second - needed), What: "acquired"}}}
	}, []string{"old-clients"}},
	"a call against a claim": {migrate.Dual, migrate.Sealed, func(f *facts) {
		f.claims.Gone = true
		f.sighting.LastFailed = &Touch{At: judged.Add(time.Second - needed), Key: "k", What: "SET"}
	}, []string{"old-clients"}},
	"a call beside rights that were taken": {migrate.Modern, migrate.Clean, func(f *facts) {
		f.rights = []rights{{user: "old"}}
		f.sighting.LastFailed = &Touch{At: judged.Add(time.Second - needed), Key: "k", What: "SET"}
	}, []string{"old-clients"}},
	"a stranger's guard": {migrate.Dual, migrate.Sealed, func(f *facts) { f.survey.Strangers.add("k") },
		[]string{"guards"}},
	"tombstones": {migrate.Dual, migrate.Observe, func(f *facts) { f.survey.Tombstones = 1 },
		[]string{"tombstones"}},
	"an unfinished way back": {migrate.Dual, migrate.Observe,
		func(f *facts) { f.record.Pending = migrate.Sealed }, []string{"pending"}},
	"an unfinished beginning": {migrate.Observe, migrate.Dual,
		func(f *facts) { f.record.Pending = migrate.Clean }, []string{"pending"}},
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
		from, to migrate.Phase
		change   func(*facts)
	}{
		"three heartbeats missed": {
			migrate.Dual, migrate.Sealed,
			func(f *facts) { f.survey.members[1].Seen = judged.Add(-16 * time.Second) }},
		"a member that is there already": {
			migrate.Dual, migrate.Sealed, func(f *facts) { f.survey.members[1].Phase = migrate.Sealed }},
		"forward again": {migrate.Dual, migrate.Sealed, func(f *facts) {
			f.record.Pending = migrate.Sealed
			f.survey.Tombstones = 5
		}},
		"a claimed end of the old clients": {
			migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting, f.claims.Gone = Sighting{}, true }},
		"long leases of modern": {
			migrate.Modern, migrate.Clean, func(f *facts) { f.survey.members[1].TTL = time.Hour }},
		"a stranger before the seal": {
			migrate.Observe, migrate.Dual, func(f *facts) { f.survey.Strangers.add("k") }},
		"a window that is just enough": {
			migrate.Dual, migrate.Sealed, func(f *facts) { f.sighting.Quiet = needed }},
		"a greatest lease claimed beside a guess": {migrate.Observe, migrate.Dual, func(f *facts) {
			f.claims.Greatest, f.sighting.Greatest = time.Minute, inferred(90*time.Second)
		}},
		"a policy without a bound": {
			migrate.Dual, migrate.Sealed, func(f *facts) { f.server.policy = "allkeys-lru" }},
		"other programs' SETNX beside MONITOR": {migrate.Dual, migrate.Sealed, func(f *facts) {
			f.sighting.Counts, f.sighting.LastCalled = true, judged
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
	f := orderly(migrate.Observe)
	f.record.Fleet = migrate.Fleet{}
	f.claims = Claims{Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: time.Second}
	g := judge(f, migrate.Dual)
	closed(t, &g)
	claimed := 0
	for _, e := range g.Evidence {
		if e.Claimed {
			claimed++
		}
	}
	if claimed != 5 { // a claim of one lease for all claims the greatest too
		t.Errorf("%d claims are printed as such: %v", claimed, g.Evidence)
	}
}

// TestGatePrintsItsEvidence goes through what a human has to be shown before
// each step forwards.
func TestGatePrintsItsEvidence(t *testing.T) {
	at := judged.Add(-time.Hour)
	measured := func(d time.Duration) Fact {
		return Fact{Time: d, Basis: "measured", At: at, Who: "10.0.0.7:1 till"}
	}
	for p := migrate.Observe; p < migrate.Clean; p++ {
		f := orderly(p)
		f.survey.members[0].Leases = map[migrate.Phase]int{p: 2}
		f.survey.members[1].Leases, f.survey.members[1].Seen = nil, judged.Add(-time.Hour) // vanished
		f.survey.Keys, f.survey.Stamps = 2, 2
		f.survey.NoTTL.add("stock:41")
		s := &f.sighting
		s.Lease, s.Greatest, s.Proved = measured(time.Minute), measured(time.Minute),
			measured(800*time.Millisecond)
		s.Gap, s.Job = measured(300*time.Millisecond), measured(25*time.Second)
		s.Keys = []SightedKey{{
			Key: "stock:42", LastWrite: &Touch{At: at, What: "acquired", Who: "10.0.0.7:1 till"},
			LastFailed: &Touch{At: at, What: "lost", Who: "10.0.0.8:2 report"},
		}}
		shown := map[string]bool{}
		g := judge(f, p+1)
		for _, e := range g.Evidence {
			shown[e.Rule+": "+e.Detail] = true
		}
		for _, want := range []string{
			"member: a: phase " + p.String() + ", leases " + p.String() + " 2, scripts ok",
			"member: b: phase " + p.String() + ", no leases, scripts ok",
			"lease: the old clients' smallest lease: 1m0s",
			"greatest: the old clients' greatest lease: 1m0s",
			"greatest: seen so far: a lease of 1m0s was seen (measured) at 10.0.0.7:1 till",
			"spread: the clock spread of the old clients (how far their clocks are apart at most): 1s",
			"spread: seen so far: clocks of old clients were at least 800ms apart (measured) at 10.0.0.7:1 till",
			"gap: the gap (the longest time from an old client's clock reading to its GETSET, pauses included): 1s",
			"gap: seen so far: an attempt took 300ms (measured) at 10.0.0.7:1 till",
			"job: the old clients' longest job: 30s",
			`old-clients: "stock:42" was last written by an old client at 10.0.0.7:1 till (acquired)`,
			`old-clients: "stock:42" was last tried for without success by an old client at 10.0.0.8:2 report (lost)`,
			"eviction: no maxmemory is set, so nothing is dropped (policy noeviction)",
			"guards: every guard and tombstone in use belongs to a registered member",
			`ttl: without a TTL: "stock:41"`,
		} {
			if !shown[want] {
				t.Errorf("the gate to %v does not show %q among\n%v", p+1, want, g.Evidence)
			}
		}
		closed(t, &g, "vanished")
	}
}

// TestGateShowsGuardsOfUnregisteredPrograms: only what shuts old clients out
// needs to know them.
func TestGateShowsGuardsOfUnregisteredPrograms(t *testing.T) {
	f := orderly(migrate.Observe)
	f.survey.Strangers.add("k")
	g := judge(f, migrate.Dual)
	closed(t, &g)
	for _, e := range g.Evidence {
		if e.Rule == "guards" && e.Detail == `guards on "k" belong to no registered member` {
			return
		}
	}
	t.Errorf("not shown: %v", g.Evidence)
}

// Their leases are over too.
func TestForgetTakesOnlyDeadMembers(t *testing.T) {
	for name, c := range map[string]struct {
		ago  time.Duration
		free bool
	}{"alive": {10 * time.Second, false}, "leases may run": {92 * time.Second, false},
		"dead": {92*time.Second + 1, true}} {
		f := orderly(migrate.Dual)
		f.survey.members[1].Seen = judged.Add(-c.ago)
		taken, blocks := f.forget([]string{"b", "gone already"})
		if free := len(taken) == 1 && len(blocks) == 0 && len(f.survey.members) == 1; free != c.free {
			t.Errorf("%s: taken %v, blocks %v", name, taken, blocks)
		}
	}
}

// TestAnAcknowledgementIsOfTheRecordsEpoch: the same phase of an earlier epoch
// says nothing of what lay between.
func TestAnAcknowledgementIsOfTheRecordsEpoch(t *testing.T) {
	for epoch, want := range map[int64][]string{3: nil, 2: {"phase"}, 0: {"members"}} {
		f := orderly(migrate.Dual)
		f.survey.members[1].Epoch = epoch
		if epoch == 0 {
			f.survey.members = nil
		}
		b := &builder{facts: f}
		b.acknowledged(migrate.Dual)
		b.gate.Open = len(b.gate.Blocks) == 0
		closed(t, &b.gate, want...)
	}
}

// TestCountersRefuseAndProveNothing: without MONITOR a counted call closes the
// gate, with --gone too, and no count opens it. A value that appeared while the
// counts stood still shows that they say nothing of that client.
func TestCountersRefuseAndProveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		gone        bool
		counts      bool
		called      time.Duration // before the gate was judged; 0: nothing was counted
		written     time.Duration // likewise
		blocks      []string
		says, notes string
	}{
		"nothing counted": {counts: true, blocks: []string{"window"},
			says: "without MONITOR no attempt is seen, only the values that polls find; watch by getsetlock migrate status --watch --monitor for at least 1m31s"},
		"nothing counted, and all are gone": {gone: true, counts: true},
		"a call": {counts: true, called: time.Minute, blocks: []string{"window"},
			says: "counted a SETNX or GETSET at 2026-"},
		"a call, and all are gone": {
			gone: true, counts: true, called: time.Minute, blocks: []string{"window"},
			says: "shows whose it was; where MONITOR is refused, stop that program for 1m31s"},
		"a call long ago": {gone: true, counts: true, called: 2 * time.Minute},
		"a value and no call": {gone: true, counts: true, written: 10 * time.Minute,
			notes: "the server counted no SETNX or GETSET around then"},
		"a value, and no counts": {gone: true, written: 10 * time.Minute},
	} {
		f := orderly(migrate.Dual)
		s := &f.sighting
		f.claims.Gone, s.Counts, s.Quiet, s.QuietUntil, s.Missing = c.gone, c.counts, 0, time.Time{}, notAsked
		if c.called > 0 {
			s.LastCalled = judged.Add(-c.called)
		}
		if c.written > 0 {
			s.LastWrite = &Touch{At: judged.Add(-c.written), Key: "till", What: "acquired"}
		}
		g := judge(f, migrate.Sealed)
		closed(t, &g, c.blocks...)
		text := fmt.Sprint(g.Blocks)
		if !strings.Contains(text, c.says) || !strings.Contains(fmt.Sprint(g.Evidence), c.notes) ||
			c.notes == "" && strings.Contains(fmt.Sprint(g.Evidence), "counted no SETNX") {
			t.Errorf("%s: %s\nnotes %v", name, text, g.Evidence)
		}
	}
}

// TestGateSaysWhatEndedTheWindow: a hole by counts, a call, or a hole that
// nothing follows yet.
func TestGateSaysWhatEndedTheWindow(t *testing.T) {
	const why = "the server counted 12 calls of SET, MONITOR showed 10"
	for name, c := range map[string]struct {
		change func(s *Sighting)
		says   string
	}{
		"counts that differed": {func(s *Sighting) {
			s.Quiet, s.Hole = time.Second, &Hole{At: judged.Add(-2 * time.Second), Why: why}
		}, "1m30s are left; what was before counts no more: " + why},
		"a call": {func(s *Sighting) {
			s.Quiet, s.Hole = time.Second, &Hole{At: judged.Add(-time.Hour), Why: why}
			s.LastFailed = &Touch{At: judged.Add(-2 * time.Second), Key: "till", What: "MSETNX",
				Who: "10.0.0.1:7"}
		}, `a client at 10.0.0.1:7 acted on "till" (MSETNX) at`},
		"counts that differ each time": {func(s *Sighting) {
			s.Quiet, s.QuietUntil, s.Hole = 0, time.Time{}, &Hole{At: judged, Why: why}
		}, "MONITOR: " + why},
		"rights": {func(s *Sighting) { s.Missing = "the user has no right to INFO" },
			"MONITOR: the user has no right to INFO"},
	} {
		f := orderly(migrate.Dual)
		c.change(&f.sighting)
		g := judge(f, migrate.Sealed)
		closed(t, &g, "window")
		if text := g.Blocks[0].Detail; !strings.Contains(text, c.says) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

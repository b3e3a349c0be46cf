// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
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
			Until:  judged.Add(-time.Second),
			Window: Window{Quiet: time.Hour, QuietUntil: judged.Add(-time.Second)},
		},
		server: serverInfo{policy: "noeviction", known: true},
		nonce:  testNonce,
	}
}

// needed is the window of an orderly fleet.
const needed = time.Minute + 30*time.Second + time.Second

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
		"a live stamp": {[]rights{{user: "old"}}, func(f *facts) { f.survey.Live.add("k") }, migrate.Clean,
			[]string{"live"}},
		"a call": {[]rights{{user: "old"}}, func(f *facts) {
			f.sighting.LastFailed = &Touch{At: judged.Add(time.Second - needed), Key: "k", What: "SET"}
		}, migrate.Clean, []string{"old-clients"}},
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

// A member of another version of getsetlock may live: this one cannot read what
// its field says of that.
func TestForgetTakesNoMemberOfAnotherVersion(t *testing.T) {
	for err, free := range map[error]bool{
		record.ErrNewer: false, record.ErrOlder: false, record.ErrForm: true} {
		f := orderly(migrate.Dual)
		f.survey.members[1] = seat{MemberState: migrate.MemberState{ID: "b"}, bytes: "gsl/4", err: err}
		if taken, blocks := f.forget([]string{"b"}); len(taken) == 1 != free || len(blocks) == 0 != free {
			t.Errorf("%v: taken %v, blocks %v", err, taken, blocks)
		}
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

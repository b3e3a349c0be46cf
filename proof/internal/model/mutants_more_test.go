// SPDX-License-Identifier: Apache-2.0

package model

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// moves is a fleet that goes from one phase to another, in the shortest times
// in which everything can still happen.
func moves(d dialect.Dialect, old, ours int, from, to Phase) Scenario {
	sc := beside(d, old, ours, from)
	sc.Lease, sc.Ours.To = 4, to
	sc.Job, sc.Ours.TTL = sc.Job-1, sc.Ours.TTL-1
	return sc
}

// Tokens and marks: what proves that a key still belongs to a client.
func TestEachRuleOfOwnershipPreventsATrace(t *testing.T) {
	tokens := Scenario{Olds: Olds{Dialect: dialect.Jedis()},
		Ours: Ours{Clients: 2, Phase: PhaseClean, TTL: 3, Margin: 1, Stop: 1}}
	deaf := beside(dialect.Jedis(), 0, 1, PhaseObserve)
	deaf.Ours.Late, deaf.Ours.Deaf, deaf.Goal = true, true, falseLoss
	// A clock that is as far ahead as a getsetlock stamp lies writes exactly
	// its bytes.
	notice := beside(dialect.Gorlock(), 2, 1, PhaseObserve)
	notice.Lease, notice.Gap, notice.Behind, notice.Ahead, notice.Ours.StampAhead = 6, 2, 1, 0, 4
	notice.Overrun, notice.Goal = true, unnoticed
	checkMutants(t, []mutant{
		{"Gorlock mark ends with M", notice, without(ruleMarkSameTTL), 0},
		{"Gorlock mark has a TTL", notice, without(ruleMarkHasTTL), 0},
		{"token new for every attempt", tokens, without(ruleFreshToken), 0},
		{"stamp remembered in M", deaf, without(ruleStampInM), 0},
		{"unreadable is held", beside(dialect.Bare(), 1, 1, PhaseObserve), without(ruleUnreadableHeld), 0},
	})
}

// Counting only a holder's own delay, jobs look honest that a paused loser
// breaks: its late GETSET dates the holder's stamp back.
func TestOwnDelayAloneDoesNotMakeJobsHonest(t *testing.T) {
	var mutants []mutant
	for _, d := range []dialect.Dialect{dialect.Jedis(), dialect.ServiceStack()} {
		sc := beside(d, 3, 0, "")
		sc.Ours, sc.Goal = Ours{}, stalledLoser
		mutants = append(mutants, mutant{
			d.Name, sc, func(sc *Scenario) { sc.OwnDelay, sc.Job = true, sc.Job+sc.Gap }, 0})
	}
	checkMutants(t, mutants)
}

// Rule 9: another program's EXPIRE shortens L without changing a byte of it.
func TestTrustBeyondThePTTLReadOutlivesTheMark(t *testing.T) {
	var mutants []mutant
	for _, p := range []Phase{PhaseObserve, PhaseDual, PhaseSealed} {
		sc := beside(dialect.Jedis(), 1, 1, p)
		sc.Shorten = sc.Ours.Stop
		mutants = append(mutants, mutant{string(p), sc, without(ruleTrustPTTL), 0})
	}
	settles := beside(dialect.Jedis(), 1, 1, PhaseDual)
	settles.Shorten, settles.Ours.Settle, settles.Ours.SettleAlways = 2, 2, true
	checkMutants(t, append(mutants, mutant{"settling", settles, without(ruleTrustPTTL), 0}))
}

// The last steps of a migration, where only the gates keep old clients away.
func TestEachRuleOfCleanPreventsATrace(t *testing.T) {
	toClean := moves(dialect.Jedis(), 1, 1, PhaseModern, PhaseClean)
	told := changed(toClean, func(sc *Scenario) { sc.Goal = lostJob })
	again := changed(toClean, func(sc *Scenario) { sc.Ours.Again = true })
	checkMutants(t, []mutant{
		{"tombstones deleted before the leases of modern ended", told, without(ruleTombstonesLast), 0},
		{"tombstones deleted before the record says clean", toClean, without(ruleTombstonesLast), 0},
		{"an old client still in an attempt", toClean, without(ruleQuietGate), 0},
		{"old clients start last, after clean", again, without(ruleInitLast), 0},
		{"an old client that pauses for longer than the window", toClean, without(rulePause), 0},
	})
}

// What gates know of members: an older record that was restored, members that
// send no heartbeats, and a registry that has lost members.
func TestEachRuleOfTheRegistryPreventsATrace(t *testing.T) {
	toClean := func(ours int, change func(*Ours)) Scenario {
		return changed(moves(dialect.Jedis(), 1, ours, PhaseModern, PhaseClean),
			func(sc *Scenario) { change(&sc.Ours) })
	}
	restored := toClean(1, func(o *Ours) { o.Restored = true })
	unheard := toClean(2, func(o *Ours) { o.Vanishes = true })
	again := changed(unheard, func(sc *Scenario) { sc.Ours.Again = true })
	emptied := toClean(1, func(o *Ours) { o.Empties = true })
	began := changed(emptied, func(sc *Scenario) { sc.Ours.Again = true })
	checkMutants(t, []mutant{
		{"an older record moves members", restored, without(ruleOlderMovesNobody), 0},
		{"an older record opens gates", restored, without(ruleOlderOpensNothing), 0},
		{"a vanished member still holds by a tombstone",
			changed(unheard, func(sc *Scenario) { sc.Goal = lostJob }), without(ruleVanishedBlocks), 0},
		{"a vanished member still holds in clean, and old clients start", again, without(ruleVanishedBlocks),
			0},
		{"an empty registry opens gates, and one holds by a tombstone",
			changed(emptied, func(sc *Scenario) { sc.Goal = lostJob }), without(ruleEmptyCloses), 0},
		{"an empty registry opens gates, and old clients start", began, without(ruleEmptyCloses), 0},
	})
}

// An overrun release deletes the tombstone in these dialects and in no other,
// if look and DEL are one step. (No client overruns in Bare, where a key ends
// with its holder; only a human can make a Bare client's DEL meet a tombstone.)
// In fact look and DEL are two commands. Between them, only a comparison on the
// server keeps a release from deleting a value that it did not see.
func TestOverrunReleaseMayDeleteTheTombstone(t *testing.T) {
	deletes := []string{"Jedis", "JedisUUID", "JedisAQS", "PageNil", "PageGet", "RedisPy", "TaskTiger",
		"ServiceStack", "Gorlock", "BareExpire", "SetDel"}
	spared := []string{"Bare", "Machinery", "SetPexpire"}
	for _, d := range raced.Few(dialect.Presets()) {
		sc := moves(d, 1, 1, PhaseDual, PhaseSealed)
		if d.OrMine { // a settle needs the time
			sc.Lease, sc.Job, sc.Ours.TTL = 6, 5, 5
		}
		sc.Overrun, sc.Goal = true, untombed
		if x := searched(t, sc); x.Found == slices.Contains(spared, d.Name) {
			t.Errorf("%s, slow to delete: %v\n%v", d.Name, x.Found, x.Trace)
		}
		sc.PromptEnds = true
		if x := searched(t, sc); x.Found != slices.Contains(deletes, d.Name) {
			t.Errorf("%s: %v\n%v", d.Name, x.Found, x.Trace)
		}
		sc.Goal = unnoticed
		mustBeSafe(t, sc) // a getsetlock holder learns of it
	}
}

// A rule that no kept trace breaks was never seen to be needed.
func TestEveryRuleHasATraceOfWhatItPrevents(t *testing.T) {
	files, err := filepath.Glob(traces + "*.txt")
	if err != nil {
		t.Fatal(err)
	}
	broken := Rule(0)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := ParseTrace(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if rule := tr.Scenario.Ours.Break; rule&(rule-1) == 0 { // alone
			broken |= rule
		}
	}
	for i, name := range ruleNames {
		if broken&(1<<i) == 0 {
			t.Errorf("no trace is without %q", name)
		}
	}
}

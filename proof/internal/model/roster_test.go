// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// enrolled is a fleet on its way from modern to clean and out of it again,
// whose heartbeats count. Old clients are of the simplest kind, without clocks
// and pauses: the failures sought need none of them.
func enrolled(change func(*Ours)) Scenario {
	sc := moves(dialect.Bare(), 1, 2, PhaseModern, PhaseClean)
	sc.Lease, sc.Job, sc.Gap, sc.Reply, sc.Ahead = 2, 1, 0, 0, 0
	sc.Ours.TTL, sc.Ours.Margin, sc.Ours.Stop, sc.Ours.TakeoverMargin = 2, 0, 0, 0
	sc.Ours.Renewals, sc.Ours.Attempts, sc.Ours.Again = 1, 1, true
	change(&sc.Ours)
	return sc
}

// toldBefore is enrolled without the way out of clean, and looks for a
// getsetlock job that loses its lock.
func toldBefore(change func(*Ours)) Scenario {
	sc := enrolled(change)
	sc.Ours.TTL, sc.Ours.Again, sc.Goal = 3, false, lostJob
	return sc
}

// How far gates may believe the registry: half of it is lost, members join
// while gates open, a human forgets a silent member. Gates wait for TTL and
// renewals; one tick less lets an old client in.
func TestEachRuleOfTheRosterPreventsATrace(t *testing.T) {
	joins := func(o *Ours) { o.Joins = true }
	loses := func(o *Ours) { o.Loses = true }
	empties := func(o *Ours) { o.Empties = true }
	silent := func(o *Ours) { o.Vanishes = true }
	sooner := func(sc *Scenario) { sc.Ours.Waits = sc.Ours.TTL + sc.Ours.Renewals - 1 }
	for _, sc := range raced.Few([]Scenario{
		toldBefore(joins), toldBefore(loses), toldBefore(empties), enrolled(joins), enrolled(loses),
		enrolled(empties), enrolled(silent)}) {
		mustBeSafe(t, sc)
	}
	checkBroken(t, raced.Few([]mutant{
		{"a member reads before its field stands, and holds by a tombstone", toldBefore(joins),
			without(ruleFieldFirst), 0},
		{"a member reads before its field stands, and old clients start", enrolled(joins),
			without(ruleFieldFirst), 0},
		{"a member comes back and acts before it reads", enrolled(loses), without(ruleReadsThenActs), 0},
		{"half of the registry is lost, and the rest opens gates", enrolled(loses), without(ruleLostWaits),
			0},
		{"half of the registry is lost, and one holds by a tombstone", toldBefore(loses),
			without(ruleLostWaits), 0},
		{"all of it is lost, and the first one back opens gates", enrolled(empties), without(ruleLostWaits),
			0},
		{"a loss waits a tick less", enrolled(loses), sooner, 0},
		{"a lost member renews without end", enrolled(loses), without(ruleRenewalsStop), 0},
		{"a lost member makes attempts without end", enrolled(loses), without(ruleAttemptsStop), 0},
		{"a silent member is forgotten a tick sooner", enrolled(silent), sooner, 0},
		{"a forgotten member renews without end", enrolled(silent), without(ruleRenewalsStop), 0},
	}))
}

// Two verbs at once, one of them slow, while members join. What the slow verb
// has read of the registry counts only if no step was taken since it read the
// record.
func TestEachRuleOfASlowVerbPreventsATrace(t *testing.T) {
	slow := func(ours int) Scenario {
		return enrolled(func(o *Ours) { o.Clients, o.Phase, o.Joins, o.Slow = ours, PhaseSealed, true, true })
	}
	mustBeSafe(t, slow(2))
	mustBeSafe(t, enrolled(func(o *Ours) { o.Loses, o.Joins, o.Slow = true, true, true }))
	mustBeSafe(t,
		changed(slow(2), func(sc *Scenario) { sc.Ours.TTL, sc.Ours.Again, sc.Goal = 3, false, lostJob }))
	checkBroken(t, raced.Few([]mutant{
		{"the registry is read before the record", slow(1), without(ruleRecordThenRoster), 0},
		{"a step over another", slow(1), without(ruleVerbCompares), 0},
	}))
}

// A lock that is composed with another store is there alone in clean, and other
// locks are M alone. One member composes; the other one does not, and joins
// before the step, during it or after it.
func TestEachRuleOfTargetsPreventsATrace(t *testing.T) {
	composes := func(change func(*Ours)) Scenario {
		sc := enrolled(func(o *Ours) { o.Composes, o.Again = true, false; change(o) })
		sc.Old, sc.Goal = 0, twoOurs
		return sc
	}
	both := composes(func(*Ours) {})
	joins := composes(func(o *Ours) { o.Joins = true })
	slow := composes(func(o *Ours) { o.Joins, o.Slow = true, true })
	again := composes(func(o *Ours) { o.Joins, o.Again = true, true })
	checkMutants(t, []mutant{
		{"members of two kinds go to clean", both, without(ruleOneTarget), 0},
		{"one of another kind joins during the step", slow, without(ruleTargetAsked), 0},
		{"one of another kind joins in clean", joins, without(ruleApart), 0},
		{"one of another kind joins after a new beginning", again, without(ruleTargetKept), 0},
	})
	mustBeSafe(t, composes(func(o *Ours) { o.Joins, o.Slow, o.Again = true, true, true }))
}

func TestRosterWithoutRenewalsIsRefused(t *testing.T) {
	for _, change := range []func(*Ours){func(o *Ours) { o.Joins = true }, func(o *Ours) { o.Loses = true }} {
		sc := enrolled(change)
		sc.Ours.Renewals = 0
		var wrong *explore.ParameterError
		if _, err := Explore(sc); !errors.As(err, &wrong) || wrong.Field != "Ours.Renewals" {
			t.Errorf("%v", err)
		}
	}
}

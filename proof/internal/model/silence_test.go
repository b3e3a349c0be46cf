// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/explore"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// silent is a fleet in which a member is silent for longer than it renews
// leases, and may be forgotten. After clean the record stays in observe, and
// old clients start again.
func silent(change func(*Ours)) Scenario {
	return enrolled(func(o *Ours) { o.Vanishes, o.Rests = true, true; change(o) })
}

// When a member that was forgotten comes back, others may act by any phase:
// after clean, old clients have been started again. What the member began
// before, what it knows and what it says count for nothing.
func TestEachRuleOfASilencePreventsATrace(t *testing.T) {
	long := silent(func(o *Ours) { o.LongAttempts = true })
	lost := silent(func(o *Ours) { o.LosesRecord, o.TTL = true, 1 })
	lost.Lease = 1
	checkMutants(t, []mutant{
		{"an attempt that began before it", long, without(ruleAsksAfterTaking), 0},
		{"a lost record is not missed", lost, without(ruleReadsAfterSilence), 0},
		{"a record read before its field stands again", lost, without(ruleReadsListed), 0},
		{"a lost record by the word of a forgotten member", lost, without(ruleWordOfTheHeard), 0},
	})
	mustBeSafe(t, changed(lost, func(sc *Scenario) { sc.Ours.Joins = true }))
	mustBeSafe(t, changed(lost, func(sc *Scenario) { sc.Ours.Renewals = 2 })) // attempts end sooner
	mustBeSafe(t, changed(lost,
		func(sc *Scenario) { sc.Ours.TTL, sc.Ours.Again, sc.Goal = 3, false, lostJob }))
}

// The member that was forgotten takes M alone. The others hold by another store
// meanwhile, where M does not count.
func TestSilentMemberMeetsNoTarget(t *testing.T) {
	composes := func(change func(*Ours)) Scenario {
		sc := silent(func(o *Ours) { o.Composes = true; change(o) })
		sc.Old, sc.Goal = 0, twoOurs
		return sc
	}
	checkMutants(t, []mutant{
		{"an attempt that began before it", composes(func(o *Ours) { o.LongAttempts = true }),
			without(ruleAsksAfterTaking), 0},
		{"a lost record is not missed", composes(func(o *Ours) { o.LosesRecord = true }),
			without(ruleReadsAfterSilence), 0},
		{"forgotten before clean is for the others alone", composes(func(*Ours) {}), without(ruleApart), 0},
	})
}

// Long attempts and silences together with the other troubles of a registry.
func TestSilencesAreSafeBesideOtherTroubles(t *testing.T) {
	long := func(change func(*Ours)) Scenario {
		sc := silent(func(o *Ours) { o.LongAttempts, o.TTL = true, 1; change(o) })
		sc.Lease = 1
		return sc
	}
	for _, sc := range raced.Few([]Scenario{
		long(func(o *Ours) { o.Slow = true }), long(func(o *Ours) { o.Phase = PhaseSealed }),
		long(func(o *Ours) { o.Loses, o.Vanishes = true, false }),
		long(func(o *Ours) { o.Late, o.LongAttempts = true, false }),
	}) {
		mustBeSafe(t, sc)
	}
	composes := long(func(o *Ours) { o.Composes, o.Slow = true, true })
	composes.Old, composes.Goal = 0, twoOurs
	mustBeSafe(t, composes)
}

func TestLostRecordIsRefusedWhereItMeansNothing(t *testing.T) {
	for _, change := range []func(*Ours){
		func(o *Ours) { o.Restored = true }, func(o *Ours) { o.Empties = true },
		func(o *Ours) { o.Slow = true },
	} {
		sc := silent(func(o *Ours) { o.LosesRecord = true; change(o) })
		var wrong *explore.ParameterError
		if _, err := Explore(sc); !errors.As(err, &wrong) || wrong.Field != "Ours.LosesRecord" {
			t.Errorf("%v", err)
		}
	}
}

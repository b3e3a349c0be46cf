// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

func mustBeSafe(t *testing.T, sc Scenario) {
	t.Helper()
	x := searched(t, sc)
	if x.Found {
		t.Errorf("%s %d+%d %s to %s, %s:\n%v%s", sc.Dialect, sc.Old, sc.Ours.Clients, sc.Ours.Phase,
			sc.Ours.To, sc.Goal, x.Trace, x.Trace.Words())
	}
}

// tight is beside with the shortest times in which everything can still happen.
func tight(d dialect.Dialect, old, ours int, from, to Phase) Scenario {
	sc := beside(d, old, ours, from)
	sc.Ours.To = to
	if d.OrMine { // the settle needs the time
		return sc
	}
	sc.Lease, sc.Job, sc.Ours.TTL = sc.Lease-1, sc.Job-1, sc.Ours.TTL-1
	return sc
}

// Promise 2: with honest old clients of every dialect that takes over or sets
// TTLs, in every phase.
func TestFullRulesAreSafeWithEveryHonestDialect(t *testing.T) {
	for _, d := range raced.Few(dialect.Presets()) {
		if d.Name == "Bare" {
			continue // a value without a time is never taken over
		}
		for _, p := range []Phase{PhaseObserve, PhaseDual, PhaseSealed, PhaseModern} {
			old := 2
			if d.OrMine {
				old = 1
			}
			mustBeSafe(t, tight(d, old, 1, p, p))
			mustBeSafe(t, tight(d, 1, 2, p, p))
		}
	}
}

func TestFullRulesAreSafeForFourClients(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{dialect.Jedis(), dialect.RedisPy(), dialect.SetDel()}) {
		mustBeSafe(t, tight(d, 3, 1, PhaseDual, PhaseDual))
		mustBeSafe(t, tight(d, 2, 2, PhaseDual, PhaseDual))
		mustBeSafe(t, tight(d, 1, 3, PhaseDual, PhaseDual))
		mustBeSafe(t, tight(d, 2, 2, PhaseObserve, PhaseObserve))
	}
}

// Members lag behind the record and behind each other, leases of the former
// phase continue, and the record moves back and forth as often as its gates
// allow.
func TestEveryStepOfAMigrationIsSafe(t *testing.T) {
	steps := [][2]Phase{
		{PhaseObserve, PhaseDual}, {PhaseDual, PhaseSealed}, {PhaseSealed, PhaseModern},
		{PhaseModern, PhaseClean}, {PhaseObserve, PhaseClean},
	}
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.Jedis(), dialect.PageNil(), dialect.JedisUUID(), dialect.BareExpire()}) {
		for _, p := range raced.Few(steps) {
			mustBeSafe(t, tight(d, 1, 2, p[0], p[1]))
		}
	}
	for _, p := range raced.Few(steps[:3]) {
		mustBeSafe(t, tight(dialect.Jedis(), 2, 1, p[0], p[1]))
	}
	forgotten := tight(dialect.Jedis(), 1, 2, PhaseDual, PhaseSealed)
	forgotten.Ours.Forget = true
	mustBeSafe(t, forgotten)
	long := tight(dialect.Jedis(), 1, 1, PhaseDual, PhaseModern)
	long.Ours.Long = long.Ours.TTL + 3
	mustBeSafe(t, long)
}

// Promises 1 and 3: even if jobs of old clients run for ever, two getsetlock
// clients never hold together. No renewal succeeds over a mark that was touched
// since the last look.
func TestOverrunsNeverLetTwoGetsetlockClientsHold(t *testing.T) {
	for _, d := range raced.Few([]dialect.Dialect{
		dialect.Jedis(), dialect.PageNil(), dialect.SetGetDel(), dialect.JedisUUID()}) {
		for _, p := range raced.Few([][2]Phase{
			{PhaseObserve, PhaseObserve}, {PhaseObserve, PhaseDual}, {PhaseDual, PhaseSealed},
			{PhaseSealed, PhaseModern}}) {
			sc := tight(d, 1, 2, p[0], p[1])
			sc.Overrun, sc.Goal = true, unnoticed
			mustBeSafe(t, sc)
		}
	}
	two := tight(dialect.Jedis(), 2, 2, PhaseDual, PhaseDual)
	two.Overrun, two.Goal = true, unnoticed
	mustBeSafe(t, two)
}

// Requests and replies take time; attempts are cancelled while they are on
// their way, and executed afterwards.
func TestLateCommandsAndCancelledAttemptsAreSafe(t *testing.T) {
	for _, p := range []Phase{PhaseObserve, PhaseDual, PhaseSealed} {
		sc := tight(dialect.Jedis(), 1, 1, p, p)
		sc.Ours.Late = true
		mustBeSafe(t, sc)
		sc.Old, sc.Ours.Clients = 0, 2
		mustBeSafe(t, sc)
	}
	overrun := tight(dialect.Jedis(), 1, 2, PhaseDual, PhaseDual)
	overrun.Ours.Late, overrun.Overrun, overrun.Goal = true, true, unnoticed
	mustBeSafe(t, overrun)
}

// Old clients that renew without looking are honest if their last renewal is
// recent enough.
func TestOldClientsThatRenewChangeNothing(t *testing.T) {
	for _, d := range dialect.Presets() {
		if d.Renews == dialect.RenewsNever || d.Renews == dialect.RenewsReacquire {
			continue
		}
		sc := tight(d, 2, 1, PhaseDual, PhaseDual)
		sc.Renews = true
		mustBeSafe(t, sc)
		sc.Ours.Clients = 0
		mustBeSafe(t, sc)
		sc.Job++
		if x := searched(t, sc); !x.Found {
			t.Errorf("%s: a tick more from the last renewal to the release does no harm", d)
		}
		moves := tight(d, 1, 1, PhaseObserve, PhaseSealed)
		moves.Renews = true
		mustBeSafe(t, moves)
	}
}

// Where the server frees keys, old clients do not bound a getsetlock lease.
func TestLeaseMayBeLongerWhereServerExpiresKeys(t *testing.T) {
	for _, d := range []dialect.Dialect{dialect.SetDel(), dialect.SetGetDel(), dialect.SetPexpire()} {
		for _, p := range []Phase{PhaseObserve, PhaseDual, PhaseSealed} {
			sc := tight(d, 2, 1, p, p)
			sc.Ours.TTL, sc.Renews = 3*sc.Lease, true
			mustBeSafe(t, sc)
			if sc.Job++; p != PhaseSealed && !searched(t, sc).Found {
				t.Errorf("%s, %s: an old client's overrun lets no other client in", d, p)
			}
		}
	}
}

// The token lock alone: late requests, late replies, cancelled attempts,
// crashes.
func TestModernLockAloneIsSafe(t *testing.T) {
	sc := Scenario{Olds: Olds{Dialect: dialect.Jedis()},
		Ours: Ours{Clients: 3, Phase: PhaseClean, TTL: 3, Margin: 1, Stop: 1, Late: true}}
	mustBeSafe(t, sc)
	for name, r := range map[string]Rule{
		"token": ruleToken, "trust": ruleTrustFromSent, "passed on": ruleReleasedNotPassed} {
		broken := sc
		broken.Ours.Break = r
		if x := searched(t, broken); !x.Found {
			t.Errorf("%s: safe without it", name)
		}
	}
}

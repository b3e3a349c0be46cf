// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/migrate"
)

// moving is a short migration: minutes of rest and few orders, but enough that
// each phase has an acquisition of a free lock.
func moving(p *Plan) {
	p.Move()
	p.Acquisitions, p.Rest, p.Lease = 600, 5*time.Minute, 10*time.Second
	p.Orders = p.Orders[:5] // few products, so that all of them get their tombstones
}

func TestFleetMigratesWithoutOverlaps(t *testing.T) {
	res := rehearse(t, moving)
	if !res.OK || res.Overlaps != res.OverlapsExcused || res.Oversold != res.OversoldExcused ||
		len(res.Trouble) != 0 || res.GaveUp != 1 {
		t.Errorf("%s", asJSON(t, res))
	}
	var names []string
	for _, p := range res.Phases {
		names = append(names, p.Phase)
		if p.Acquisitions == 0 || p.ToMS <= p.FromMS {
			t.Errorf("nothing happened in %+v", p)
		}
		// One script takes a lock and one script releases it, whatever the
		// phase.
		if p.LockCommands == nil || *p.LockCommands != 2 || p.ExtraCommands == nil || *p.ExtraCommands != 0 {
			t.Errorf("a lock of %s took %s", p.Phase, asJSON(t, p))
		}
		if open := p.Phase == "observe" || p.Phase == "dual"; open && p.OldAcquisitions == 0 {
			t.Errorf("old clients had no lock in %s", p.Phase)
		}
	}
	if got := strings.Join(names, " "); got != "observe dual observe dual sealed dual sealed modern clean" {
		t.Errorf("the road was %s", got)
	}
	if res.group(t, "new").Takeovers == 0 {
		t.Error("no key was taken over from a dead holder")
	}
	if g := res.group(t, "plain"); g.Acquisitions == 0 || g.Clients != 8 {
		t.Errorf("after clean came %s", asJSON(t, g))
	}
	for _, w := range res.Waits {
		to, _ := migrate.ParsePhase(w.To)
		if w.ToMS < w.FromMS || w.Members == 0 && to == migrate.Modern ||
			strings.Contains(w.Window, "no attempt of an old client") !=
				(to == migrate.Sealed || to == migrate.Modern) {
			t.Errorf("%+v", w)
		}
	}
	if len(res.Waits) != len(res.Phases)-1 {
		t.Errorf("the operator waited for %d gates", len(res.Waits))
	}
	if len(res.Refusals) != 2 {
		t.Fatalf("%+v", res.Refusals)
	}
	for n, want := range []Refusal{{To: "dual", Rules: []string{"gap"}},
		{To: "sealed", Rules: []string{"old-clients"}}} {
		if r := res.Refusals[n]; r.To != want.To || !slices.Contains(r.Rules, want.Rules[0]) || !r.Expected {
			t.Errorf("%+v", r)
		}
	}
}

// One seed gives one course of events, also where the operator and the programs
// act at one instant. The runbook shows what such a run prints.
func TestMigrationOfOneSeedIsTheSameTwice(t *testing.T) {
	once := func() string {
		return asJSON(t, rehearse(t, func(p *Plan) {
			moving(p)
			p.Acquisitions = 210
		}))
	}
	if first, then := once(), once(); first != then {
		t.Errorf("one run:\n%s\nanother:\n%s", first, then)
	}
}

// A plain client and a bridge in clean exclude each other only by the name of
// the key. A plain client on the old key's name meets the tombstones that clean
// leaves, and so sells nothing.
func TestPlainClientOnAnotherNameIsFoundOut(t *testing.T) {
	groups := protocols[movingFleet].groups
	mutate(t, movingFleet, func(kind *protocolKind) {
		kind.groups = func(p Plan) []*team {
			teams := groups(p)
			teams[2].equip = func(w *worker) error {
				err := plainLocker(w)
				w.plain = false // the old key's name
				return err
			}
			return teams
		}
	})
	res := rehearse(t, moving)
	if g := res.group(t, "plain"); res.OK || g.Acquisitions != 0 {
		t.Errorf("%s", asJSON(t, res))
	}
}

func TestCompareLocksTakesCleanAsTheBase(t *testing.T) {
	few, more := int64(2), int64(5)
	phases := []Phase{{Phase: "dual", LockCommands: &more}, {Phase: "sealed"},
		{Phase: "clean", LockCommands: &few}}
	compareLocks(phases[:2]) // a migration that did not get there
	if phases[0].ExtraCommands != nil {
		t.Error("compared with nothing")
	}
	compareLocks(phases)
	if e := phases[0].ExtraCommands; e == nil || *e != 3 || phases[1].ExtraCommands != nil ||
		*phases[2].ExtraCommands != 0 {
		t.Errorf("%s", asJSON(t, phases))
	}
}

// walking is the short migration by another road.
func walking(t *testing.T, walk func(*moves, context.Context) error) *Result {
	t.Helper()
	mutate(t, movingFleet, func(kind *protocolKind) { kind.walk = walk })
	return rehearse(t, moving)
}

func TestSkippedPhaseIsFoundOut(t *testing.T) {
	res := walking(t, func(m *moves, ctx context.Context) error {
		jump := func(ctx context.Context) error {
			c := m.pool.Get()
			defer c.Close()
			text, err := redis.String(c.Do("GET", "gsl:phase:"+m.namespace))
			if err != nil {
				return err
			}
			r, err := migrate.ParseRecord(text)
			if err != nil {
				return err
			}
			r.Epoch, r.Phase = r.Epoch+1, migrate.Clean // old clients and tokens then use different keys
			_, err = c.Do("SET", "gsl:phase:"+m.namespace, r.String())
			return err
		}
		wait := func(ctx context.Context) error { return pause(ctx, 2*m.f.plan.memberEvery()) }
		return inOrder(ctx, m.stage(m.begin), m.stage(m.staff(1, 0.5)), jump, wait, m.stage(), m.stage(),
			m.stage())
	})
	if g := res.group(t, "plain"); res.OK || g.Acquisitions != 0 {
		t.Errorf("%s", asJSON(t, res))
	}
}

func TestStepTakenTooEarlyIsTrouble(t *testing.T) {
	res := walking(t, func(m *moves, ctx context.Context) error {
		return inOrder(ctx, m.stage(m.begin), m.refused("dual", m.claims, "gap"))
	})
	// Without members the gate is closed for another reason than the one that
	// the test expects.
	if res.OK || len(res.Trouble) == 0 {
		t.Errorf("%s", asJSON(t, res))
	}
}

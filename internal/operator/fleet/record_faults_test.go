// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// The record is lost while members act by it.

// acting is what members did when the record was lost, and what init makes of
// it.
type acting struct {
	alive, vanished migrate.Phase // NoPhase: there is none
	tombstone       bool
	phase, pending  migrate.Phase
	refused         string // by this rule
}

var actings = []acting{
	{alive: migrate.Observe, phase: migrate.Observe},
	{alive: migrate.Observe, tombstone: true, phase: migrate.Observe},
	{alive: migrate.Dual, phase: migrate.Dual},
	{alive: migrate.Dual, tombstone: true, phase: migrate.Dual, pending: migrate.Sealed},
	{alive: migrate.Sealed, tombstone: true, phase: migrate.Sealed},
	{alive: migrate.Modern, tombstone: true, phase: migrate.Modern},
	{alive: migrate.Clean, phase: migrate.Clean},
	{alive: migrate.Clean, tombstone: true, phase: migrate.Clean},

	{alive: migrate.Dual, vanished: migrate.Observe, phase: migrate.Observe},
	{alive: migrate.Observe, vanished: migrate.Dual, phase: migrate.Observe},
	{alive: migrate.Sealed, vanished: migrate.Dual, tombstone: true, phase: migrate.Dual,
		pending: migrate.Sealed},
	{alive: migrate.Dual, vanished: migrate.Sealed, tombstone: true, phase: migrate.Dual,
		pending: migrate.Sealed},
	{alive: migrate.Modern, vanished: migrate.Sealed, phase: migrate.Sealed},
	{alive: migrate.Sealed, vanished: migrate.Modern, phase: migrate.Sealed},
	{alive: migrate.Clean, vanished: migrate.Modern, phase: migrate.Clean, pending: migrate.Modern},
	{alive: migrate.Modern, vanished: migrate.Clean, phase: migrate.Clean, pending: migrate.Modern},
	{alive: migrate.Observe, vanished: migrate.Clean, phase: migrate.Observe, pending: migrate.Clean},
	{alive: migrate.Clean, vanished: migrate.Observe, phase: migrate.Observe, pending: migrate.Clean},

	{alive: migrate.Sealed, vanished: migrate.Observe, refused: "phase"},
	{alive: migrate.Observe, vanished: migrate.Sealed, refused: "phase"},
	{alive: migrate.Modern, vanished: migrate.Dual, refused: "phase"},
	{alive: migrate.Clean, vanished: migrate.Sealed, refused: "phase"},
	{alive: migrate.Dual, vanished: migrate.Clean, refused: "phase"},
	{alive: migrate.Observe, vanished: migrate.Modern, refused: "phase"},

	{phase: migrate.Observe}, {tombstone: true, refused: "tombstones"},
}

func TestALostRecordIsWrittenAsTheMembersAct(t *testing.T) {
	for _, a := range actings {
		t.Run(fmt.Sprintf("%v beside %v, tombstone %v", a.alive, a.vanished, a.tombstone),
			func(t *testing.T) {
				inBubble(t, func(f *fleet) { f.writesAnew(a) })
			})
	}
}

func (f *fleet) writesAnew(a acting) {
	f.t.Helper()
	gone := f.registered("away", a.vanished, 7)
	f.w.Pass(2 * time.Minute)
	here := f.registered("here", a.alive, 6)
	if a.tombstone {
		f.put("stock", nil)
	}
	r := f.init(Options{})
	if a.refused != "" {
		closed(f.t, r.Gate, a.refused)
		if r.Moved || f.w.Mini.Exists(record.Key("")) {
			f.t.Error("a record was written")
		}
		f.afterForgetting(a, gone)
		return
	}
	if got := f.at(a.phase); !r.Moved || got.Pending != a.pending || got.Epoch != max(here, gone)+1 {
		f.t.Errorf("%v, closed by %q", got, rules(r.Gate))
	}
	// The record does not replace a vanished member: every gate stays closed.
	if a.vanished != migrate.NoPhase {
		for _, v := range []verb{doAdvance, doBack, doClean} {
			if r := f.must(v, Options{Go: true}); r.Gate == nil || r.Moved || r.Gate.Open {
				f.t.Errorf("moved to %v beside a member that vanished", r.Phase)
			}
		}
	}
}

// registered puts a member on the server that beat a moment ago. It returns its
// epoch.
func (f *fleet) registered(id string, p migrate.Phase, epoch int64) int64 {
	f.t.Helper()
	if p == migrate.NoPhase {
		return 0
	}
	s := migrate.MemberState{ID: id, Dialect: "Jedis", Epoch: epoch, Phase: p, Seen: f.w.ServerNow(),
		Every: time.Second, Renews: record.LeastRenewals, Probe: record.ProbeOK}
	f.w.Mini.HSet(record.RosterKey(""), id, s.String())
	return epoch
}

// afterForgetting forgets a dead member two steps away. Then the record is that
// of the living members.
func (f *fleet) afterForgetting(a acting, gone int64) {
	f.t.Helper()
	if a.vanished == migrate.NoPhase {
		return
	}
	closed(f.t, f.init(Options{Forget: []string{"here"}}).Gate, "forget", "phase")
	r := f.init(Options{Forget: []string{"away"}})
	if got := f.at(a.alive); !r.Moved || got.Epoch != gone+1 || f.seated("away") {
		f.t.Errorf("%v, closed by %q", got, rules(r.Gate))
	}
	if !slices.ContainsFunc(r.Notes,
		func(s string) bool { return strings.Contains(s, "away is forgotten") }) {
		f.t.Errorf("nobody says so: %q", r.Notes)
	}
}

// TestAnOldRecordFinishesNothing: it says that tombstones are to be deleted,
// and a member knows a later one, in which they are wanted.
func TestAnOldRecordFinishesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		old, pending, now migrate.Phase
		run               verb
	}{
		"back":  {migrate.Dual, migrate.Sealed, migrate.Sealed, doBack},
		"clean": {migrate.Clean, migrate.Modern, migrate.Clean, doClean},
		"init":  {migrate.Observe, migrate.Clean, migrate.Observe, doInit},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				f.registered("here", c.now, 7)
				f.put("stock", nil)
				old := f.recorded(migrate.Record{
					Epoch: 5, Phase: c.old, Pending: c.pending, Since: f.w.ServerNow(), Dialect: "Jedis"})
				r := f.must(c.run, Options{Go: true})
				if !slices.Contains(rules(r.Gate), "epoch") || r.Over || !f.w.Mini.Exists("stock") {
					t.Errorf("over %v, closed by %q, keys %q", r.Over, rules(r.Gate), f.w.Mini.Keys())
				}
				if text, _ := f.w.Mini.Get(record.Key("")); text != old {
					t.Errorf("the record became %q", text)
				}
			})
		})
	}
}

var doStatus = as(Status)

// tells lets the server know of leases of that TTL, so that no attempt asks for
// the record.
func (c *crew) tells(ttl time.Duration) {
	c.t.Helper()
	for _, m := range c.all {
		end := c.begin(m, ttl)
		end()
	}
}

// TestAStepJudgedByHeartbeatsOfBeforeAFailOver is why docs/guide/migration.md
// tells the operator to wait. A fail-over loses a step with the heartbeats of
// the members that followed it. The opposite step is taken before they return,
// and moves them by two phases. Getsetlock clients exclude each other even so,
// and no further step is possible while such leases run.
func TestAStepJudgedByHeartbeatsOfBeforeAFailOver(t *testing.T) {
	for name, c := range map[string]struct {
		from       migrate.Phase
		lost, then verb
	}{
		"sealed, then back":   {migrate.Dual, doAdvance, doBack},
		"observe, then on":    {migrate.Dual, doBack, doAdvance},
		"modern, then back":   {migrate.Sealed, doAdvance, doBack},
		"dual, then on":       {migrate.Sealed, doBack, doAdvance},
		"clean, then back":    {migrate.Modern, doClean, doBack},
		"sealed, then to end": {migrate.Modern, doBack, doClean},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				crew := newCrew(f, verbCase{from: c.from})
				var bridges []*migrate.Bridge
				for _, m := range crew.all {
					b := f.locks(m)
					bridges = append(bridges, b)
				}
				crew.tells(leaseOfOurs)
				crew.beats()
				promote := f.w.Replica()
				if r := f.must(c.lost, Options{Go: true}); !r.Moved {
					t.Fatal(rules(r.Gate))
				}
				// All have followed. A member that stopped has not vanished.
				f.w.Pass(crewEvery + crewEvery/10)
				promote()
				g, err := bridges[0].Contract().Try(bg, "stock", leaseOfOurs)
				if err != nil {
					t.Fatal(err)
				}
				r := f.must(c.then, Options{Go: true})
				if !r.Moved {
					t.Fatal(rules(r.Gate))
				}
				crew.beats()
				phase(t, crew.all[0], r.Phase)
				if _, err := bridges[1].Contract().Try(bg, "stock", leaseOfOurs); !errors.Is(err,
					lock.ErrHeld) {
					t.Errorf("beside a lease of a phase that is two steps away: %v", err)
				}
				if _, err := g.Extend(bg, leaseOfOurs); err != nil {
					t.Error(err)
				}
				if r := f.must(doStatus, Options{}); r.Gate != nil && r.Gate.Open {
					t.Errorf("the gate to %v is open", r.Gate.To)
				}
				if r := f.must(c.then, Options{Go: true}); r.Moved || r.Pending != migrate.NoPhase && r.Over {
					t.Errorf("moved to %v, pending %v", r.Phase, r.Pending)
				}
				if err := g.Release(bg); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

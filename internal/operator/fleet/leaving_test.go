// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestUnheardMemberStopsAttemptsThenRenewals: after three periods an operator
// may take it for dead, and waits for what it renews until then.
func TestUnheardMemberStopsAttemptsThenRenewals(t *testing.T) {
	for name, silence := range map[string]redistest.Rule{
		"away": {Command: redistest.Dialing, Times: -1, Do: redistest.Refuse},
		"errors": {When: func(c redistest.Command) bool { return slices.Contains(c, record.RosterKey("")) },
			Times: -1, Do: redistest.Answer(redistest.OOM)},
	} {
		inBubble(t, func(f *fleet) {
			f.to(migrate.Observe)
			wire, m := f.wired(migrate.MemberConfig{})
			b := f.locks(m)
			g, err := b.Contract().Try(bg, "stock", 50*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			f.beats()
			wire.Fault(silence)
			wire.Cut()
			f.w.Pass(9 * time.Second)
			if _, end, err := m.Begin(bg, time.Second); err != nil {
				t.Errorf("%s: within three periods: %v", name, err)
			} else {
				end()
			}
			f.w.Pass(10 * time.Second)
			if _, err := b.Contract().Try(bg, "other", time.Second); err == nil ||
				errors.Is(err, migrate.ErrNoPhase) ||
				!strings.Contains(err.Error(), "takes no lock") {
				t.Errorf("%s: after three periods: %v", name, err)
			}
			if _, err := g.Extend(bg, 50*time.Second); err != nil {
				t.Errorf("%s: a renewal: %v", name, err)
			}
			f.w.Pass(25 * time.Second)
			if _, err := g.Extend(bg, 50*time.Second); err != nil {
				t.Errorf("%s: a renewal within a minute: %v", name, err)
			}
			f.w.Pass(20 * time.Second)
			if _, err := g.Extend(bg, 50*time.Second); err == nil ||
				!strings.Contains(err.Error(), "renews no lease") {
				t.Errorf("%s: after a minute: %v", name, err)
			}
			r := f.advance(Options{Go: true, Forget: []string{m.ID()}})
			if len(r.Members) != 1 || !slices.Contains(rules(r.Gate), "forget") {
				t.Errorf("%s: forgotten beside its lease", name)
			}
			wire.Calm()
			if _, end, err := m.Begin(bg, time.Second); err != nil {
				t.Errorf("%s: it is heard again: %v", name, err)
			} else {
				end()
			}
		})
	}
}

// TestGoodbyeEndsAMember: nothing is taken by it any more, and no round brings
// it back.
func TestGoodbyeEndsAMember(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		m := f.join(migrate.MemberConfig{})
		if err := m.Goodbye(bg); err != nil {
			t.Fatal(err)
		}
		for _, say := range []func() error{
			func() error { _, _, err := m.Begin(bg, time.Second); return err },
			func() error { _, err := m.Phase(bg); return err },
			func() error { return m.Refresh(bg) },
		} {
			err := say()
			says(t, err, "has said goodbye")
			if !errors.Is(err, migrate.ErrNoPhase) {
				t.Errorf("%v", err)
			}
		}
		if f.seated(m.ID()) {
			t.Error("it is back")
		}
	})
}

// TestLeavingMemberClosesOnlyGatesOfItsPhases: what it left to its TTL is a
// lease of dual, which the step to sealed allows and the one to modern does
// not. A job that leaves so each minute keeps no gate closed for ever.
func TestLeavingMemberClosesOnlyGatesOfItsPhases(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		m := f.join(migrate.MemberConfig{})
		f.begin(m, 30*time.Second)
		now := f.w.ServerNow()
		if err := m.GoodbyeAfter(bg, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		r := f.advance(Options{Go: true})
		until := "ends by " + now.Add(22*time.Second).Format("2006-01-02 15:04:05Z") + ": leases dual 1"
		if !r.Moved || !slices.ContainsFunc(r.Gate.Evidence, func(e Finding) bool {
			return e.Rule == "leaving" && strings.Contains(e.Detail, until)
		}) {
			t.Errorf("%+v", r.Gate)
		}
		f.beats()
		closed(t, f.advance(Options{Go: true}).Gate, "leases")
		f.w.Pass(12 * time.Second)
		closed(t, f.advance(Options{}).Gate)
		f.w.Pass(2 * time.Minute)
		if f.seated(m.ID()) {
			t.Error("nobody has taken it out")
		}
	})
	f := orderly(migrate.Dual)
	f.survey.members[1].Leaving = judged.Add(time.Minute)
	f.survey.members[1].Leases = nil // it says not what it holds
	g := judge(f, migrate.Sealed)
	closed(t, &g, "leaving")
}

// TestKilledMembersAreFoldedIntoOneField: a thousand killed processes a day do
// not make the roster grow. The field closes every gate.
func TestKilledMembersAreFoldedIntoOneField(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{Every: time.Hour})
		f.to(migrate.Observe)
		for i := range 30 {
			f.registered(fmt.Sprintf("killed%02d", i), migrate.Phase(1+i%2), 2)
		}
		f.w.Pass(12 * 24 * time.Hour)
		gone, err := record.ParseGone(f.w.Mini.HGet(record.RosterKey(""), record.GoneField))
		if fields, _ := f.w.Mini.HKeys(record.RosterKey("")); err != nil || gone.Count != 30 ||
			gone.Phase != "observe" || len(gone.Names) != 20 || len(fields) != 3 {
			t.Errorf("%v (%v), fields %q", gone, err, fields)
		}
		if r := f.advance(Options{}); !slices.Contains(rules(r.Gate), "vanished") {
			t.Errorf("%v", rules(r.Gate))
		}
		f.advance(Options{Go: true, Forget: []string{"dead"}})
		if r := f.advance(Options{}); slices.Contains(rules(r.Gate), "vanished") {
			t.Errorf("%v", r.Gate.Blocks)
		}
	})
}

// TestEvidenceLapsesAndIsForgotten: a date decides, also where a watcher writes
// again what it remembers.
func TestEvidenceLapsesAndIsForgotten(t *testing.T) {
	seen := Sighting{
		Until: judged, Facts: Facts{Lease: Fact{Time: time.Second, Basis: "measured",
			At: judged.Add(-31 * 24 * time.Hour)},
			Job: Fact{Time: time.Minute, Basis: "measured", At: judged.Add(-time.Hour)}},
		Window: Window{Quiet: 2 * time.Hour, QuietUntil: judged}, LastCalled: judged.Add(-time.Hour),
	}
	if s := seen.since(time.Time{}, judged); s.Lease.Known() || !s.Job.Known() ||
		s.Quiet != 2*time.Hour || s.LastCalled.IsZero() {
		t.Errorf("%+v", s)
	}
	if s := seen.since(judged.Add(-time.Minute), judged); s.Job.Known() ||
		s.Quiet != time.Minute || !s.LastCalled.IsZero() {
		t.Errorf("%+v", s)
	}
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		_ = f.w.Mini.Set(record.SeenKey(""), "x")
		r, err := ForgetEvidence(bg, f.w.Pool(), f.options(Options{}))
		if err != nil || f.at(migrate.Observe).Evidence.IsZero() || f.w.Mini.Exists(record.SeenKey("")) ||
			len(r.Notes) != 1 {
			t.Errorf("%v: %v", r, err)
		}
	})
}

// TestBackWaitsForLeasesOfSealed: each of their releases might put a tombstone
// back, for thirty days, which no verb removed.
func TestBackWaitsForLeasesOfSealed(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Sealed)
		b := f.locks(m)
		g, err := b.Contract().Try(bg, "stock", 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		f.beats()
		f.back(Options{Go: true})
		f.beats()
		r := f.back(Options{Go: true})
		closed(t, r.Gate, "leases")
		if r.Over {
			t.Error("over while a lease of sealed runs")
		}
		if err := g.Release(bg); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Fatal(err)
		}
		if f.w.Mini.Exists("stock") {
			t.Error("a release on the way back leaves the tombstone")
		}
		f.beats()
		if r := f.back(Options{Go: true}); !r.Over {
			t.Errorf("%v", r.Gate.Blocks)
		}
	})
}

// TestVerbSweepsTombstonesThatItsPhaseLacks: a fail-over brought them back.
func TestVerbSweepsTombstonesThatItsPhaseLacks(t *testing.T) {
	for _, p := range []migrate.Phase{migrate.Observe, migrate.Dual} {
		inBubble(t, func(f *fleet) {
			m := f.join(migrate.MemberConfig{})
			f.to(p)
			f.put("stock", nil)
			if f.advance(Options{}); !f.w.Mini.Exists("stock") {
				t.Error("swept without --go")
			}
			end := f.begin(m, 30*time.Second)
			end()
			for _, v := range []verb{doInit, doBack} {
				f.put("stock", nil)
				f.put("till", m)
				r := f.must(v, Options{Go: true, To: p})
				if f.w.Mini.Exists("stock") || !f.w.Mini.Exists("till") {
					t.Errorf("in %v: %q, notes %q", p, f.w.Mini.Keys(), r.Notes)
				}
				f.w.Mini.Del("till")
				f.w.Mini.Del("{till}:gsl")
			}
		})
	}
}

// TestFinishingAStepComparesTheDialect: another one's tombstones are none, so
// that none would be found.
func TestFinishingAStepComparesTheDialect(t *testing.T) {
	f := orderly(migrate.Dual)
	f.record.Pending, f.record.Dialect = migrate.Sealed, "Page"
	f.survey.members[0].Leases, f.survey.members[1].Leases = nil, nil
	gate := (&desk{}).remains(f)
	closed(t, &gate, "dialect")
}

// TestLogNamesOperatorsAndClaims, and which members were forgotten.
func TestLogNamesOperatorsAndClaims(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		f.registered("away", migrate.Dual, 2)
		f.w.Pass(2 * time.Minute)
		f.advance(Options{Go: true, Forget: []string{"dead"}})
		log, err := Log(context.Background(), f.w.Pool(), f.options(Options{}))
		if err != nil || len(log) != 4 {
			t.Fatalf("%v: %+v", err, log)
		}
		var steps []string
		for _, e := range log {
			steps = append(steps, e.From+">"+e.To+strings.Join(e.Forgotten, ","))
			if e.Who == "" || e.At.IsZero() || e.Epoch == 0 {
				t.Errorf("%+v", e)
			}
		}
		if got := strings.Join(steps, " "); got != "none>observe observe>dual >away dual>sealed" ||
			len(log[1].Claims) == 0 {
			t.Errorf("%s: %+v", got, log)
		}
	})
}

// TestLongLeasesTellTheLedgerFromTheStart: what a program is configured for is
// known before its first attempt, which is then one message.
func TestLongLeasesTellTheLedgerFromTheStart(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		m := f.join(migrate.MemberConfig{})
		b, err := migrate.New(f.w.Pool(),
			migrate.Config{Phases: m, LongLeases: true, Clock: f.w.Clock(redistest.Skew{})})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := lock.New(b, lock.Config{TTL: 10 * time.Minute, Clock: f.w.Clock(redistest.Skew{})})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(bg)
		f.beats()
		said, err := migrate.ParseMember(f.w.Mini.HGet(record.RosterKey(""), m.ID()))
		if err != nil || said.TTL != 10*time.Minute || f.at(migrate.Observe).TTL != 10*time.Minute {
			t.Errorf("the roster says %v (%v), the record %v", said.TTL, err, f.at(migrate.Observe).TTL)
		}
	})
}

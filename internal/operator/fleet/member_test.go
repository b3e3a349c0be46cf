// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

func phase(t *testing.T, m *migrate.Member, want migrate.Phase) {
	t.Helper()
	p, err := m.Phase(bg)
	if p != want || (err == nil) != (want != migrate.NoPhase) {
		t.Errorf("acts by %v (%v), not %v", p, err, want)
	}
}

func TestWithoutAPhaseThereIsNoLock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		_, end, err := m.Begin(bg, time.Second)
		if !errors.Is(err, migrate.ErrNoPhase) {
			t.Errorf("%v; it should wrap ErrNoPhase", err)
		}
		says(t, err, "getsetlock migrate init")
		end()
		if r := f.init(Options{}); len(r.Members) != 1 || !r.Moved {
			t.Errorf("registered: %v, moved %v", r.Members, r.Moved)
		}
		phase(t, m, migrate.Observe) // at the next attempt, without waiting for a heartbeat
	})
}

func TestANewerRecordIsNotReadInPart(t *testing.T) {
	inBubble(t, func(f *fleet) {
		newer := "gsl/4" + strings.TrimPrefix(
			migrate.Record{Epoch: 1, Phase: migrate.Observe, Since: f.w.ServerNow()}.String(), record.Version)
		if err := f.w.Mini.Set(record.Key(""), newer); err != nil {
			t.Fatal(err)
		}
		m := f.join(migrate.MemberConfig{})
		_, err := m.Phase(bg)
		if !errors.Is(err, record.ErrNewer) || !errors.Is(err, migrate.ErrNoPhase) {
			t.Errorf("%v; it should wrap ErrNewer", err)
		}
		for _, v := range []verb{doAdvance, doBack, doClean, doInit} {
			closed(t, f.must(v, Options{Go: true}).Gate, "record")
		}
		if text, _ := f.w.Mini.Get(record.Key("")); text != newer {
			t.Error("it was overwritten")
		}
	})
}

func TestMemberOfAnotherDialectTakesNoLock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		m := f.join(migrate.MemberConfig{Dialect: "Page"})
		_, err := m.Phase(bg)
		says(t, err, "is recorded for the dialect Jedis")
	})
}

func TestALiveMemberIsNotForgotten(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		r := f.advance(Options{Go: true, Forget: []string{m.ID()}})
		closed(t, r.Gate, "forget")
		if len(r.Members) != 1 || r.Moved {
			t.Errorf("members %v", r.Members)
		}
	})
}

func TestGoodbyeWaitsForLeasesAndLeavesNothing(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		m := f.join(migrate.MemberConfig{})
		end := f.begin(m, time.Second)
		said := make(chan error)
		go func() { said <- m.Goodbye(bg) }()
		f.w.Pass(time.Hour)
		select {
		case err := <-said:
			t.Fatalf("%v before the lease ended", err)
		default:
		}
		if !f.seated(m.ID()) {
			t.Error("it is not registered while it holds")
		}
		end()
		if err := <-said; err != nil {
			t.Error(err)
		}
		for _, key := range f.w.Mini.Keys() {
			if key != record.Key("") && key != record.RosterKey("") && key != record.LogKey("") &&
				!f.endsByItself(key) {
				t.Errorf("left behind: %q", key)
			}
		}
	})
}

func TestAGoodbyeThatMayNotWaitSaysWhatIsHeld(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		m := f.join(migrate.MemberConfig{})
		f.begin(m, time.Second)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		says(t, m.Goodbye(ctx), "still has leases (observe:1)")
		if !f.seated(m.ID()) {
			t.Error("it left the registry with a lease")
		}
	})
}

func TestAMemberThatCannotReadKeepsItsPhase(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		wire, m := f.wired(migrate.MemberConfig{})
		wire.Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
		wire.Cut()
		f.w.Pass(time.Minute)
		phase(t, m, migrate.Observe)
		wire.Calm()
		f.beats()
		if r := f.advance(Options{}); rules(r.Gate)[0] == "vanished" {
			t.Errorf("it did not return: %v", r.Gate.Blocks)
		}
	})
}

// TestWhoWakesUpAsksBeforeItActs: time went by for the wall clock alone, as in
// a machine that slept.
func TestWhoWakesUpAsksBeforeItActs(t *testing.T) {
	inBubble(t, func(f *fleet) {
		clock := f.w.Clock(redistest.Skew{})
		m := f.join(migrate.MemberConfig{Clock: clock})
		f.to(migrate.Observe)
		clock.Suspend()
		other := f.join(migrate.MemberConfig{})
		f.w.Pass(time.Minute)
		f.w.Mini.HDel(record.RosterKey(""), m.ID()) // a human forgot it
		f.advance(Options{Go: true})
		f.beats()
		phase(t, other, migrate.Dual)
		clock.Resume()
		phase(t, m, migrate.Dual)
		if !f.seated(m.ID()) {
			t.Error("it acts and is not registered")
		}
	})
}

// TestNobodyActsBeforeTheServerKnowsHim: a lock taken before would be invisible
// to a gate.
func TestNobodyActsBeforeTheServerKnowsHim(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		for _, command := range []string{"EVALSHA", "EVAL", "GET"} {
			wire := f.w.Wire(redistest.Rule{
				Command: command, Times: -1, Do: redistest.Answer(redistest.NoPerm)})
			m, err := migrate.Join(bg, wire.Pool(), f.timed(migrate.MemberConfig{}))
			if err == nil {
				t.Errorf("%s refused: it joined", command)
				_ = m.Leave()
			}
			says(t, err, "needs GET, SET, DEL")
		}
	})
}

// TestMemberThatCannotPublishTakesNoLock: the record is there, and the
// heartbeat is refused.
func TestMemberThatCannotPublishTakesNoLock(t *testing.T) {
	inBubble(t, func(f *fleet) {
		wire, m := f.wired(migrate.MemberConfig{})
		f.init(Options{})
		for _, command := range []string{"EVALSHA", "EVAL"} {
			wire.Fault(redistest.Rule{Command: command, Times: -1, Do: redistest.Answer(redistest.OOM)})
		}
		phase(t, m, migrate.NoPhase)
		f.beats()
		phase(t, m, migrate.NoPhase)
		wire.Calm()
		phase(t, m, migrate.Observe)
	})
}

// forgetting lets an operator take two dead members out with a step, and
// something happen before its script on a key runs.
func (f *fleet) forgetting(key func(second *migrate.Member) string,
	happens func(second *migrate.Member)) (first string, r *Report, err error) {
	f.t.Helper()
	f.join(migrate.MemberConfig{})
	dead := []*migrate.Member{f.join(migrate.MemberConfig{}), f.join(migrate.MemberConfig{})}
	f.to(migrate.Dual)
	var ids []string
	for _, m := range dead {
		if err := m.Leave(); err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, m.ID())
	}
	f.w.Pass(2 * time.Minute)
	held := key(dead[1])
	r, err = f.overtaken(Advance, Options{Go: true, Forget: ids}, redistest.Rule{Command: "EVALSHA",
		When: func(c redistest.Command) bool { return slices.Contains(c, held) }},
		func() { happens(dead[1]) })
	return ids[0], r, err
}

// A member returns between the look and the deletion. The operator learns which
// members are gone by then.
func TestMemberThatReturnsIsNotForgotten(t *testing.T) {
	inBubble(t, func(f *fleet) {
		first, _, err := f.forgetting(func(m *migrate.Member) string { return m.ID() },
			func(m *migrate.Member) {
				s := m.State()
				s.Seen = f.w.ServerNow()
				f.w.Mini.HSet(record.RosterKey(""), m.ID(), s.String())
			})
		says(t, err, "is alive: it sent a heartbeat")
		says(t, err, "already forgotten: "+first)
		f.at(migrate.Dual)
	})
}

// TestTwoOperatorsMayForgetTheSameMember: the second one's step is taken all
// the same.
func TestTwoOperatorsMayForgetTheSameMember(t *testing.T) {
	inBubble(t, func(f *fleet) {
		_, r, err := f.forgetting(func(m *migrate.Member) string { return m.ID() }, func(m *migrate.Member) {
			f.w.Mini.HDel(record.RosterKey(""), m.ID())
		})
		if err != nil || !r.Moved || !strings.Contains(strings.Join(r.Notes, "\n"), "is gone already") {
			t.Errorf("%v: %+v", err, r)
		}
	})
}

func TestReportNamesForgottenMembersWithoutAStep(t *testing.T) {
	key := func(*migrate.Member) string { return record.Key("") }
	inBubble(t, func(f *fleet) {
		first, r, err := f.forgetting(key, func(*migrate.Member) {
			other := f.at(migrate.Dual)
			other.Epoch++
			f.writes(other)
		})
		if err != nil {
			t.Fatal(err)
		}
		closed(t, r.Gate, "raced")
		if len(r.Notes) != 2 || !strings.Contains(r.Notes[0], first) {
			t.Errorf("notes %q", r.Notes)
		}
	})
	inBubble(t, func(f *fleet) {
		first, _, err := f.forgetting(key, func(*migrate.Member) { f.w.Mini.SetError(redistest.OOM) })
		f.w.Mini.SetError("")
		says(t, err, "already forgotten: "+first)
	})
}

func TestMemberPublishesAndRepeatsItsProbe(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		m := f.join(migrate.MemberConfig{})
		var asked atomic.Value
		var mended atomic.Bool
		m.Attach(func(_ context.Context, key string) error {
			asked.Store(key)
			if mended.Load() {
				return nil
			}
			return errors.New("NOPERM")
		})
		f.beats()
		r := f.advance(Options{})
		closed(t, r.Gate, "probe")
		if asked.Load() != "gsl:probe::"+m.ID() || r.Members[0].Probe != "NOPERM" {
			t.Errorf("asked %q, said %q", asked.Load(), r.Members[0].Probe)
		}
		mended.Store(true)
		f.beats()
		closed(t, f.advance(Options{}).Gate)
	})
}

func TestBadConfigurationsOfAMemberAreNamed(t *testing.T) {
	for words, cfg := range map[string]migrate.MemberConfig{
		"namespace": {Namespace: "a\n"}, "Every": {Every: time.Millisecond}, "Name": {Name: "\xff"},
	} {
		_, err := migrate.Join(bg, nil, cfg)
		says(t, err, words)
	}
}

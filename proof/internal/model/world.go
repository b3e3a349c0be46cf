// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/explore"
)

// Exploration is the result of Explore, with a shortest trace to the goal if
// there is one.
type Exploration struct {
	explore.Result
	Trace Trace
}

// Safe reports whether the goal was not found in the whole bounded space.
func (e Exploration) Safe() bool { return e.Complete && !e.Found }

// Explore searches a scenario breadth first, as skew.Explore searches one of
// old clients alone.
func Explore(sc Scenario) (Exploration, error) {
	m, err := sc.machine()
	if err != nil {
		return Exploration{}, err
	}
	r := explore.Search(m, sc.MaxStates)
	return Exploration{r, Trace{Scenario: sc, Events: r.Events, Length: r.Length}}, nil
}

// Steps appends all possible next steps to out.
func (m *machine) Steps(s *state, out []step) []step {
	out = m.oldSteps(s, out)
	for i := range m.Ours.Clients {
		out = m.ourSteps(s, i, out)
	}
	if m.first < m.last {
		out = m.recordSteps(s, out)
	}
	out = m.worldSteps(s, out)
	if !m.due(s) {
		t := step{Act: event{Kind: explore.ActTick}, To: *s}
		m.tick(&t.To)
		out = append(out, t)
	}
	for i := range out {
		m.tidies(&out[i].To)
	}
	return out
}

// oldSteps appends the steps of the old clients, with what they do to the rest
// of the world.
func (m *machine) oldSteps(s *state, out []step) []step {
	_, m.old.Others = s.holders()
	m.old.Shut = !m.mayStart(s)
	m.buf = m.old.ClientSteps(&s.State, m.buf[:0])
	for _, t := range m.buf {
		full := step{Act: t.Act, To: *s, Note: t.Note}
		full.To.State = t.To
		m.follow(&full, s.L)
		out = append(out, full)
	}
	return out
}

// follow makes the rest of the world follow a step of an old client, before
// which L had that value.
func (m *machine) follow(t *step, before explore.Mark) {
	switch s := &t.To; t.Act.Kind {
	case explore.ActRead:
		s.may = mayAlways
	case explore.ActCrash:
		s.rename(t.Act.Who, explore.Stranger)
	case explore.ActSetnx, explore.ActLast:
		if t.Act.Out == explore.OutWon {
			m.proves(s)
		}
	case explore.ActGetset:
		m.proves(s)
		m.hurt(s, before)
	case explore.ActExtend:
		if m.Dialect.Renews != dialect.RenewsPexpire {
			m.hurt(s, before)
		}
	case explore.ActDel:
		m.hurt(s, before)
		if before.Kind == explore.TombMark {
			t.Note |= noteUntombed
		}
	}
}

// worldSteps appends the events of the server, of all old clients together and
// of other programs.
func (m *machine) worldSteps(s *state, out []step) []step {
	m.buf = m.old.WorldSteps(&s.State, m.buf[:0])
	for _, t := range m.buf {
		full := step{Act: t.Act, To: *s}
		if t.Act.Kind == explore.ActServer {
			m.stepServer(&full.To, t.Act.Arg)
		} else {
			full.To.State = t.To
		}
		out = append(out, full)
	}
	if m.Shorten > 0 && s.cut == 0 && m.hangsOnL(s) {
		t := step{Act: event{Kind: evShorten, Arg: int8(m.Shorten)}, To: *s}
		t.To.cut, t.To.L.TTL = 1, explore.Lasts(m.Shorten)
		m.wake(&t.To)
		out = append(out, t)
	}
	return out
}

// hangsOnL reports whether a getsetlock lease depends on L.
func (m *machine) hangsOnL(s *state) bool {
	for i := range m.Ours.Clients {
		if s.our[i].on != onNothing && s.our[i].pc >= ourAnswer && m.stands(s, i) {
			return true
		}
	}
	return false
}

// wake makes each getsetlock holder look at L before time passes.
func (m *machine) wake(s *state) {
	for i := range m.Ours.Clients {
		if c := &s.our[i]; c.pc == ourHolds && c.on != onNothing {
			c.flags |= flagWoken
		}
	}
}

// Initial returns the initial worlds: nothing is held, and L has the tombstone
// in phases that keep one.
func (m *machine) Initial() []state {
	s := state{record: m.first}
	if m.first >= inSealed && m.first < inClean && !m.Ours.NoTombstone {
		s.L.Kind = explore.TombMark
	}
	for i := range m.Ours.Clients {
		s.our[i].member = m.first
		if m.Ours.Joins && i > 0 {
			s.our[i].member, s.our[i].away, s.our[i].quiet = noPhase, awayUnsaid, m.waits+1
		}
		if !m.Ours.Newcomers {
			s.our[i].met = 1
		}
	}
	if m.Ours.Clients > 0 && m.broken(ruleNoPhaseNoLock) {
		s.our[0].member = noPhase
	}
	all := []state{s}
	for s.Within = 1; s.Within < m.old.Grain; s.Within++ {
		all = append(all, s)
	}
	return all
}

// Reached reports whether a step reaches the goal. It counts the events that
// must come first.
func (m *machine) Reached(t *step) bool {
	if goal := m.Goal.note(); goal != 0 {
		return t.Note&goal != 0
	}
	old, ours := t.To.holders()
	switch m.Goal {
	case twoOurs:
		return ours > 1
	case unnoticed:
		return ours > 1 || t.Note&noteUnnoticed != 0
	case lostJob:
		return m.lostJob(&t.To)
	case twoHold:
		return ours > 1 || ours == 1 && old > 0 || m.Ours.Clients == 0 && old > 1
	}
	m.old.Others = ours
	return m.old.Met(&t.To.State, t.Note)
}

// note returns the note of the step that is the goal itself, wherever it leads;
// 0 for other goals.
func (g Goal) note() explore.Note {
	switch g {
	case clobber:
		return explore.NoteClobber
	case ghost:
		return explore.NoteGhost
	case trampled:
		return noteTrampled
	case falseLoss:
		return noteFalseLoss
	case untombed:
		return noteUntombed
	}
	return 0
}

func (m *machine) lostJob(s *state) bool {
	for i := range s.our {
		if s.our[i].pc == ourHolds && s.our[i].flags&flagHurt != 0 && !m.trustOver(&s.our[i]) {
			return true
		}
	}
	return false
}

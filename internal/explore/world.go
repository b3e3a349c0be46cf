// SPDX-License-Identifier: Apache-2.0

package explore

// Initial returns the initial worlds: nothing is held.
func (m *Machine) Initial() []State {
	var s State
	all := []State{s}
	for s.Within = 1; s.Within < m.Grain; s.Within++ {
		all = append(all, s)
	}
	return all
}

// Steps appends all possible next steps to out.
func (m *Machine) Steps(s *State, out []Step[State]) []Step[State] {
	out = m.WorldSteps(s, m.ClientSteps(s, out))
	if !m.Due(s) {
		t := Step[State]{Act: Act{Kind: ActTick}, To: *s}
		m.Tick(&t.To)
		out = append(out, t)
	}
	return out
}

// ClientSteps appends the steps of the old clients.
func (m *Machine) ClientSteps(s *State, out []Step[State]) []Step[State] {
	for i := range m.Old {
		out = m.clientSteps(s, i, out)
	}
	return out
}

// WorldSteps appends the events of the server and of all old clients together.
func (m *Machine) WorldSteps(s *State, out []Step[State]) []Step[State] {
	if m.ServerStep != 0 && s.Server == 0 || m.StepUndone && s.Server > 0 {
		by := int8(m.ServerStep)
		if s.Server > 0 {
			by = -by
		}
		t := Step[State]{Act: Act{Kind: ActServer, Arg: by}, To: *s}
		m.StepServer(&t.To, by)
		out = append(out, t)
	}
	if m.FleetStep > 0 && s.Fleet == 0 {
		t := Step[State]{Act: Act{Kind: ActFleet, Arg: int8(-m.FleetStep)}, To: *s}
		t.To.Fleet = int8(-m.FleetStep)
		out = append(out, t)
	}
	return out
}

// Reached reports whether a step reaches the goal. It counts the events that
// must come first.
func (m *Machine) Reached(t *Step[State]) bool {
	found := m.Met(&t.To, t.Note)
	return found || m.goal == twoHold && t.To.Holders() > 1
}

// Met reports whether the goal is reached in a state to which a step with such
// notes leads. It counts the events that must come first. It says nothing about
// the goal that two hold.
func (m *Machine) Met(s *State, note Note) bool {
	switch m.goal {
	case clobber:
		return note&NoteClobber != 0
	case ghost:
		return note&NoteGhost != 0
	}
	old := s.Holders()
	if m.links(note, old) {
		s.Links = min(s.Links+1, 2)
	}
	return m.goal == chain && s.Links > 1 || m.goal == stalledLoser && s.Links > 0 && old+m.Others > 1
}

// links reports whether a step is one of those that must come before the goal.
// old is the number of old clients that hold after it.
func (m *Machine) links(note Note, old int) bool {
	switch m.goal {
	case chain:
		return note&NoteForeignDel != 0
	case stalledLoser:
		return note&NoteClobber != 0 && old == 1
	}
	return false
}

// Event returns an act of old clients, of the server or of time in words.
func (m *Machine) Event(a Act, now int, names Order) Event { return m.words.Event(a, now, names) }

package votes

// client is the owner of a key.
type client int8

const (
	nobody client = iota
	holder
	rival
)

// ask is how far a client's request to a member has come.
type ask int8

const (
	askNone    ask = iota // not asked, refused, or known by another mark
	askSent               // the request is on its way
	askGranted            // the member granted, and the reply is on its way
	askCounted            // the reply was read
	askTake               // the holder's request to take a missing vote is on its way
	askTaken              // the member granted that, and the reply is on its way
)

// member is one server.
type member struct {
	owner client
	left  int8 // ticks until the key expires
	quiet int8 // ticks until the member votes
	vote  bool // the holder counts on this vote and will renew it
	fresh bool // the holder took this vote late or again, and no renewal has confirmed it
	after bool // … and it did so after the rival held
	mine  ask  // the holder's request
	other ask  // the rival's
}

// key orders members, so that worlds which differ only in their names are one.
func (m member) key() uint64 {
	k := uint64(m.owner)<<40 | uint64(m.left)<<32 | uint64(m.quiet)<<24 | uint64(m.mine)<<16 |
		uint64(m.other)<<8
	if m.vote {
		k |= 1
	}
	if m.fresh {
		k |= 2
	}
	if m.after {
		k |= 4
	}
	return k
}

// phase is what a client is doing.
type phase int8

const (
	idle phase = iota
	asking
	holding
	renewing // the holder only: it holds, and a renewal is under way
	over
)

// world is one state of a search.
type world struct {
	members [mostMembers]member
	holder  phase
	rival   phase
	trust   int8 // ticks since the start of the holder's last successful round, at most TTL
	round   int8 // ticks since it sent its last round, at most TTL
	rivals  int8 // ticks since the rival sent, at most TTL
	rounds  int8 // renewals begun
	held    bool // the rival held since the holder first did
	done    bool // the holder's last renewal depends on a vote that it took after that

	lost, restarted, jumped int8
}

// event is a step of a world; at is a member or 0.
type event struct {
	kind kind
	at   int8
}

type kind int8

const (
	evTick kind = iota
	evExecute
	evReply
	evRenew
	evStart
	evRival
	evRelease
	evLose
	evRestart
	evJump
)

// trusts reports whether the holder holds by its own clock.
func (x *explorer) trusts(w *world) bool {
	return (w.holder == holding || w.holder == renewing) && int(w.trust) < x.TTL-x.Margin
}

// events appends what may happen next. Of traces of one length the search finds
// the one whose events stand here first, which reads best: the holder acquires,
// trouble comes, the rival asks.
func (x *explorer) events(w *world, out []event) []event {
	for i := range x.members(w) {
		if m := w.members[i].mine; m == askSent || m == askTake {
			out = append(out, event{evExecute, i})
		}
	}
	if x.replies(w) {
		out = append(out, event{kind: evReply})
	}
	if int(w.rounds) < x.Renewals && x.trusts(w) {
		out = append(out, event{kind: evRenew})
	}
	for i := range x.members(w) {
		out = x.troubles(w, i, out)
	}
	if w.rival == idle {
		out = append(out, event{kind: evStart})
	}
	for i := range x.members(w) {
		if w.members[i].other == askSent {
			out = append(out, event{evRival, i})
		}
	}
	if w.rival == holding && x.goal == hidden {
		out = append(out, event{kind: evRelease})
	}
	return append(out, event{kind: evTick})
}

// members goes through the members of which none before is the same.
func (x *explorer) members(w *world) func(yield func(int8) bool) {
	return func(yield func(int8) bool) {
		for i := range int8(x.Members) {
			if i > 0 && w.members[i] == w.members[i-1] {
				continue
			}
			if !yield(i) {
				return
			}
		}
	}
}

// replies reports whether the replies on their way tell the holder anything.
// Replies to a round count together: to read some of them, too few to matter,
// is to read none.
func (x *explorer) replies(w *world) bool {
	granted, counted, taken := x.replied(w)
	return taken > 0 || granted > 0 && granted+counted >= x.Votes
}

// replied counts the replies on their way that grant a vote, those that were
// counted, and those about votes that were taken again. A fresh vote does not
// count until the round has succeeded.
func (x *explorer) replied(w *world) (granted, counted, taken int) {
	for i := range x.Members {
		switch m := &w.members[i]; {
		case m.mine == askGranted && (!m.fresh || w.holder == holding):
			granted++
		case m.mine == askCounted:
			counted++
		case m.mine == askTaken:
			taken++
		}
	}
	return granted, counted, taken
}

// troubles appends what may befall a member. A member without a key loses
// nothing.
func (x *explorer) troubles(w *world, i int8, out []event) []event {
	if w.members[i].owner == nobody {
		return out
	}
	if w.lost < int8(x.Lost) {
		out = append(out, event{evLose, i})
	}
	if w.restarted < int8(x.Restarted) {
		out = append(out, event{evRestart, i})
	}
	if w.jumped < int8(x.Jumped) {
		out = append(out, event{evJump, i})
	}
	return out
}

// apply makes an event happen.
func (x *explorer) apply(w *world, e event) {
	m := &w.members[e.at]
	switch e.kind {
	case evTick:
		x.tick(w)
	case evExecute:
		x.execute(w, m)
	case evReply:
		x.reply(w)
	case evRenew:
		x.renew(w)
	case evStart:
		w.rival = asking
		for i := range x.Members {
			w.members[i].other = askSent
		}
	case evRival:
		x.askRival(w, m)
	case evRelease:
		x.release(w)
	default:
		x.strike(w, m, e.kind)
	}
}

// release frees the rival's keys.
func (x *explorer) release(w *world) {
	w.rival = over
	for i := range x.Members {
		if w.members[i].owner == rival {
			w.members[i].free()
		}
	}
}

// strike makes trouble befall a member.
func (x *explorer) strike(w *world, m *member, k kind) {
	switch k {
	case evLose:
		w.lost++
		m.free()
	case evRestart:
		w.restarted++
		m.free()
		if x.Wait {
			m.quiet = int8(x.TTL)
		}
	case evJump:
		w.jumped++
		if m.left -= int8(x.JumpBy); m.left <= 0 {
			m.free()
		}
	}
}

func (m *member) free() { m.owner, m.left, m.after = nobody, 0, false }

// grants gives the key to a client if it is free and the member votes.
func (m *member) grants(to client, ttl int) bool {
	if m.owner != nobody || m.quiet > 0 {
		return false
	}
	m.owner, m.left = to, int8(ttl)
	return true
}

// execute is a member's turn with a request of the holder.
func (x *explorer) execute(w *world, m *member) {
	first, taking, granted := w.rounds == 0, m.mine == askTake, false
	switch {
	case !first && !taking && m.owner == holder:
		m.left, granted = int8(x.TTL), true
	case first || taking || x.broken&ruleRenewFirst != 0:
		granted = m.grants(holder, x.TTL)
		m.after = granted && w.held
	}
	switch {
	case granted && taking:
		m.mine = askTaken
	case granted:
		m.mine = askGranted
	default:
		m.mine, m.vote, m.fresh = askNone, false, false
	}
}

// reply is the holder reading the replies that there are.
func (x *explorer) reply(w *world) {
	renewed := w.holder == renewing
	granted, counted, _ := x.replied(w)
	succeeds := (w.holder == asking || renewed) && granted > 0 && granted+counted >= x.Votes
	again := x.read(w, succeeds)
	if !succeeds {
		return // replies about votes taken again, or further ones to a round that has succeeded
	}
	w.trust = w.round
	if x.broken&ruleFromSent != 0 {
		w.trust = 0
	}
	w.holder = holding
	x.ends(w)
	if w.holder == over {
		return
	}
	w.done = renewed && again
	for i := range x.Members {
		if m := &w.members[i]; renewed && m.mine == askNone && !m.vote {
			m.mine = askTake
		}
	}
}

// read notes what the replies say. A reply to the first round is late if it
// comes after the holder held. read reports whether a success depends on a vote
// that the holder took after the rival held.
func (x *explorer) read(w *world, succeeds bool) (again bool) {
	solid := 0
	for i := range x.Members {
		switch m := &w.members[i]; {
		case m.mine == askTaken:
			m.mine, m.vote, m.fresh = askNone, true, x.broken&ruleConfirmed == 0
		case m.mine == askGranted && (succeeds || w.holder == holding):
			if !m.after {
				solid++
			}
			m.mine, m.vote = askCounted, true
			if late := !succeeds && w.rounds == 0; late {
				m.fresh = x.broken&ruleLate == 0
			} else {
				m.fresh, m.after = false, false
			}
		}
	}
	return solid < x.Votes
}

// renew begins a renewal. Requests of earlier rounds have been executed by now
// or never will be, since a connection keeps their order.
func (x *explorer) renew(w *world) {
	w.holder, w.round = renewing, 0
	w.rounds++
	for i := range x.Members {
		m := &w.members[i]
		m.mine = askNone
		if m.vote || x.broken&ruleRenewFirst != 0 {
			m.mine = askSent
		}
	}
}

// askRival is a member's turn with the rival's request. Its reply arrives at
// once: what a late one does is shown by the holder.
func (x *explorer) askRival(w *world, m *member) {
	m.other = askNone
	if !m.grants(rival, x.TTL) {
		return
	}
	m.other = askCounted
	counted := 0
	for i := range x.Members {
		if w.members[i].other == askCounted {
			counted++
		}
	}
	if counted == x.majority && int(w.rivals) < x.TTL-x.Margin {
		w.rival, w.held = holding, w.holder == holding || w.holder == renewing
	}
}

// tick lets one tick pass.
func (x *explorer) tick(w *world) {
	for i := range x.Members {
		m := &w.members[i]
		if m.owner != nobody {
			if m.left--; m.left == 0 {
				m.free()
			}
		}
		m.quiet = max(0, m.quiet-1)
	}
	cap := int8(x.TTL)
	w.round = min(w.round+1, cap)
	if w.holder == holding || w.holder == renewing {
		w.trust = min(w.trust+1, cap)
	}
	if w.rival == asking || w.rival == holding {
		w.rivals = min(w.rivals+1, cap)
	}
	x.ends(w)
	if w.rival != idle && w.rival != over && int(w.rivals) >= x.TTL-x.Margin {
		w.rival = over
		for i := range x.Members {
			w.members[i].other = askNone
		}
	}
}

// ends makes the holder stop when its trust is over.
func (x *explorer) ends(w *world) {
	if w.holder != holding && w.holder != renewing || int(w.trust) < x.TTL-x.Margin ||
		x.broken&ruleTrustEnds != 0 && w.holder == renewing {
		return
	}
	w.holder = over
	for i := range x.Members {
		m := &w.members[i]
		m.mine, m.vote, m.fresh = askNone, false, false
	}
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"iter"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

// space is the namespace of every plan with a fleet's record.
const space = "k"

// What a fleet has on the server.
const (
	phaseKey  = "gsl:phase:" + space
	rosterKey = "gsl:roster:" + space
	seenKey   = "gsl:seen:" + space
)

// firstEpoch is the epoch of a record that stands from the start.
const firstEpoch = 7

// longAgo is how long a record has had its phase when the play begins, and how
// long it is that an old client tried.
const longAgo = time.Hour

// began writes the record of a fleet that has been in a phase for long, and
// the tombstones that belong to it.
func (w *world) began() {
	o := w.plan.Old
	if o == nil || o.Begins == migrate.NoPhase {
		return
	}
	w.watch.from, w.watch.acted = -longAgo, -longAgo
	r := migrate.Record{Epoch: firstEpoch, Phase: o.Begins, Since: w.redis.ServerNow().Add(-longAgo).UTC(),
		Dialect: o.Dialect, Roster: "nonce", Run: "run-1-0", Every: o.Every}
	if o.Begins == migrate.Clean && (!o.Apart || w.plan.Seed%2 == 0) {
		r.Target = o.Target
	}
	_ = w.redis.Mini.Set(phaseKey, r.String())
	w.said = r
	w.redis.Mini.HSet(rosterKey, "nonce", r.Roster)
	for n, k := range w.keys {
		if o.Begins >= migrate.Sealed && n < o.Bare {
			_ = w.redis.Mini.Set(k.name, w.tomb())
			w.redis.Mini.SetTTL(k.name, time.Duration(5+w.plan.Seed%26)*24*time.Hour)
		}
	}
}

// tomb returns the bytes of the tombstone.
func (w *world) tomb() string {
	tomb, err := w.plan.Old.dialect().EncodeValue(w.plan.Old.dialect().Tombstone())
	if err != nil {
		panic(err)
	}
	return tomb
}

// joined returns the process's member; nil: it has none.
func (p *process) joined() *migrate.Member {
	if p.unborn.Load() {
		return nil
	}
	return p.member
}

// seated are the processes whose members are in the roster, dead ones too.
func (w *world) seated() iter.Seq[*process] {
	w.redis.ServerNow()
	return func(yield func(*process) bool) {
		for _, p := range w.procs {
			if p.joined() != nil && w.redis.Mini.HGet(rosterKey, p.member.ID()) != "" && !yield(p) {
				return
			}
		}
	}
}

// record returns what the server says; the zero Record: there is none.
func (w *world) record() migrate.Record {
	w.redis.ServerNow()
	text, _ := w.redis.Mini.Get(phaseKey)
	r, err := migrate.ParseRecord(text)
	if err != nil {
		return migrate.Record{}
	}
	return r
}

// recorded records that the record changed, and by which phases members act at
// that instant.
func (w *world) recorded(l *link) {
	by := l.p
	if w.plan.Form != Bridged || w.plan.Procs[by.id].Kind != Operator {
		return
	}
	r := w.record()
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.said
	if r.Epoch == was.Epoch || w.plan.Old.has(oldRecord) && r.Epoch == 1 { // which was restored
		return
	}
	w.said = r
	w.h.sometimes("phase " + r.Phase.String())
	w.h.add(Event{Kind: Recorded, Proc: by.id, Op: None, Text: r.Phase.String(),
		Until: l.verb.quiet, Stands: was.Epoch == 0 && w.restores(r.Phase)})
	for p := range w.seated() {
		if p.dead.Load() {
			continue
		}
		s := p.member.State()
		w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: s.Phase.String()})
		for _, by := range migrate.Phases() {
			if s.Leases[by] > 0 {
				w.h.add(Event{Kind: Acts, Proc: p.id, Op: None, Text: by.String(), Done: true})
			}
		}
	}
	w.steps(l, was, r)
}

// restores reports whether a lost record was written in a phase that no member
// has left: it moves nobody forwards. w.mu is held.
func (w *world) restores(phase migrate.Phase) bool {
	for p := range w.seated() {
		if by := p.member.State().Phase; !p.dead.Load() && by != migrate.NoPhase && by < phase {
			return false
		}
	}
	return w.plan.Old.has(lostRecord)
}

// phaseOf returns the phase by which a lease was just taken. A composed one has
// a second token on M, but in clean. w.mu is held.
func (w *world) phaseOf(l *held) (phase migrate.Phase, mark string) {
	if !w.plan.composed() {
		return w.grants[word(l.token)].phase, ""
	}
	w.redis.ServerNow()
	if m := word(w.read(l.key).m); w.grants[m].proc == l.p.id && m != "" && m != "left" {
		return w.grants[m].phase, m
	}
	return migrate.Clean, ""
}

// ends makes the world look at a composed lease when its token on the old
// clients' server ends. w.mu is held.
func (w *world) ends(k *key) {
	if !w.plan.composed() {
		return
	}
	w.doubt(k)
	k.markEnd = rearm(k.markEnd, w.read(k).mLeft, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.redis.ServerNow()
		w.doubt(k)
	})
}

// disorder is something that closes gates for as long as it lasts. What a verb
// finds at one look is tried in fleet.TestTrials; these are what members live
// with.
type disorder struct {
	name string
	// from is the first phase to which no step forwards may lead. Observe: no
	// step at all, NoPhase: every step may be taken.
	from migrate.Phase
	late time.Duration // until when a verb may not know of it
	does func(w *world)
}

// Disorders that close no gate.
const (
	unheard    = "the first member's heartbeats are refused" // soon it has no lock
	lostRecord = "the record is lost"                        // the next one forgets what was not over
	oldRecord  = "an old record was restored"                // nobody writes it anew
)

// unmended reports that members may wait for ever for an operator who writes
// the record anew.
func (o *Old) unmended() bool { return o.has(lostRecord) || o.has(oldRecord) }

// has reports whether the old clients' plan has a disorder.
func (o *Old) has(name string) bool {
	return o != nil && o.Disorder > 0 && disorders[o.Disorder-1].name == name
}

// disorders are drawn for fleets whose record stands from the start.
var disorders = []disorder{
	{"the roster was lost", migrate.Observe, 0, func(w *world) { w.redis.Mini.Del(rosterKey) }},
	{"the roster is another one", migrate.Observe, 0, func(w *world) {
		w.redis.Mini.HSet(rosterKey, "nonce", "another")
	}},
	{"the server has restarted", migrate.Observe, 0, func(w *world) {
		w.ups[0] = uptime{w.ups[0].run + 1, w.h.now()}
	}},
	{oldRecord, migrate.Observe, 0, func(w *world) {
		r := w.record()
		r.Epoch = 1
		_ = w.redis.Mini.Set(phaseKey, r.String())
		w.said = migrate.Record{}
	}},
	{lostRecord, migrate.NoPhase, 0, func(w *world) {
		if r := w.record(); r.Epoch > 1 {
			w.stated = r.Phase // the operator may have to state it
		}
		w.redis.Mini.Del(phaseKey)
		w.said = migrate.Record{}
	}},
	{unheard, migrate.NoPhase, 0, func(*world) {}}, // the network sees to it
	{"the watcher stops", migrate.Sealed, 16 * time.Second, func(w *world) { w.watch.stops = true }},
}

// remembered reports whether a member in the roster has seen the record that
// an old one replaced. When these have left or are forgotten, nobody can know.
func (w *world) remembered() bool {
	fields, _ := w.redis.Mini.HKeys(rosterKey)
	return slices.ContainsFunc(fields, func(id string) bool {
		m, err := migrate.ParseMember(w.redis.Mini.HGet(rosterKey, id))
		return err == nil && m.Epoch >= firstEpoch
	})
}

// disordered begins the plan's disorder.
func (w *world) disordered() []act {
	o := w.plan.Old
	if o == nil || o.Disorder == 0 {
		return nil
	}
	return []act{{o.Disorders, func() {
		d := disorders[o.Disorder-1]
		w.h.sometimes("a disorder")
		w.h.add(Event{Kind: Happened, Proc: All, Op: None, Text: "from now on " + d.name})
		w.mu.Lock()
		defer w.mu.Unlock()
		w.redis.ServerNow()
		d.does(w)
	}}}
}

// closed judges that no step is taken in a disorder that was there when the
// verb gathered its facts. w.mu is held.
func (w *world) closed(l *link, was, r migrate.Record) {
	o := w.plan.Old
	if o.Disorder == 0 || was.Phase == r.Phase || was.Phase == migrate.Clean {
		return
	}
	switch d := disorders[o.Disorder-1]; {
	case l.verb.saw < o.Disorders+d.late || d.from == migrate.NoPhase:
	case d.name == oldRecord && !w.remembered():
	case d.from == migrate.Observe || r.Phase > was.Phase && r.Phase >= d.from:
		w.spoil(l.p, "a step to "+r.Phase.String()+" is taken, although "+d.name)
	}
}

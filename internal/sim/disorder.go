// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

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

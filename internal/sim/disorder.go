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
	does func(w *world) // on the server; nil: the watcher stops
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
	{"the roster was lost", migrate.Observe, func(w *world) { w.redis.Mini.Del(rosterKey) }},
	{"the roster is another one", migrate.Observe, func(w *world) {
		w.redis.Mini.HSet(rosterKey, "nonce", "another")
	}},
	{"the server has restarted", migrate.Observe, func(w *world) {
		w.ups[0] = uptime{w.ups[0].run + 1, w.h.now()}
	}},
	{oldRecord, migrate.Observe, func(w *world) {
		r := w.record()
		r.Epoch = 1
		_ = w.redis.Mini.Set(phaseKey, r.String())
		w.said = migrate.Record{}
	}},
	{lostRecord, migrate.NoPhase, (*world).loses},
	{unheard, migrate.NoPhase, func(w *world) { w.mutes = true }},
	{"the watcher stops", migrate.Sealed, nil},
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

// job is what is claimed of the old clients' longest job.
func (o *Old) job() time.Duration { return max(o.honest(), o.Claims.Greatest) }

// loses deletes the record. The operator may have to state the phase then. w.mu
// is held.
func (w *world) loses() {
	if r := w.record(); r.Epoch > 1 {
		w.stated = r.Phase
	}
	w.redis.Mini.Del(phaseKey)
	w.said, w.disorder = migrate.Record{}, 0
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
		if d.does != nil {
			w.redis.ServerNow()
			d.does(w)
		}
		w.sight.mu.Lock()
		defer w.sight.mu.Unlock()
		w.sight.stops = d.does == nil
		switch {
		case d.does != nil && d.from != migrate.NoPhase:
			w.disorder = w.h.now()
		case w.sight.stops:
			w.disorder = w.h.now() + 16*time.Second
		}
	}}}
}

// closed judges that no step is taken in a disorder that was there when the
// verb gathered its facts. w.mu is held.
func (w *world) closed(l *link, was, r migrate.Record) {
	if w.disorder == 0 || w.disorder > l.verb.saw || was.Phase == r.Phase ||
		was.Phase == migrate.Clean {
		return
	}
	d := disorders[w.plan.Old.Disorder-1]
	if d.name == oldRecord && !w.remembered() {
		return
	}
	if d.from == migrate.Observe || r.Phase > was.Phase && r.Phase >= d.from {
		w.spoil(l.p, "a step to "+r.Phase.String()+" is taken, although "+d.name)
	}
}

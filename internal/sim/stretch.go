// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

// stretch makes a plan with a fleet a short one. Its record has a phase from
// the start, and the steps of a migration are played in parts, by many seeds.
func (d dice) stretch(p *Plan) (span time.Duration) {
	all := migrate.Phases()
	p.Old.Begins, p.Old.Bare, p.Old.Fence = all[d.IntN(len(all))], 1+d.IntN(2), d.one(3)
	if d.one(4) {
		p.Old.Target, p.Old.Apart = "t", d.one(4)
	}
	if !d.one(3) {
		p.Old.Disorder, p.Old.Disorders = 1+d.IntN(len(disorders)), 2*time.Second+d.nanos(9*time.Second)
		switch from := disorders[p.Old.Disorder-1].from; from { // where a step that it forbids would be taken
		case migrate.Dual:
			p.Old.Begins = migrate.Observe
		case migrate.Sealed:
			p.Old.Begins = pick(d, migrate.Dual, migrate.Sealed, migrate.Modern)
		}
	}
	return 25*time.Second + d.nanos(15*time.Second)
}

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
	if !w.plan.short() {
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

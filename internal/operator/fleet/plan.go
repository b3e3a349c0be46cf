// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/migrate"
)

// Leg is one step of the road.
type Leg struct {
	From migrate.Phase `json:"from" answer:"null"` // phase before the step; null: there is no record
	To   migrate.Phase `json:"to"`                 // phase after the step
	// Wait is how long the step takes at least: its window, leases that have to
	// end, heartbeats.
	Wait time.Duration `json:"wait_ms"`
	// Needs is what the step requires, in sentences. Refuses is what closes its
	// gate now. For a later leg it has only what no earlier leg mends.
	Needs   []string  `json:"needs"`
	Refuses []Finding `json:"refuses"`
	// Evidence is what the gate of the next leg is judged by. Later legs have
	// none yet.
	Evidence []Finding `json:"evidence"`
}

// Road is the whole way from the phase where a fleet is.
type Road struct {
	Report *Report
	Fleet  migrate.Fleet
	Legs   []Leg
	// Wait is the sum over the legs.
	Wait time.Duration
}

// Plan says what the whole road needs of this fleet: times computed from its
// own leases and jobs, and what would refuse a step. It changes nothing.
func Plan(ctx context.Context, pool *redis.Pool, o Options) (*Road, error) {
	o.Go = false
	return run(ctx, pool, o, func(d *desk, f *facts) (*Road, error) { return f.road(d.report(f)), nil })
}

// road is a pure function of the facts.
func (f *facts) road(r *Report) *Road {
	fleet := f.fleet()
	road := &Road{Report: r, Fleet: fleet}
	from := f.record.Phase
	if !f.record.exists() {
		if f.survey.Keys == 0 && len(f.members()) == 0 {
			r.note("nothing is there: no key of this database begins with %q, and no program is registered; see --namespace and the database of --redis",
				f.namespace)
		}
		_, blocks := f.firstRecord(migrate.NoPhase)
		road.Legs = append(road.Legs,
			Leg{From: migrate.NoPhase, To: migrate.Observe,
				Needs: []string{
					"getsetlock migrate init writes the record; programs that join begin to act by it"},
				Refuses: append(blocks, f.overlap()...)})
		from = migrate.Observe
	}
	for p := from; p < migrate.Clean; p++ {
		road.Legs = append(road.Legs, f.leg(p, fleet, p == f.record.Phase))
	}
	for _, l := range road.Legs {
		road.Wait += l.Wait
	}
	return road
}

// leg is one step. Its gate is judged as if the fleet and all its members were
// in the phase before.
func (f *facts) leg(from migrate.Phase, fleet migrate.Fleet, next bool) Leg {
	l := Leg{From: from, To: from + 1, Wait: f.heartbeat() + f.longestTTL()}
	there := *f
	if !next {
		there = f.asIf(from)
	}
	gate := judge(&there, l.To)
	if l.Refuses = lasting(gate.Blocks); next {
		l.Refuses, l.Evidence = gate.Blocks, gate.Evidence
	}
	every := fmt.Sprintf("every member acts by %v, and no lease of an earlier phase runs (at most %v)", from,
		f.longestTTL())
	need, formula := f.windowTo(l.To, fleet)
	long := need.String()
	if fleet.Greatest.Source == migrate.Unknown || fleet.Job.Source == migrate.Unknown {
		long = "a window"
	}
	window := fmt.Sprintf("%s without an attempt of an old client (%s), watched by status --watch --monitor",
		long,
		formula)
	if asksIdle(l.To) && f.idle() == 0 {
		window += ", and longer if an old client pauses for longer between two attempts: say how long by --idle"
	}
	switch l.To {
	case migrate.Dual:
		l.Needs = []string{every, "every member has run its scripts on its probe key",
			"the old clients' smallest lease, clock spread, longest attempt and longest job are known"}
	case migrate.Sealed, migrate.Modern:
		l.Needs = []string{every, window}
		if l.To == migrate.Sealed {
			l.Needs = append(l.Needs,
				"before the step: the last old client is stopped; after it an old client waits and gives up")
		}
		l.Wait += need
	case migrate.Clean:
		l.Needs = []string{every, window, "it is final: modern, where a fleet may rest, keeps old clients out of every key, and clean only out of those that have a tombstone, until it ends"}
		if name, same := f.target(); name != "" || !same {
			l.Needs = append(l.Needs, "every member composes its locks with the same target")
		}
		l.Wait += need
	}
	return l
}

// asIf is the fleet as if it were in a later phase, with every member there.
func (f *facts) asIf(p migrate.Phase) facts {
	there := *f
	there.record.Phase, there.record.Pending, there.record.err = p, migrate.NoPhase, nil
	there.record.Since = f.now
	if !f.record.exists() {
		there.record.bytes, there.record.Dialect = "planned", f.dialect.Name
	}
	there.survey.members = nil
	for _, m := range f.members() {
		if m.err == nil {
			m.Phase, m.Epoch, m.Leases = p, there.record.Epoch, nil
		}
		there.survey.members = append(there.survey.members, m)
	}
	return there
}

// lasting are refusals that neither time nor earlier steps lift.
func lasting(all []Finding) []Finding {
	var out []Finding
	for _, b := range all {
		switch b.Rule {
		case "eviction", "slot", "dialect", "lease-rule", "getset-first", "guards", "namespace", "members",
			"vanished", "claim", "behind", "ahead", "idle", "target":
			out = append(out, b)
		}
	}
	return out
}

func (f *facts) heartbeat() time.Duration {
	var longest time.Duration
	for _, m := range f.members() {
		longest = max(longest, m.Every)
	}
	return longest
}

func (f *facts) longestTTL() time.Duration {
	var longest time.Duration
	for _, m := range f.members() {
		longest = max(longest, m.TTL)
	}
	return longest
}

// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

func init() {
	protocols["dual"] = protocolKind{
		about:   "old clients (verbatim) and bridges in phase dual share the keys",
		dialect: true,
		groups: func(p Plan) []groupSpec {
			return []groupSpec{
				{name: "old", protocol: "verbatim", clients: (p.Clients + 1) / 2, kind: oldClient,
					make: oldLocker},
				{name: "new", protocol: "dual", clients: p.Clients / 2, kind: newClient, make: dualLocker},
			}
		},
		rules:   legacyRules,
		overrun: pastLease,
	}
	protocols["modern"] = protocolKind{
		about:  "token locks alone, as in a fleet without old clients",
		groups: alone("modern", newClient, modernLocker),
		rules: func(p Plan) (rules, error) {
			return rules{margin: modernTTL / 10}, nil
		},
	}
}

// modernTTL is the default TTL of package lock for backends without one of
// their own.
const modernTTL = 30 * time.Second

func dualLocker(w *worker) (seller, error) { return w.bridged(migrate.Fixed(migrate.Dual), nil) }

// bridged returns a program that uses a bridge. leave runs when the program
// ends.
func (w *worker) bridged(phases migrate.PhaseSource, leave func(dead bool)) (seller, error) {
	p := w.fleet.plan
	terms, err := p.terms()
	if err != nil {
		return nil, err
	}
	store, err := migrate.New(w.link.pool(), migrate.Config{
		Phases: phases, Dialect: p.spoken(), Terms: terms, Clock: w.host, Timeout: p.replyWithin(),
	})
	if err != nil {
		return nil, err
	}
	return w.locker(store, terms, locker{careful: true, leave: leave})
}

func modernLocker(w *worker) (seller, error) {
	return w.modern(dialect.Terms{Lease: modernTTL}, locker{})
}

// plainLocker returns a program that knows of no migration, as a service may be
// once its fleet is in clean. It uses the token lock alone, under the names of
// the bridges' M keys and with leases of the same length.
func plainLocker(w *worker) (seller, error) {
	terms, err := w.fleet.plan.terms()
	if err != nil {
		return nil, err
	}
	return w.modern(terms, locker{ttl: terms.DefaultTTL(), names: w.fleet.marks})
}

func (w *worker) modern(terms dialect.Terms, l locker) (seller, error) {
	store, err := modern.New(w.link.pool(), modern.Config{Timeout: w.fleet.plan.replyWithin()})
	if err != nil {
		return nil, err
	}
	l.careful = true
	return w.locker(store, terms, l)
}

// member returns a program that follows the fleet's record.
func member(w *worker) (seller, error) {
	m := w.fleet.moves
	joined, err := migrate.Join(context.Background(), w.link.pool(), migrate.MemberConfig{
		Namespace: m.namespace, Name: "rehearsal", Dialect: w.fleet.plan.spoken().Name,
		Every: w.fleet.plan.memberEvery(), Renews: w.fleet.plan.memberRenews(),
		Timeout: w.fleet.plan.replyWithin(), Clock: w.host,
	})
	if err != nil {
		return nil, err
	}
	s, err := w.bridged(joined, func(dead bool) {
		if dead {
			m.lost(joined.ID())
			joined.Leave()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), replyWithin)
		defer cancel()
		joined.Goodbye(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, joined.Leave())
	}
	return s, nil
}

// memberEvery is the time between heartbeats. A member follows a step that much
// later. In virtual time the long pause keeps a day of heartbeats cheap.
func (p Plan) memberEvery() time.Duration {
	if p.Watch {
		return time.Second
	}
	return 20 * time.Second
}

// memberRenews is short in real time, so that a dead program can be forgotten
// soon. Zero is the default of members.
func (p Plan) memberRenews() time.Duration {
	if p.Watch {
		return 3 * p.memberEvery()
	}
	return 0
}

// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// modernTTL is the default TTL of package lock for backends without one of
// their own.
const modernTTL = 30 * time.Second

func dualLocker(w *worker) (seller, error) { return w.bridged(migrate.Fixed(migrate.Dual), nil) }

// bridged returns a program that uses a bridge. leave runs when the program
// ends.
func (w *worker) bridged(phases migrate.PhaseSource, leave func(dead bool)) (seller, error) {
	p := w.fleet.plan
	store, err := migrate.New(w.link.pool(), migrate.Config{
		Phases: phases, Dialect: p.spoken(), Terms: w.fleet.terms, Clock: w.host, Timeout: p.replyWithin(),
	})
	if err != nil {
		return nil, err
	}
	return w.locker(store, locker{careful: true, leave: leave})
}

func modernLocker(w *worker) (seller, error) { return w.modern(false) }

// plainLocker returns a program that knows of no migration, as a service may be
// once its fleet is in clean. It uses the token lock alone, under the names of
// the bridges' M keys and with leases of the same length.
func plainLocker(w *worker) (seller, error) { return w.modern(true) }

func (w *worker) modern(plain bool) (seller, error) {
	store, err := modern.New(w.link.pool(), modern.Config{Timeout: w.fleet.plan.replyWithin()})
	if err != nil {
		return nil, err
	}
	return w.locker(store, locker{careful: true, plain: plain})
}

// member returns a program that follows the fleet's record.
func member(w *worker) (seller, error) {
	m, p := w.fleet.moves, w.fleet.plan
	renews := time.Duration(0) // the default of members
	if p.Watch {
		renews = 3 * p.memberEvery() // in real time, so that a dead program can be forgotten soon
	}
	joined, err := migrate.Join(context.Background(), w.link.pool(), migrate.MemberConfig{
		Namespace: m.namespace, Name: "rehearsal", Dialect: p.spoken().Name, Every: p.memberEvery(),
		Renews: renews, Timeout: p.replyWithin(), Clock: w.host,
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

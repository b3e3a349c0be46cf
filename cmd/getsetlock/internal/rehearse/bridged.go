package rehearse

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

func init() {
	protocols["dual"] = protocolKind{
		about:   "old clients (verbatim) and bridges in phase dual share the keys",
		dialect: true,
		groups: func(p Plan) []groupSpec {
			return []groupSpec{
				{name: "old", protocol: "verbatim", clients: (p.Clients + 1) / 2, old: true, make: oldLocker},
				{name: "new", protocol: "dual", clients: p.Clients / 2, make: dualLocker},
			}
		},
		rules:   legacyRules,
		overrun: pastLease,
	}
	protocols["modern"] = protocolKind{
		about:  "token locks alone, as in a fleet without old clients",
		groups: alone("modern", modernLocker),
		rules: func(p Plan) (rules, error) {
			everybody := func(int) bool { return true }
			nobody := func(int) bool { return false }
			return rules{ours: everybody, old: nobody, margin: modernTTL / 10}, nil
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
	backend, err := migrate.New(w.link.pool(), migrate.Config{
		Phases: phases, Dialect: p.spoken(), Terms: terms, Clock: w.host, Timeout: p.replyWithin(),
	})
	if err != nil {
		return nil, err
	}
	return w.lockerOn(backend, terms, leave)
}

func modernLocker(w *worker) (seller, error) {
	backend, err := modern.New(w.link.pool(), modern.Config{Timeout: w.fleet.plan.replyWithin()})
	if err != nil {
		return nil, err
	}
	return w.lockerOn(backend, dialect.Terms{Lease: modernTTL}, nil)
}

// plainLocker returns a program that knows of no migration, as a service may be
// once its fleet is in clean. It uses the token lock alone, under the names of
// the bridges' M keys and with leases of the same length.
func plainLocker(w *worker) (seller, error) {
	p := w.fleet.plan
	terms, err := p.terms()
	if err != nil {
		return nil, err
	}
	backend, err := modern.New(w.link.pool(), modern.Config{Timeout: p.replyWithin()})
	if err != nil {
		return nil, err
	}
	patience := p.patience(terms)
	client, err := lock.New(backend,
		lock.Config{TTL: terms.DefaultTTL(), Wait: patience, Clock: w.host, Jitter: w.jitter(),
			Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, errors.Join(err, backend.Close())
	}
	return &locker{worker: w, client: client, patience: patience, careful: true, names: w.fleet.marks}, nil
}

// lockerOn returns a program that was written for leases, on any backend. The
// program closes the backend.
func (w *worker) lockerOn(store backend.Store, terms dialect.Terms, leave func(dead bool)) (seller,
	error) {
	patience := w.fleet.plan.patience(terms)
	client, err := lock.New(store,
		lock.Config{Wait: patience, Clock: w.host, Jitter: w.jitter(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		if c, ok := store.Contract().(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	return &locker{worker: w, client: client, patience: patience, careful: true, leave: leave}, nil
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

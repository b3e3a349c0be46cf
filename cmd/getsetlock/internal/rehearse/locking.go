// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// locking is how a program keeps others from its product. The zero value does
// not: its programs work with bare hands.
type locking struct {
	transaction bool         // the server refuses a write if another program wrote meanwhile
	client      *lock.Client // nil: no lock
	patience    time.Duration
	careful     bool            // it stops when its lease ends, as programs written for leases do
	leave       func(dead bool) // runs when the client is closed; nil: nothing
	plain       bool            // it locks key M by its name, with the bridges' TTL
}

// The ways of locking, one of which each group has.

func bareHands(*worker) error { return nil }

func transactions(w *worker) error {
	w.transaction = true
	return nil
}

func oldLocker(w *worker) error { return w.legacy(legacy.Verbatim) }
func newLocker(w *worker) error { return w.legacy(legacy.Hardened) }

func (w *worker) legacy(mode legacy.Mode) error {
	w.careful = mode == legacy.Hardened
	return w.opens(w.fleet.plan.legacy(mode, w.fleet.terms, w.link.pool(), w.host))
}

func dualLocker(w *worker) error { return w.bridged(migrate.Fixed(migrate.Dual)) }

func (w *worker) bridged(phases migrate.PhaseSource) error {
	p := w.fleet.plan
	w.careful = true
	return w.opens(migrate.New(w.link.pool(), migrate.Config{
		Phases: phases, Dialect: p.spoken(), Terms: w.fleet.terms, Clock: w.host, Timeout: p.replyWithin(),
	}))
}

func modernLocker(w *worker) error {
	w.careful = true
	return w.opens(modern.New(w.link.pool(), modern.Config{Timeout: w.fleet.plan.replyWithin()}))
}

// plainLocker is for a program that knows of no migration, as a service may be
// once its fleet is in clean. It uses the token lock alone, under the names of
// the bridges' M keys and with leases of the same length.
func plainLocker(w *worker) error {
	w.plain = true
	return modernLocker(w)
}

// member is for a program that follows the fleet's record.
func member(w *worker) error {
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
		return err
	}
	w.leave = func(dead bool) {
		if dead {
			m.lost(joined.ID())
			joined.Leave()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), replyWithin)
		defer cancel()
		joined.Goodbye(ctx)
	}
	if err := w.bridged(joined); err != nil {
		return errors.Join(err, joined.Leave())
	}
	return nil
}

// memberEvery is the time between heartbeats. A member follows a step that much
// later. In virtual time the long pause keeps a day of heartbeats cheap.
func (p Plan) memberEvery() time.Duration {
	if p.Watch {
		return time.Second
	}
	return 20 * time.Second
}

// opens gives the program a client of the store, which closes the store.
func (w *worker) opens(store backend.Store, err error) error {
	if err != nil {
		return err
	}
	w.patience = w.fleet.plan.patience(w.fleet.terms)
	cfg := lock.Config{Wait: w.patience, Clock: w.host, Jitter: w.jitter()}
	if w.plain {
		cfg.TTL = w.fleet.terms.DefaultTTL()
	}
	w.client, err = client(store, cfg)
	return err
}

// client makes a client, or closes the store.
func client(store backend.Store, cfg lock.Config) (*lock.Client, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := lock.New(store, cfg)
	if s, ok := store.Contract().(io.Closer); ok && err != nil {
		err = errors.Join(err, s.Close())
	}
	return c, err
}

// sellLocked serves one order under the lock.
func (w *worker) sellLocked(ctx context.Context, t *task) error {
	f := w.fleet
	asked, sent := f.now(), w.link.own.Load()
	lease, err := w.acquire(ctx, t)
	if err != nil {
		return err
	}
	taking := w.link.own.Load() - sent
	h, n := f.book.begin(w.team, t.SKU, f.now()-asked)
	h.host = w.host
	key := f.book.products[t.SKU].key
	took := w.link.last("asked", key)
	if at := took.Sub(f.began); at >= 0 && at < h.start {
		h.asked = at
	}
	alive := ctx
	if w.careful {
		alive = lease.Context(ctx)
	}
	end := f.fate(w.team, n)
	sold, _, err := w.deduct(alive, t, end, h)
	h.stop = f.now()
	if errors.Is(err, errDead) {
		h.freed = h.stop
		f.book.orphan(t.SKU)
		if end == takesAllDown {
			f.redeploy(w, t.SKU)
		}
		return errDead
	}
	sent = w.link.own.Load()
	h.lost = errors.Is(lease.Release(), lock.ErrLost)
	h.freed = f.now()
	h.commands = taking + w.link.own.Load() - sent
	h.deletes = w.link.last("freed", key).After(took)
	if h.lost {
		f.book.count(&w.team.Lost)
	}
	switch {
	case err == nil:
		f.book.ends(h, t.Order, sold)
	case errors.Is(err, lock.ErrLost):
		return errLost
	}
	return err
}

// acquire waits for the key as long as its program has patience. Some old
// clients give up, or throw, long before. Then their callers try again.
func (w *worker) acquire(ctx context.Context, t *task) (*lock.Lease, error) {
	until := w.fleet.now() + w.patience
	p := w.fleet.book.products[t.SKU]
	name := p.name
	if w.plain {
		name = p.mark
	}
	for {
		lease, err := w.client.Acquire(ctx, name)
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, lock.ErrClosed):
			return nil, errRetired
		case !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrWaitEnded) &&
			!errors.Is(err, backend.ErrNoRetry):
			return nil, err
		case w.fleet.now() >= until:
			return nil, errAside
		}
		if err := pause(ctx, tryAgain); err != nil {
			return nil, err
		}
	}
}

// tryAgain is the time after which a program whose client gave up tries again.
const tryAgain = 100 * time.Millisecond

// sellUnlocked serves one order without a lock.
func (w *worker) sellUnlocked(ctx context.Context, t *task) error {
	h, n := w.fleet.book.begin(w.team, t.SKU, -1)
	sold, done, err := w.deduct(ctx, t, w.team.fates[n], h)
	h.stop = w.fleet.now()
	h.freed = h.stop
	switch {
	case err != nil:
		return err
	case !done:
		return errLost
	}
	w.fleet.book.ends(h, t.Order, sold)
	return nil
}

// close lets a job under way end, refuses others, and joins all goroutines of
// the client. A job under way has all the time that it may need; a dead
// program's needs none.
func (w *worker) close() {
	if w.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.patience)
	defer cancel()
	if w.link.isDead() {
		cancel()
	}
	w.client.Close(ctx)
	if w.leave != nil {
		w.leave(w.link.isDead())
	}
}

package rehearse

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// bareHands sells without any lock.
type bareHands struct{ *worker }

func newBareHands(w *worker) (seller, error) { return bareHands{w}, nil }

func (b bareHands) sell(ctx context.Context, t *task) error {
	h, n := b.fleet.book.begin(b.team.number, t.SKU, -1)
	sold, err := b.deduct(ctx, t, b.team.fates[n], h)
	h.over()
	if err != nil {
		return err
	}
	if sold {
		h.sells(t.Quantity)
	}
	b.fleet.book.sell(b.team.number, t.Order, sold)
	return nil
}

func (b bareHands) close() {}

// watcher deducts in a transaction, which the server refuses if another client
// wrote meanwhile.
type watcher struct{ *worker }

func newWatcher(w *worker) (seller, error) { return watcher{w}, nil }

func (w watcher) sell(ctx context.Context, t *task) error {
	h, n := w.fleet.book.begin(w.team.number, t.SKU, -1)
	sold, done, err := w.transact(ctx, t, w.team.fates[n], h)
	h.over()
	if err != nil {
		return err
	}
	if !done {
		return errLost
	}
	if sold {
		h.sells(t.Quantity)
	}
	w.fleet.book.sell(w.team.number, t.Order, sold)
	return nil
}

func (w watcher) transact(ctx context.Context, t *task, end fate, h *hold) (sold, done bool,
	err error) {
	key := w.fleet.names.stock(t.SKU)
	if _, err := w.data.Do("WATCH", key); err != nil {
		return false, false, fmt.Errorf("watching the stock of %q: %w", t.SKU, err)
	}
	n, err := redis.Int(w.data.Do("GET", key))
	if err != nil {
		return false, false, fmt.Errorf("reading the stock of %q: %w", t.SKU, err)
	}
	h.plays(w.name())
	h.reads(n)
	if err := w.think(ctx, t, end); err != nil {
		if errors.Is(err, errDead) {
			h.died()
		}
		return false, false, err
	}
	if n < t.Quantity {
		_, err := w.data.Do("UNWATCH")
		return false, true, err
	}
	sent := w.fleet.now()
	w.data.Send("MULTI")
	w.data.Send("SET", key, n-t.Quantity)
	reply, err := w.data.Do("EXEC")
	if err != nil {
		return false, false, fmt.Errorf("writing the stock of %q: %w", t.SKU, err)
	}
	if reply != nil {
		h.writes(sent, n-t.Quantity)
	}
	return true, reply != nil, nil
}

func (w watcher) close() {}

package rehearse

import "context"

// lockless sells without a lock: with bare hands, or in a transaction.
type lockless struct {
	*worker
	transaction bool
}

func newBareHands(w *worker) (seller, error)    { return lockless{w, false}, nil }
func newTransactions(w *worker) (seller, error) { return lockless{w, true}, nil }

func (l lockless) sell(ctx context.Context, t *task) error {
	h, n := l.fleet.book.begin(l.team.number, t.SKU, -1)
	sold, done, err := l.deduct(ctx, t, l.team.fates[n], h, l.transaction)
	h.stop = l.fleet.now()
	h.freed = h.stop
	switch {
	case err != nil:
		return err
	case !done:
		return errLost
	}
	l.fleet.book.ends(h, t.Order, sold)
	return nil
}

func (l lockless) close() {}

// SPDX-License-Identifier: Apache-2.0

package rehearse

import "context"

// unlocked sells without a lock: with bare hands, or in a transaction.
type unlocked struct {
	*worker
	transaction bool
}

func newBareHands(w *worker) (seller, error)    { return unlocked{w, false}, nil }
func newTransactions(w *worker) (seller, error) { return unlocked{w, true}, nil }

func (l unlocked) sell(ctx context.Context, t *task) error {
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

func (l unlocked) close() {}

// Package lock holds leases on named keys: one holder at a time, for as long as the holder
// renews and no longer.
//
// A [Client] does what every distributed lock needs in front of its store, once for all of them:
// goroutines of one process queue for a key in order, one of them talks to the store, leases are
// renewed in batches, and a holder is told the moment its lease can no longer be trusted, even when
// no packet ever comes back. That another took the key away it learns from the store: by a message
// right after where the store sends one ([Waker]), else at its next renewal. What the store does is a [Backend]: one attempt at one key.
//
//	client, err := lock.New(backend, lock.Config{TTL: 30 * time.Second})
//	…
//	lease, err := client.Acquire(ctx, "orders")
//	if err != nil {
//		return err // errors.Is(err, lock.ErrHeld): somebody else has it
//	}
//	defer lease.Release()
//	return work(lease.Context())
//
// A lease is a promise about time, not a mutex. It does not stop a holder that goes on working after
// its [Lease.Context] was cancelled, nor a write that it had sent before: whoever cannot bear that
// guards the written thing itself with the lease's fencing number. It does not survive a store that
// forgets acknowledged writes.
//
// HAZARD: trust is measured from before the request was sent, by whichever of the wall clock and the
// monotonic clock ran further, less [Config.Margin]. The margin must cover how much faster the
// store's clock may run than ours during one TTL, steps included. A store whose wall clock steps
// forwards by more than the margin frees a key while its holder still trusts it; nothing on the
// client's side can see that in time.
//
// HAZARD: a process that is stopped (SIGSTOP, a paused virtual machine, a long collection) cannot be
// told anything while it is stopped. It learns of the loss when it runs again, at its next look at
// [Lease.Err] or when its context's timer fires, whichever it reaches first.
package lock

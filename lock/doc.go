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
//	return work(lease.Context(ctx))
//
// The ctx given to Acquire bounds the wait only. The lease ends by [Lease.Release], by a loss, or by
// [Client.Close]. [Lease.Context] returns a child of any context that also ends with the lease.
//
// A lease is a promise about time, not a mutex. It does not stop a holder that goes on working after
// its context was cancelled, nor a write that it had sent before: whoever cannot bear that
// guards the written thing itself with the lease's fencing number. It does not survive a store that
// forgets acknowledged writes.
//
// # The states of a lease
//
//	 Acquire, TryAcquire,                       Release
//	 Request, Do           ┌────────────────┐   (ErrReleased)
//	──────────────────────▶│      held      │─────────────────────────────▶ released: the key is given back
//	                       │                │
//	        renewed: trust │ trust          │   Close whose context ended
//	        counts anew   ┌│ renewal        │   (ErrClosed)
//	        from before   ││ watch          │─────────────────────────────▶ closed: the key frees itself
//	        sending       └▶                │
//	                       └───────┬────────┘
//	                               │ the store says so at a renewal or after a
//	                               │ message, or trust ran out
//	                               ▼ (ErrLost)
//	                             lost ──── Release ────▶ what is left of it is given back
//
// While it is held a lease has three parts, each with a plan of its own: trust ends at an instant that only
// a renewal moves; a renewal is due, under way, or failed and tried again soon; a watch of the key is
// armed, asked for, or not to be had. A lease that was lost keeps its key until its holder releases it,
// or the key's TTL is over: the job may still be stopping. Every end closes [Lease.Done] and ends the
// contexts of the lease, with the cause in brackets.
//
// HAZARD: trust is measured from before the request was sent, by whichever of the wall clock and the
// monotonic clock ran further, less [Config.Margin]. The margin must cover how much faster the
// store's clock may run than ours during one TTL, steps included. A store whose wall clock steps
// forwards by more than the margin frees a key while its holder still trusts it; nothing on the
// client's side can see that in time.
//
// HAZARD: a process that is stopped (SIGSTOP, a suspended machine, a long collection) cannot be
// told anything while it is stopped. It learns of the loss when it runs again: at its next look at
// [Lease.Err], or 200 ms later at the most, when [Lease.Done] is closed.
//
// HAZARD: all this is true only where one of the machine's two clocks runs on. While a hypervisor holds
// a virtual machine, moves it, or restores it from a snapshot, both may stand still. The process then
// works on with a lease that is over, until its wall clock is corrected: by the hypervisor's agent, or
// by NTP, which may take minutes or never step at all. Nothing inside that machine can see it before.
// Who runs there sets the clock at resume (of chrony makestep without a limit, or the guest agent's
// time synchronisation), or lets the written thing refuse old fencing numbers.
package lock

// SPDX-License-Identifier: Apache-2.0

// Package lock holds leases on named keys: a key has one holder at a time, and
// the holder keeps it for as long as its lease is renewed and no longer.
//
// Most programs need four calls: [New], [Client.Acquire], [Lease.Context] and
// [Lease.Release]. [Client.Do] combines the last three.
//
//	client, err := lock.New(backend, lock.Config{TTL: 30 * time.Second})
//	…
//	lease, err := client.Acquire(ctx, "orders")
//	if err != nil {
//		return err // errors.Is(err, lock.ErrHeld): another holder has the key
//	}
//	defer lease.Release()
//	return work(lease.Context(ctx))
//
// The ctx given to Acquire bounds the wait only. The lease ends by
// [Lease.Release], by a loss, or by [Client.Close]. [Lease.Context] returns a
// child of any context that also ends with the lease.
//
// # What a Client does, and what a backend does
//
// A [Client] does once what every distributed lock needs in front of its store.
// The goroutines of one process queue for a key in order, and one of them talks
// to the store. Leases are renewed in batches. A holder is notified the moment
// its lease can no longer be trusted, even when no packet ever comes back. If
// another client takes the key away, the Client learns it from the store. A
// store that sends messages reports it right after the change, any other at the
// next renewal.
//
// A backend speaks to the store: it makes one attempt at one key. Package
// lock/backend is for authors of backends; a program needs nothing of it.
//
// # What a lease does not guarantee
//
// A lease is a promise about time, not a mutex. It does not stop a holder that
// goes on working after its context was cancelled, nor a write that the holder
// had sent before. If that would do harm, guard the written data with the
// lease's fencing number. A lease does not survive a store that forgets
// acknowledged writes.
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
// A held lease has three parts, each with its own schedule:
//
//   - Trust ends at an instant that only a renewal moves.
//   - A renewal is due, under way, or has failed and is tried again soon.
//   - A watch of the key is armed, requested, or unavailable.
//
// A lost lease keeps its key until its holder releases it or the key's TTL has
// passed: the job may still be stopping. Every end closes [Lease.Done]. It also
// ends the contexts of the lease with the error in brackets as their cause.
//
// # Hazards
//
// HAZARD: trust is measured from before the request was sent, by whichever of
// the wall clock and the monotonic clock ran further, less [Config.Margin]. If
// the wall clock is set forwards and then back, a lease may end earlier by that
// step, until its next renewal. The margin must cover how much faster than the
// client's clock the store's clock may run during one TTL, steps included. If
// the store's wall clock steps forwards by more than the margin, the store
// frees a key while its holder still trusts the lease. The client cannot detect
// that in time.
//
// HAZARD: a stopped process (SIGSTOP, a suspended machine, a long garbage
// collection) cannot be notified while it is stopped. It learns of the loss
// when it runs again: at its next look at [Lease.Err], or when [Lease.Done] is
// closed, at most 200 ms later.
//
// HAZARD: all this is true only where one of the machine's two clocks runs on.
// While a hypervisor holds a virtual machine, moves it, or restores it from a
// snapshot, both may stand still. The process then works on with a lease that
// has ended, until its wall clock is corrected. The hypervisor's agent does
// that, or NTP, which may take minutes or never step at all. Nothing inside the
// machine can see it before. On such machines set the clock at resume, with
// chrony's makestep without a limit or the guest agent's time synchronisation.
// Or let the written data refuse old fencing numbers.
package lock

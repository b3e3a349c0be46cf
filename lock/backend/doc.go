// SPDX-License-Identifier: Apache-2.0

// Package backend is the contract between package lock and the stores that it
// takes locks in. Authors of backends need it; programs that take locks need
// package lock alone.
//
// A [Backend] makes one attempt at one key. Waiting, renewal and loss are
// written once for all stores, in package lock. What a Backend or its [Grant]
// can do besides that is an optional interface of this package, such as
// [Queuer] or [Waker]. Package locktest checks what the comments here ask for.
//
// # From a program to the contract
//
// A program opens a [Store], such as a *modern.Backend, and gives it to
// lock.New. The Store has the methods that the program needs: to close it, to
// look at keys, to count. Its method Contract returns the Backend, which has
// all methods that package lock calls. There is one rule:
//
//	A function that takes a backend from a program takes a Store, calls
//	Contract, and looks for optional interfaces on the Backend that it gets.
//
// lock.New, migrate.Compose, quorum.New and package locktest follow it. [Of]
// makes a Store of a value that is a Backend itself, such as one that wraps
// another in a test:
//
//	client, err := lock.New(backend.Of(&slow{store.Contract()}), lock.Config{})
//
// A package with a Backend says at compile time which optional interfaces it
// implements:
//
//	var _ backend.Queuer = (*engine)(nil)
//
// # Keys that free themselves, and keys of a session
//
// In most stores each key has a TTL of its own, so a key that nobody renews
// frees itself. In a store with sessions, such as etcd, the keys of a process
// live as long as its session, and other leases keep the session alive. There a
// key does not free itself while its process lives. So such a Backend must
// remember every key that it may have taken and could not give back. It goes on
// deleting such a key until the store confirms that, or the session is over,
// however long the lock.Client has stopped to ask. It also gives back a grant
// that was not extended for one TTL, as after lock.Config.LongestHold. What
// package lock says of keys that free themselves is then true of those stores
// too, except while the store does not answer. Package locktest checks it:
// Traits.Session.
//
// # The states of a place in the store's queue
//
// A waiter that finds the key held takes a [Place] if the Backend keeps a queue
// ([Queuer]):
//
//	 Enter            Try: the key is held
//	──────▶ prepared ──────────────────────▶ waiting ◀─┐ Try: it is
//	            │                             │  └─────┘ still held
//	            │ Try gets a Grant            │
//	            ├─────────────────────────────┼──▶ used up: the Grant, or the one that an
//	            │                             │    UnsureError names, takes its place
//	            │ Leave                       │
//	            └─────────────────────────────┼──▶ left: the store grants the key to it no more
//	                                          │
//	                                          │ no Try for 15 s (2 s if Await failed)
//	                                          └──▶ lapsed: its next Try may begin at the queue's end
//
// Nothing is on the store while a place is prepared.
package backend

// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"time"
)

// Store is what a program has after it opened a backend, and what it gives to
// lock.New. A *modern.Backend is one.
//
// HAZARD: a type that embeds a Store, and overrides a method of the contract,
// needs a method Contract of its own. The embedded one returns the embedded
// Store's contract, so the override is never called.
type Store interface {
	// Contract returns the Backend behind the Store. Each call returns the same
	// one. If it is an io.Closer, its Close ends the Store's connections.
	Contract() Backend
}

// Of returns a Store whose Contract returns b.
func Of(b Backend) Store { return plain{b} }

type plain struct{ b Backend }

func (p plain) Contract() Backend { return p.b }

// Backend makes single attempts at keys of one store. Waiting, renewal, the
// clock and every goroutine live in lock.Client; a Backend only speaks to its
// store. All methods are safe for concurrent use.
//
// Package locktest checks of every Backend:
//
//   - Of any number of concurrent Try calls for one key, at most one returns a
//     Grant until that Grant was released or its TTL has passed.
//   - Try never waits for a held key. It returns an error that wraps [ErrHeld],
//     as a [*HeldError] if the store said more.
//   - Try returns soon after ctx ended. If a command that could take the key
//     was sent and its outcome is unknown, Try returns an [*UnsureError],
//     whatever the cause.
//   - Nothing is returned together with an error.
type Backend interface {
	// Try makes one attempt to take key for ttl. If the store cannot express
	// ttl, or key is empty, the error names the bound.
	//
	// An error may have a method Passing() bool. True means that the trouble
	// may pass, such as a lost connection: an Acquire tries again until its
	// wait ends. False means that it will not, such as a wrong password: the
	// Acquire ends at once. If an error has a method Answered() bool that
	// returns true, the error is the store's own answer.
	Try(ctx context.Context, key string, ttl time.Duration) (Grant, error)
}

// Grant is one acquisition of one key. Its methods are safe for concurrent use;
// the lock.Client calls Extend from one goroutine at a time.
type Grant interface {
	// Token distinguishes this grant from all others of its key, except for
	// those it was shared with (see [Sharer]). The store compares it.
	Token() string

	// Term is the Term of the acquisition. The Client calls it once, before the
	// first Extend.
	Term() Term

	// Extend asks the store to keep the key for another ttl, counted from when
	// the store executes the command. The error wraps [ErrLost] if the store
	// said that this grant no longer holds the key. It wraps [ErrNotRenewable]
	// if grants of this kind cannot be extended. After any other error it is
	// unknown whether the store extended.
	Extend(ctx context.Context, ttl time.Duration) (Term, error)

	// Release gives the key back if this grant still holds it. It returns:
	//
	//   - nil: this grant certainly does not hold the key, and none of its
	//     commands is still under way.
	//   - An error that wraps [ErrLost]: the store, when asked, did not hold
	//     the key for this grant.
	//   - Any other error: the key may still be held. Release may be called
	//     again.
	Release(ctx context.Context) error
}

// Term is the time for which the store said that a grant holds its key.
type Term struct {
	// Sent is the instant before the write that counts was sent, as [ReadClock]
	// read it.
	Sent Instant

	// TTL is the time that the store granted, counted from when it executed
	// that write. It may be less than was asked for. Zero means as much as was
	// asked for.
	TTL time.Duration

	// Given: the holder before wrote the key with this grant's token when it
	// released the key, some time after Sent (see [Queuer]). So a part of the
	// term may be over.
	Given bool
}

// UnsureError is the error of a Backend that does not know whether it holds the
// key: it sent the command and got no reply, because of a timeout, a lost
// connection or an ended context. The Client releases Grant in the background
// until the store answers for certain or the TTL has passed. The Client never
// hands Grant on: a delayed release would free the next holder.
type UnsureError struct {
	Grant Grant
	Err   error
}

func (e *UnsureError) Error() string { return e.Err.Error() }
func (e *UnsureError) Unwrap() error { return e.Err }

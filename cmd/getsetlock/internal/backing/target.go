// SPDX-License-Identifier: Apache-2.0

// Package backing describes the stores other than Redis in which the command
// can take locks. It knows none of them: a program lists its stores, by the
// scheme of their addresses, in the Stores of its [Env].
//
// The package assumes nothing of clocks. A store's backend.Backend says what it
// assumes.
//
// [Env]: github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out.Env
package backing

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Store is a kind of store.
type Store struct {
	Name string // for people
	Port string // of an address that names none
	Path string // what the path of an address is; empty: an address has no path

	// Open makes a connection. It may return before the store has answered. An
	// error with a method Passing that returns true means that a later call may
	// succeed.
	Open func(ctx context.Context, a Address, o Options) (Conn, error)
}

// Conn is a connection to one store. Its methods are safe for concurrent use.
// Those with a context bound each question to the store by Options.Timeout.
type Conn interface {
	// Backend takes locks. Close of the Backend does not close the Conn.
	Backend() backend.Store

	// Longest returns the TTL that the store grants where ttl is asked for: ttl
	// or less. It returns a ttl that Backend refuses as it is.
	Longest(ctx context.Context, ttl time.Duration) (time.Duration, error)

	// Unfit returns why name must not be taken, in one clause that says what
	// to do: its locks would get in the way of another name's. Empty: nothing
	// speaks against the name.
	Unfit(ctx context.Context, name string) (string, error)

	// Look returns the lock called name, or nil if no client holds it.
	Look(ctx context.Context, name string) (*Lock, error)

	// List returns the locks whose names begin with prefix, in any order. With
	// an error it returns those that it could see.
	List(ctx context.Context, prefix string) ([]Lock, error)

	// Free deletes the lock called name if its Value is still value. It
	// reports whether it deleted.
	Free(ctx context.Context, name, value string) (bool, error)

	// Advice returns one clause that says what to do about an error of this
	// Conn or its Backend; empty where the error says enough.
	Advice(err error) string

	io.Closer
}

// Lock is a lock that a client holds.
type Lock struct {
	Name    string
	Type    string // what the store calls the thing that is stored
	Owner   string // token of a getsetlock client's lease up to the first blank, else what the store knows
	Note    string // what the holder stored for people
	Value   string // what Free compares
	Waiters int64  // clients that wait
	Fence   int64
	Left    time.Duration // until the lock ends if its holder is gone; negative: unknown
}

// Options are what a command line says besides the address. Password and the
// files are never those of another server.
type Options struct {
	Password, PasswordFile string
	CACert, Cert, Key      string

	Note    string        // for people who look at the store
	Timeout time.Duration // longest wait for one reply
	Clock   lock.Clock
	Logger  *slog.Logger
}

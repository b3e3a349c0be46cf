// SPDX-License-Identifier: Apache-2.0

// Package lead elects one leader among the processes that campaign for a key.
//
// Most programs need [Run]: it calls a func while this process leads.
//
//	err := lead.Run(ctx, client, "billing", func(ctx context.Context) error {
//		return bill(ctx) // until ctx ends
//	})
//
// The states of a campaign:
//
//	           granted: Elected                       the func returns
//	campaign ───────────────────▶ lead ─────────────────────────────▶ resigned
//	    ▲                          │
//	    │      the func returns    │ the lease ends: the func's context ends
//	    └──────────────────────────┴──── Ended
//
// # What it guarantees
//
// A leadership is a lease of package lock. Its func's context ends before the
// store lets another process lead, by [lock.Config].Margin. The context's Err
// reads the clock, so a process that was stopped for longer than a TTL finds
// out at its first check. A leader that is killed is followed by another after
// one TTL at the latest.
//
// # What it does not guarantee
//
// A func that ignores its context goes on alongside the next leader; so does a
// write that it sent before and that arrives late. Send the number of [Fence]
// with each write, if what you write to can refuse smaller ones.
//
// The store must not forget what it acknowledged. If a server restarts empty,
// another process may lead at once. The leader before finds out at its next
// renewal, or sooner where the server reports changes.
package lead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/getsetlock/getsetlock/lock"
)

// Run campaigns for key and calls fn while this process leads. It is
// [Elector.Run] of an Elector without hooks.
func Run(ctx context.Context, client *lock.Client, key string, fn func(context.Context) error) error {
	return (&Elector{Client: client, Key: key}).Run(ctx, fn)
}

// Elector campaigns for one key. Client and Key are needed; neither they nor
// the hooks may change after the first call of Run.
type Elector struct {
	// Client takes the leases. Its TTL is how long a killed leader keeps others
	// from leading. Its Wait is not used: a campaign lasts until ctx ends.
	Client *lock.Client

	// Key is the name of the leadership. Nothing else may lock it.
	Key string

	// Elected is called before each call of Run's func, on Run's goroutine,
	// with the func's context. Nil: nothing is called.
	Elected func(context.Context)

	// Ended is called after the func has returned and the key was given back.
	// The error is nil if the leader resigned, and wraps [lock.ErrLost] if it
	// lost the lease. Nil: nothing is called.
	Ended func(error)

	running atomic.Bool
	lease   atomic.Pointer[lock.Lease] // of the present leadership, nil without one
}

// Run campaigns until this process leads, and then calls fn. The context of fn
// ends with ctx, and before the lease does. When fn returns, Run gives the key
// back and returns fn's error. If the lease had ended before fn returned, Run
// campaigns again instead; it never calls fn twice at the same time.
//
// Run also returns when ctx ends, with its cause, and when the store has
// trouble that waiting cannot mend (see [lock.Client.Acquire]).
func (e *Elector) Run(ctx context.Context, fn func(context.Context) error) error {
	if e.Client == nil || fn == nil {
		return errors.New("lead: Elector.Client and the func must not be nil")
	}
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("lead: key %q: this Elector runs already", e.Key)
	}
	defer e.running.Store(false)
	client, err := e.Client.With(func(c *lock.Config) {
		c.Wait = 0
		if c.LongestHold == 0 {
			c.LongestHold = -1 // a leader holds for long
		}
	})
	if err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	for {
		lease, err := client.Acquire(ctx, e.Key)
		if err != nil {
			return fmt.Errorf("lead: %w", err)
		}
		if again, err := e.reign(ctx, lease, fn); !again {
			return err
		}
	}
}

// reign is one leadership. It reports whether to campaign again, and otherwise
// the result of Run.
func (e *Elector) reign(ctx context.Context, lease *lock.Lease, fn func(context.Context) error) (again bool,
	err error) {
	e.lease.Store(lease)
	ended := func() error {
		e.lease.Store(nil)
		return lease.Release()
	}
	returned := false
	defer func() {
		if !returned { // fn panics, or ends its goroutine
			_ = ended()
		}
	}()
	leading := within(ctx, lease)
	if e.Elected != nil {
		e.Elected(leading)
	}
	err = fn(leading)
	returned = true
	again = lease.Err() != nil // fn stopped because of that, and its error adds nothing
	released := ended()
	if e.Ended != nil {
		e.Ended(released)
	}
	return again, errors.Join(err, released)
}

// IsLeader reports whether the func of Run is being called and its lease can be
// trusted now. It reads the clock. By the time the caller acts on the answer,
// it may have changed; inside the func use its context.
func (e *Elector) IsLeader() bool {
	l := e.lease.Load()
	return l != nil && l.Err() == nil
}

// Context returns a child of ctx that ends with the present leadership, as the
// func's context does: for work that something else starts while this process
// leads. It returns false if this process does not lead.
func (e *Elector) Context(ctx context.Context) (leading context.Context, ok bool) {
	l := e.lease.Load()
	if l == nil || l.Err() != nil {
		return ctx, false
	}
	return within(ctx, l), true
}

// Leader asks the store who leads, and returns an empty name if no process
// does. The name is the note that the leader's backend stores next to its
// token: Config.Note of modern and quorum. Without a note, it is what the store
// knows of the holder.
func (e *Elector) Leader(ctx context.Context) (name string, err error) {
	info, err := e.Client.Inspect(ctx, e.Key)
	var held *lock.HeldError
	switch {
	case err != nil:
		return "", fmt.Errorf("lead: %w", err)
	case info.Held == nil:
		return "", nil
	case !errors.As(info.Held, &held):
		return "", fmt.Errorf("lead: %w", info.Held)
	}
	if _, note, noted := strings.Cut(held.Owner, " "); noted {
		return note, nil
	}
	return held.Owner, nil
}

type leaseKey struct{}

func within(ctx context.Context, l *lock.Lease) context.Context {
	return context.WithValue(l.Context(ctx), leaseKey{}, l)
}

// Fence returns the fencing number of the leadership that ctx ends with. It is
// greater than those of all earlier leaders. It returns false if the backend
// draws no numbers (see modern.Config.Fence), or if ctx is no context of a
// leadership.
func Fence(ctx context.Context) (int64, bool) {
	l, ok := ctx.Value(leaseKey{}).(*lock.Lease)
	if !ok {
		return 0, false
	}
	return l.Fence()
}

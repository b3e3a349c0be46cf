// SPDX-License-Identifier: Apache-2.0

// Package call is the context of one call of a backend. Package lock makes it,
// and package lock/backend reads it.
package call

import (
	"context"
	"time"
)

// Clock reads both clocks of a client at one moment.
type Clock interface {
	Read() (wall time.Time, elapsed time.Duration)
}

type (
	clockKey  struct{}
	callerKey struct{}
)

// withClock is a type of its own to cost at most one allocation.
type withClock struct {
	context.Context
	clock Clock
}

func (c *withClock) Value(key any) any {
	if _, ok := key.(clockKey); ok {
		return c.clock
	}
	return c.Context.Value(key)
}

// WithClock returns ctx with the clock by which its caller keeps trust.
func WithClock(ctx context.Context, clock Clock) context.Context {
	return &withClock{ctx, clock}
}

// ClockOf returns the clock of a context. ok is false if it has none: then the
// machine's clock counts.
func ClockOf(ctx context.Context) (clock Clock, ok bool) {
	clock, ok = ctx.Value(clockKey{}).(Clock)
	return clock, ok
}

// withCaller is the context of a call that ends sooner than its caller's.
type withCaller struct {
	context.Context
	caller context.Context
}

func (c *withCaller) Value(key any) any {
	if _, ok := key.(callerKey); ok {
		return c.caller
	}
	return c.Context.Value(key)
}

// WithCaller returns ctx, which ends with the wait. caller is the context that
// ctx was made from.
func WithCaller(ctx, caller context.Context) context.Context {
	return &withCaller{ctx, caller}
}

// CallerOf returns the caller's context. ok is false if ctx is not bounded by a
// wait.
func CallerOf(ctx context.Context) (caller context.Context, ok bool) {
	caller, ok = ctx.Value(callerKey{}).(context.Context)
	return caller, ok
}

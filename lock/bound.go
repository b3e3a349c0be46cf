package lock

import (
	"context"
	"errors"
	"time"
)

// lastAnswer is how long after the end of Config.Wait an attempt may still wait
// for the store's answer. The last attempt is sent when the wait ends.
const lastAnswer = 100 * time.Millisecond

// errWaitOver is the cause of a call's context that ended because the wait did.
var errWaitOver = errors.New(
	"no answer from the store before the wait ended: check its address and load, or wait longer")

// bounded is the context of a call that ends with Config.Wait. caller is the
// context given to Acquire.
type bounded struct {
	context.Context
	caller context.Context
}

type callerKey struct{}

func (b *bounded) Value(key any) any {
	if _, ok := key.(callerKey); ok {
		return b.caller
	}
	return b.Context.Value(key)
}

// Decided returns the context for the rest of an attempt that has taken the key
// but must wait before the key counts as granted. That context ends with the
// one given to Acquire, not with [Config.Wait]. The store has answered, and if
// the wait were shorter than the rest, every attempt would be undone.
func Decided(ctx context.Context) context.Context {
	caller, ok := ctx.Value(callerKey{}).(context.Context)
	if !ok {
		return ctx
	}
	if k, ok := ctx.Value(keeperKey{}).(*keeper); ok {
		return &call{Context: caller, keeper: k}
	}
	return caller
}

// bound returns the context for one call of the store, and a func that frees
// it. The context ends lastAnswer after Config.Wait. Like every bound of
// network calls it runs in real time. If the backend itself returns sooner than
// that, the context is ctx: a timer would cost every Acquire.
func (a *attempt) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	left, limited := a.left()
	if !limited || a.once || a.core.pacer != nil {
		return a.core.call(ctx), nil
	}
	left = max(left, 0) + lastAnswer
	if prompt := a.core.prompt; prompt > 0 && left >= mostCalls*prompt {
		return a.core.call(ctx), nil
	}
	timed, cancel := context.WithTimeoutCause(ctx, left, errWaitOver)
	return a.core.call(&bounded{timed, ctx}), cancel
}

// mostCalls is the most times Tuned.Timeout that one call of a backend takes:
// it may connect, look, and take the key over.
const mostCalls = 4

// cut reports whether the wait, and not the caller, ended a call with the
// context of bound.
func cut(call, caller context.Context) bool {
	return caller.Err() == nil && call.Err() != nil
}

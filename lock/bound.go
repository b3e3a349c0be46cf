package lock

import (
	"context"
	"errors"
	"time"
)

// lastAnswer is how long after the end of Config.Wait an attempt may still wait
// for the store's answer. The last attempt is sent when the wait ends.
const lastAnswer = 100 * time.Millisecond

// errWaitOver is why the context of a call of the store ended with the wait.
var errWaitOver = errors.New("no answer from the store before the wait ended: check its address and load, or wait longer")

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
// and has to wait before that is a grant. It ends with the context given to
// Acquire, and not with [Config.Wait]: the store has answered, and a wait that
// is shorter than the rest would undo every attempt.
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

// bound returns the context for one call of the store, which ends lastAnswer
// after Config.Wait, and a func that frees it. Like every bound of network calls
// it is kept in real time. Where the backend returns sooner than that by itself,
// the context is ctx: a timer would cost every Acquire.
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

// mostCalls is how many times Tuned.Timeout one call of a backend takes at the
// most: it may connect, look, and take the key over.
const mostCalls = 4

// cut reports whether a call with the context of bound was ended by the wait and
// not by the caller.
func cut(call, caller context.Context) bool {
	return caller.Err() == nil && call.Err() != nil
}

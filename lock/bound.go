// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock/internal/call"
)

// lastAnswer is how long after the end of Config.Wait an attempt may still wait
// for the store's answer. The last attempt is sent when the wait ends.
const lastAnswer = 100 * time.Millisecond

// errWaitOver is the cause of a call's context that ended because the wait did.
var errWaitOver = errors.New(
	"no answer from the store before the wait ended: check its address and load, or wait longer")

// bound returns the context for one call of the store, and a func that frees
// it. The context ends lastAnswer after Config.Wait. Like every bound of
// network calls it runs in real time. A backend's own Timeout is no such bound:
// one call may dial several connections before its first command.
func (a *attempt) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	left, limited := a.left()
	if !limited || a.once || a.core.pacer != nil {
		return a.core.call(ctx), nil
	}
	timed, cancel := context.WithTimeoutCause(ctx, max(left, 0)+lastAnswer, errWaitOver)
	return a.core.call(call.WithCaller(timed, ctx)), cancel
}

// cut reports whether the wait, and not the caller, ended ctx, which bound
// returned.
func cut(ctx, caller context.Context) bool {
	return caller.Err() == nil && ctx.Err() != nil
}

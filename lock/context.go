// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"reflect"
	"slices"
)

// holding is a context that carries a lease.
type holding struct {
	context.Context
	lease *Lease
}

type leaseKey struct{}

func (h *holding) Value(key any) any {
	if _, ok := key.(leaseKey); ok {
		return h
	}
	return h.Context.Value(key)
}

// Context returns a child of parent that also ends with the lease;
// [context.Cause] returns the cause of whichever ended first. The lease does
// not end with parent. The context carries the lease for nested calls of
// [Client.Do]. Two calls with the same parent may return the same child.
func (l *Lease) Context(parent context.Context) context.Context {
	_ = l.Err() // ends the lease if its time is over
	if made := l.made(parent); made != nil {
		return made
	}
	var child listener
	child.ctx, child.cancel = context.WithCancelCause(&holding{parent, l})
	l.mu.Lock()
	ended := l.cause
	if ended == nil {
		l.listeners().add(child)
	}
	l.mu.Unlock()
	if ended != nil {
		child.cancel(ended)
	}
	return child.ctx
}

// made returns the child that parent already has, if it is among the last ones.
// Otherwise a parent that never ends, such as that of a service, would get
// another child at each call while the lease is held.
func (l *Lease) made(parent context.Context) context.Context {
	if !reflect.ValueOf(parent).Comparable() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.audience == nil {
		return nil
	}
	last := l.audience.contexts
	for _, child := range last[max(len(last)-leastPruned, 0):] {
		h, _ := child.ctx.Value(leaseKey{}).(*holding)
		if reflect.ValueOf(h.Context).Comparable() && h.Context == parent && child.ctx.Err() == nil {
			return child.ctx
		}
	}
	return nil
}

// audience is everything that waits for an event of a lease: for its end, or
// for the end of a renewal that is under way.
type audience struct {
	done     chan struct{} // closed at the end of the lease; nil: not requested
	idle     chan struct{} // closed at the end of the Extend that is under way; nil: not requested
	contexts []listener
	prune    int // number of contexts from which on add drops ended ones
}

// listener is a context that ends with the lease.
type listener struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// leastPruned is how many contexts of one lease are kept before add first drops
// those that have ended.
const leastPruned = 16

// listeners returns l.audience and makes it if necessary. Called with l.mu
// held.
func (l *Lease) listeners() *audience {
	if l.audience == nil {
		l.audience = &audience{prune: leastPruned}
	}
	return l.audience
}

// add makes a context end with the lease. A service may derive a context for
// each request from one lease that it holds for days. So add drops contexts
// that ended with their parents, at a cost that is spread over all calls.
func (a *audience) add(child listener) {
	if len(a.contexts) >= a.prune {
		a.contexts = slices.DeleteFunc(a.contexts, func(l listener) bool { return l.ctx.Err() != nil })
		a.prune = max(leastPruned, 2*len(a.contexts))
	}
	a.contexts = append(a.contexts, child)
}

// tell ends all contexts and closes done.
func (a *audience) tell(cause error) {
	if a.done != nil {
		close(a.done)
	}
	if a.idle != nil {
		close(a.idle)
	}
	for _, l := range a.contexts {
		l.cancel(cause)
	}
}

// heldBy returns the lease on key that ctx carries, through any number of
// nested contexts. A lease that has ended does not count.
func heldBy(ctx context.Context, k *core, key string) *Lease {
	h, _ := ctx.Value(leaseKey{}).(*holding)
	for ; h != nil; h, _ = h.Context.Value(leaseKey{}).(*holding) {
		if l := h.lease; l.client.core == k && l.Key() == key && l.Err() == nil {
			return l
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"reflect"
	"slices"
)

// holding is a context that carries a lease and ends with it.
type holding struct {
	context.Context // child of parent, which cancel ends
	parent          context.Context
	cancel          context.CancelCauseFunc
	lease           *Lease
}

// Err reads the clock, as [Lease.Err] does. So a job that was stopped for
// longer than its lease finds out at its first check, even before a timer can
// close Done.
func (h *holding) Err() error {
	if h.Context.Err() == nil {
		if cause := h.lease.Err(); cause != nil {
			h.cancel(cause)
		}
	}
	return h.Context.Err()
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
// not end with parent. The child's Err reads the clock, as [Lease.Err] does. A
// context that is derived from the child hears of the end by Done, a moment
// later. The context carries the lease for nested calls of [Client.Do]. Two
// calls with the same parent may return the same child.
func (l *Lease) Context(parent context.Context) context.Context {
	_ = l.Err() // ends the lease if its time is over
	if made := l.made(parent); made != nil {
		return made
	}
	child := &holding{parent: parent, lease: l}
	child.Context, child.cancel = context.WithCancelCause(parent)
	l.mu.Lock()
	ended := l.cause
	if ended == nil {
		l.listeners().add(child)
	}
	l.mu.Unlock()
	if ended != nil {
		child.cancel(ended)
	}
	return child
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
	for _, h := range last[max(len(last)-leastPruned, 0):] {
		if reflect.ValueOf(h.parent).Comparable() && h.parent == parent && h.Context.Err() == nil {
			return h
		}
	}
	return nil
}

// audience is everything that waits for an event of a lease: for its end, or
// for the end of a renewal that is under way.
type audience struct {
	done     chan struct{} // closed at the end of the lease; nil: not requested
	idle     chan struct{} // closed at the end of the Extend that is under way; nil: not requested
	contexts []*holding
	prune    int // number of contexts from which on add drops ended ones
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
func (a *audience) add(child *holding) {
	if len(a.contexts) >= a.prune {
		a.contexts = slices.DeleteFunc(a.contexts, func(h *holding) bool { return h.Context.Err() != nil })
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
	for _, h := range a.contexts {
		h.cancel(cause)
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

package lock

import (
	"context"
	"fmt"
	"time"
)

// holding is a Lease as a context: a child of the one given to Acquire, cancelled when the lease ends.
// Of itself it costs nothing. Behind it stands a context of the standard library's, made when somebody
// waits for its end or derives another from it, or asks behind the end of the lease for the cause.
type holding Lease

type leaseKey struct{}

// Context returns a context that is cancelled the moment the lease ends; [context.Cause] tells why.
// It is a child of the context given to Acquire and carries the lease for nested calls of
// [Client.Do].
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	l.tie()
	l.mu.Unlock()
	return (*holding)(l)
}

func (h *holding) Deadline() (time.Time, bool) { return h.parent.Deadline() }

func (h *holding) Done() <-chan struct{} {
	l := (*Lease)(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind().Done()
}

func (h *holding) Err() error {
	l := (*Lease)(h)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is(over) || l.more != nil && l.more.ctx != nil {
		return l.behind().Err()
	}
	return l.parent.Err()
}

// Value looks through to the context behind where there is one: it is found there by context.Cause, and
// by whoever derives a context.
func (h *holding) Value(key any) any {
	l := (*Lease)(h)
	if _, ok := key.(leaseKey); ok {
		return l
	}
	from := l.parent
	l.mu.Lock()
	if l.is(over) || l.more != nil && l.more.ctx != nil {
		from = l.behind()
	}
	l.mu.Unlock()
	return from.Value(key)
}

// String is what context.WithValue and the like print of their parents.
func (h *holding) String() string { return fmt.Sprintf("%v.Lease(%q)", h.parent, h.queue.key) }

// behind is the context that stands behind that of the lease. Called with l.mu held.
func (l *Lease) behind() context.Context {
	m := l.rest()
	switch {
	case m.ctx != nil:
	case !l.is(over) || l.ending().parent:
		m.ctx, m.cancel = context.WithCancelCause(l.parent)
	default:
		// The lease ended first: the cause is its own, whatever has become of the parent.
		m.ctx, m.cancel = context.WithCancelCause(context.WithoutCancel(l.parent))
		m.cancel(l.ending().cause)
	}
	return m.ctx
}

// heldBy returns the lease on key that ctx carries, through any number of nested ones.
func heldBy(ctx context.Context, k *core, key string) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	for ; l != nil; l, _ = l.parent.Value(leaseKey{}).(*Lease) {
		if l.client.core == k && l.Key() == key {
			return l
		}
	}
	return nil
}

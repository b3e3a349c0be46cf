package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// guardPause is the least time between two looks at a key that is being touched.
const guardPause = 10 * time.Millisecond

// guardTogether is how many leases are guarded in one call of the backend at the most.
const guardTogether = 128

// guards are the leases whose keys are to be watched.
type guards struct {
	workers *workers
	batch   BatchWaker // nil: one call a lease

	mu   sync.Mutex
	todo []*Lease
}

// guardAll has leases guarded by the workers, as many at a time as there are by then: taken one by one,
// many thousands of leases would be renewed before the last of them is watched.
func (k *core) guardAll(leases []*Lease) {
	if len(leases) == 0 {
		return
	}
	together := k.guards.together()
	k.guards.mu.Lock()
	k.guards.todo = append(k.guards.todo, leases...)
	k.guards.mu.Unlock()
	// Each takes as many as it can, so together they leave none.
	for range (len(leases) + together - 1) / together {
		k.guards.workers.do(k.guardSome)
	}
}

func (g *guards) together() int {
	if g.batch == nil {
		return 1
	}
	return guardTogether
}

// some takes the next leases from the list.
func (g *guards) some() []*Lease {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.todo), g.together())
	some := append([]*Lease(nil), g.todo[:n]...)
	clear(g.todo[:n])
	if g.todo = g.todo[n:]; len(g.todo) == 0 {
		g.todo = nil
	}
	return some
}

// guardSome looks whether the keys of some leases are still ours and asks to be told of the next change
// to each.
func (k *core) guardSome() {
	var leases []*Lease
	for _, l := range k.guards.some() {
		if k.unguard(l) {
			leases = append(leases, l)
		}
	}
	ctx := k.call(context.Background())
	switch {
	case len(leases) == 0:
	case k.guards.batch == nil:
		disarm, err := k.waker.Guard(ctx, leases[0].grant, (*guarded)(leases[0]).Touched)
		k.guarded(leases[0], disarm, err)
	default:
		grants, holders := make([]Grant, len(leases)), make([]Holder, len(leases))
		for i, l := range leases {
			grants[i], holders[i] = l.grant, (*guarded)(l)
		}
		for i, err := range k.guards.batch.GuardAll(ctx, grants, holders) {
			k.guarded(leases[i], nil, err)
		}
	}
}

// unguard ends the watch that a lease had before; false if the lease has ended.
func (k *core) unguard(l *Lease) bool {
	l.mu.Lock()
	if l.is(over) {
		l.mu.Unlock()
		return false
	}
	before := l.unwatch()
	l.guardFrom(never) // before the watch is armed: from then on touched may set it
	l.mu.Unlock()
	before.do(l)
	return true
}

// unwatch forgets the watch of a lease; what it returns ends it. Called with l.mu held.
func (l *Lease) unwatch() (last farewell) {
	last.unguard = l.is(armed)
	l.unset(armed)
	if l.more != nil {
		last.disarm, l.more.disarm = l.more.disarm, nil
	}
	return last
}

// guarded takes what a Guard said into account. disarm is nil where there are no such funcs.
func (k *core) guarded(l *Lease, disarm func(), err error) {
	now := k.keeper.nowStamp()
	l.mu.Lock()
	l.unset(inGuard)
	switch {
	case l.is(over):
		l.mu.Unlock()
		farewell{disarm: disarm, unguard: err == nil && disarm == nil}.do(l)
		return
	case err == nil: // the watch tells of its own end, and every renewal looks at the key as well
		if disarm != nil {
			l.rest().disarm = disarm
		} else {
			l.set(armed)
		}
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		l.lose(&LostError{Key: l.Key(), Err: err})
		return
	default:
		// No watch for now: renewals look at the key, and the watch is asked for again; sooner where
		// somebody touched the key or the connection was lost, but not as fast as errors come.
		pause := l.client.cfg.TTL
		if l.guardAt() != never {
			pause = retryRenewal
		}
		l.guardFrom(now.elapsed + pause)
	}
	k.sched.set(l, l.due())
	l.mu.Unlock()
}

// guarded is a Lease as a Holder.
type guarded Lease

// Touched is called by the backend when somebody changed the key of a lease.
func (g *guarded) Touched() {
	l := (*Lease)(g)
	k := l.client.core
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is(over) {
		return
	}
	// The first touch is looked into at once, a stream of them at a pace.
	m := l.rest()
	l.guardFrom(min(l.guardAt(), max(k.keeper.now().Elapsed, m.touched+guardPause)))
	m.touched = m.guardAt
	k.sched.set(l, l.due())
}

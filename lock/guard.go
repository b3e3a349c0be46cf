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
		disarm, err := k.waker.Guard(ctx, leases[0].grant, leases[0].touched)
		k.guarded(leases[0], disarm, err)
	default:
		grants, touched := make([]Grant, len(leases)), make([]func(), len(leases))
		for i, l := range leases {
			grants[i], touched[i] = l.grant, l.touched
		}
		disarm, errs := k.guards.batch.GuardAll(ctx, grants, touched)
		for i, l := range leases {
			k.guarded(l, disarm[i], errs[i])
		}
	}
}

// unguard ends the watch that a lease had before; false if the lease has ended.
func (k *core) unguard(l *Lease) bool {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return false
	}
	disarm := l.disarm
	l.disarm = nil
	l.guardAt = never // before the watch is armed: from then on touched may set it
	l.guarded = k.keeper.now().Elapsed
	l.mu.Unlock()
	if disarm != nil {
		disarm()
	}
	return true
}

// guarded takes what a Guard said into account.
func (k *core) guarded(l *Lease, disarm func(), err error) {
	now := k.keeper.now()
	l.mu.Lock()
	l.guarding = false
	switch {
	case l.ended != nil:
		l.mu.Unlock()
		if disarm != nil {
			disarm()
		}
		return
	case err == nil:
		l.disarm = disarm // it tells of its own end, and every renewal looks at the key as well
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		l.lose(&LostError{Key: l.key, Err: err})
		return
	default:
		// No watch for now: renewals look at the key, and the watch is asked for again; sooner where
		// somebody touched the key or the connection was lost, but not as fast as errors come.
		pause := l.client.cfg.TTL
		if l.guardAt != never {
			pause = retryRenewal
		}
		l.guardAt = now.Elapsed + pause
	}
	k.sched.set(&l.event, l.due())
	l.mu.Unlock()
}

// touched is called by the backend when somebody changed the key of a lease.
func (l *Lease) touched() {
	k := l.client.core
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return
	}
	// The first touch is looked into at once, a stream of them at a pace.
	l.guardAt = max(k.keeper.now().Elapsed, l.guarded+guardPause)
	k.sched.set(&l.event, l.due())
}

package lock

import (
	"errors"
	"sync"
	"time"
)

// watchPause is the least time between two looks at a key that is being touched.
const watchPause = 10 * time.Millisecond

// watchTogether is how many leases are watched by one call of the backend at the most.
const watchTogether = 128

// watches are the leases whose keys are to be watched.
type watches struct {
	workers *workers

	mu   sync.Mutex
	todo []*Lease
}

// watchAll has leases watched by the workers, as many at a time as there are by then: taken one by one,
// many thousands of leases would be renewed before the last of them is watched.
func (k *core) watchAll(leases []*Lease) {
	if len(leases) == 0 {
		return
	}
	k.watches.mu.Lock()
	k.watches.todo = append(k.watches.todo, leases...)
	k.watches.mu.Unlock()
	// Each takes as many as it can, so together they leave none.
	for range (len(leases) + watchTogether - 1) / watchTogether {
		k.watches.workers.do(k.watchSome)
	}
}

// some takes the next leases from the list.
func (w *watches) some() []*Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.todo), watchTogether)
	some := append([]*Lease(nil), w.todo[:n]...)
	clear(w.todo[:n])
	if w.todo = w.todo[n:]; len(w.todo) == 0 {
		w.todo = nil
	}
	return some
}

// watchSome looks whether the keys of some leases are still ours and asks to be told of the next change
// to each.
func (k *core) watchSome() {
	var leases []*Lease
	for _, l := range k.watches.some() {
		if k.unwatch(l) {
			leases = append(leases, l)
		}
	}
	if len(leases) == 0 || k.hurry.Load() {
		return
	}
	grants, holders := make([]Grant, len(leases)), make([]interface{ Touched() }, len(leases))
	for i, l := range leases {
		grants[i], holders[i] = l.grant, (*watched)(l)
	}
	for i, err := range k.waker.Watch(k.call(k.life), grants, holders) {
		k.watched(leases[i], err)
	}
}

// unwatch ends the watch that a lease had before; false if the lease has ended.
func (k *core) unwatch(l *Lease) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	before := l.unwatch()
	l.watch.next = never // before the watch is armed: from then on touched may set it
	l.mu.Unlock()
	before.do(l)
	return true
}

// unwatch forgets the watch of a lease; what it returns ends it. Called with l.mu held.
func (l *Lease) unwatch() (last farewell) {
	last.unwatch, l.watch.armed = l.watch.armed, false
	return last
}

// watched takes what a Watch said into account.
func (k *core) watched(l *Lease, err error) {
	now := k.keeper.nowStamp()
	l.mu.Lock()
	l.watch.looking = false
	switch {
	case l.cause != nil:
		l.mu.Unlock()
		farewell{unwatch: err == nil}.do(l)
		return
	case err == nil: // the watch tells of its own end, and every renewal looks at the key as well
		l.watch.armed = true
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		l.lose(&LostError{Key: l.Key(), Err: err})
		return
	default:
		// No watch for now: renewals look at the key, and the watch is asked for again; sooner where
		// somebody touched the key or the connection was lost, but not as fast as errors come.
		pause := l.client.cfg.TTL
		if l.watch.next != never {
			pause = retryRenewal
		}
		l.watch.next = now.elapsed + pause
	}
	k.sched.set(l, l.due())
	l.mu.Unlock()
}

// watched is a Lease as its backend knows it.
type watched Lease

// Touched is called by the backend when somebody changed the key of a lease.
func (w *watched) Touched() {
	l := (*Lease)(w)
	k := l.client.core
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	l.watch = l.watch.touch(k.keeper.now().Elapsed)
	k.sched.set(l, l.due())
}

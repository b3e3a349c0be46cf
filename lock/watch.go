// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// watchPause is the least time between two looks at a key that is being
// touched.
const watchPause = 10 * time.Millisecond

// watchTogether is the most leases that one call of the backend watches.
const watchTogether = 128

// watches are the leases that wait to be watched.
type watches struct {
	workers *workers

	mu   sync.Mutex
	todo []*Lease
}

// watchAll hands leases to the workers, which take as many at a time as are
// waiting. If workers watched them one by one, many thousands of leases would
// be renewed before the last of them is watched.
func (k *core) watchAll(leases []*Lease) {
	if len(leases) == 0 {
		return
	}
	k.watches.mu.Lock()
	k.watches.todo = append(k.watches.todo, leases...)
	k.watches.mu.Unlock()
	// Each call takes as many as it can, so together they leave none.
	for range (len(leases) + watchTogether - 1) / watchTogether {
		k.watches.workers.do(k.watchSome)
	}
}

// some takes the next leases off the list.
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

// watchSome checks that some leases still hold their keys, and asks the store
// to report the next change of each key.
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
	grants, holders := make([]backend.Grant, len(leases)), make([]interface{ Touched() }, len(leases))
	for i, l := range leases {
		grants[i], holders[i] = l.grant, (*watched)(l)
	}
	for i, err := range k.waker.Watch(k.call(k.life), grants, holders) {
		k.watched(leases[i], err)
	}
}

// unwatch ends the previous watch of a lease. It returns false if the lease has
// ended.
func (k *core) unwatch(l *Lease) bool {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return false
	}
	before := l.unwatch()
	l.watch.next = never // set before the watch is armed; from then on Touched may change it
	l.mu.Unlock()
	before.do(l)
	return true
}

// unwatch marks the watch of a lease as ended; the farewell it returns ends the
// watch in the store. Called with l.mu held.
func (l *Lease) unwatch() (last farewell) {
	last.unwatch, l.watch.armed = l.watch.armed, false
	return last
}

// watched applies the outcome of a Watch.
func (k *core) watched(l *Lease, err error) {
	now := k.keeper.nowReading()
	l.mu.Lock()
	l.watch.looking = false
	switch {
	case l.cause != nil:
		l.mu.Unlock()
		farewell{unwatch: err == nil}.do(l)
		return
	case err == nil: // the watch reports its own end, and every renewal looks at the key too
		l.watch.armed = true
	case errors.Is(err, ErrLost):
		l.mu.Unlock()
		l.lose(&LostError{Key: l.Key(), Err: err})
		return
	default:
		// There is no watch for now: renewals look at the key, and the watch is
		// requested again after a pause. The pause is shorter if the key was
		// touched or the connection was lost meanwhile, but errors do not set
		// the pace.
		pause := l.client.cfg.TTL
		if l.watch.next != never {
			pause = retryRenewal
		}
		l.watch.next = now.elapsed + pause
	}
	k.sched.set(l, l.due())
	l.mu.Unlock()
}

// watched is a Lease as its backend sees it.
type watched Lease

// Touched is called by the backend when another client changed the key of a
// lease.
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

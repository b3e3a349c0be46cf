// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func (k *kit) batchReportsEachGrantsOutcome() {
	b := k.backend()
	batch, ok := b.(backend.BatchExtender)
	if !ok {
		return
	}
	key := k.key
	var grants []backend.Grant
	for _, suffix := range []string{":a", ":b", ":c"} {
		k.key = key + suffix
		grants = append(grants, k.take(b))
	}
	k.Seize(key + ":b")
	k.Pass(k.TTL / 2)
	terms, errs := batch.ExtendAll(k.ctx(), grants, k.TTL)
	if len(terms) != 3 || len(errs) != 3 {
		k.Fatalf("%d terms and %d errors for 3 grants", len(terms), len(errs))
	}
	for i, g := range grants {
		if i == 1 {
			k.wantLost("the seized grant in a batch", errs[i])
			k.wantLost("its release", g.Release(k.ctx()))
			continue
		}
		if errs[i] != nil {
			k.Errorf("grant %d of the batch: %v", i, errs[i])
		}
	}
	k.Pass(max(k.late(), k.TTL*3/4)) // after the first TTL, within the second
	other := k.backend()
	for _, suffix := range []string{":a", ":c"} {
		k.key = key + suffix
		k.mustBeHeld(other)
	}
	k.free(grants[0])
	k.free(grants[2])
}

// keptKeyStaysTaken releases a key with a rest of half a TTL, while a waiter
// stands in the store's queue.
func (k *kit) keptKeyStaysTaken() {
	a, b := k.backend(), k.backend()
	keeper, ok := a.(backend.Keeper)
	if !ok {
		return
	}
	lost := k.take(a)
	k.Seize(k.key)
	k.wantLost("ReleaseIn of a seized key", keeper.ReleaseIn(k.ctx(), lost, k.TTL/2))

	k.key += ":kept"
	g, try := k.take(a), k.waiter(b)
	if _, err := try(); !errors.Is(err, backend.ErrHeld) {
		k.Fatalf("a waiter's first Try: %v", err)
	}
	if err := keeper.ReleaseIn(k.ctx(), g, k.TTL/2); err != nil {
		k.Fatalf("ReleaseIn: %v", err)
	}
	_, err := try()
	var held *backend.HeldError
	switch {
	case !errors.As(err, &held):
		k.Fatalf("a waiter's Try of a kept key: %v; it should be a HeldError", err)
	case held.Left > k.TTL/2:
		k.Errorf("the key stays taken for %v, and waiters hear %v", k.TTL/2, held.Left)
	}
	k.mustBeHeld(a)
	k.Pass(k.TTL / 4)
	k.mustBeHeld(k.backend())
	k.Pass(k.TTL/4 + k.FreeAfter)
	next, err := try()
	if err != nil {
		k.Fatalf("a waiter's Try after the rest: %v", err)
	}
	k.free(next)
	k.free(k.take(a))
}

// waiter returns attempts of one waiter, from a place in the queue if the
// backend has one.
func (k *kit) waiter(b backend.Backend) (try func() (backend.Grant, error)) {
	if q, ok := b.(backend.Queuer); ok {
		p, err := q.Enter(k.ctx(), k.key)
		switch {
		case err == nil:
			return func() (backend.Grant, error) { return p.Try(k.ctx(), k.TTL) }
		case !errors.Is(err, errors.ErrUnsupported):
			k.Fatalf("Enter: %v", err)
		}
	}
	return func() (backend.Grant, error) { return b.Try(k.ctx(), k.key, k.TTL) }
}

// queued returns a holder, three places behind it, and when each of them was
// refused. There are none where the backend has no queue, or none at present.
func (k *kit) queued() (holder backend.Grant, places []backend.Place, refused []backend.Instant) {
	k.Helper()
	q, ok := k.backend().(backend.Queuer)
	if !ok {
		return nil, nil, nil
	}
	holder = k.take(k.backend())
	for range 3 {
		p, err := q.Enter(k.ctx(), k.key)
		if errors.Is(err, errors.ErrUnsupported) {
			k.free(holder)
			return nil, nil, nil
		}
		if err != nil {
			k.Fatalf("Enter: %v", err)
		}
		if _, err = p.Try(k.ctx(), k.TTL); !errors.Is(err, backend.ErrHeld) {
			k.Fatalf("Try from a place while the key is held: %v", err)
		}
		places, refused = append(places, p), append(refused, backend.ReadClock(k.ctx()))
	}
	return holder, places, refused
}

func (k *kit) queueServesInOrder() {
	holder, places, refused := k.queued()
	if holder == nil {
		return
	}
	k.free(holder)
	second, err := places[1].Try(k.ctx(), k.TTL)
	if k.traits.Barging {
		if err != nil {
			k.Fatalf("Barging is declared, but the second place had to wait for the first: %v", err)
		}
		k.free(second)
		places, refused = append(places[:1], places[2:]...), append(refused[:1], refused[2:]...)
	} else if !errors.Is(err, backend.ErrHeld) {
		k.Fatalf("the second place was served before the first: %v", err)
	}
	for i, p := range places {
		g, err := p.Try(k.ctx(), k.TTL)
		if err != nil {
			k.Fatalf("place %d was not served in its turn: %v", i, err)
		}
		if t := g.Term(); t.Given && i == 0 && t.Sent.Elapsed > refused[0].Elapsed {
			k.Errorf("a key that was given counts from %v after the refusal",
				t.Sent.Elapsed-refused[0].Elapsed)
		}
		k.free(g)
	}
}

func (k *kit) leavingFreesThePlace() {
	holder, places, _ := k.queued()
	if holder == nil {
		return
	}
	for _, p := range places[:2] {
		if err := p.Leave(k.ctx()); err != nil {
			k.Fatalf("Leave: %v", err)
		}
	}
	k.free(holder)
	g, err := places[2].Try(k.ctx(), k.TTL)
	if err != nil {
		k.Fatalf("the places that left still block the queue: %v", err)
	}
	k.free(g)
}

// soon waits for an event that the store sends over a connection, not for time.
func (k *kit) soon(what string, ch <-chan struct{}) {
	k.Helper()
	select {
	case <-ch:
	case <-time.After(2 * time.Minute):
		k.Fatalf("%s: no event came within two minutes", what)
	}
}

func once(ch chan struct{}) func() {
	return sync.OnceFunc(func() { close(ch) })
}

func (k *kit) releaseWakes() {
	holder, b := k.backend(), k.backend()
	w, ok := b.(backend.Waker)
	if !ok {
		return
	}
	g := k.take(holder)
	woken := make(chan struct{})
	cancel, free, err := w.Await(k.ctx(), k.key, once(woken))
	if k.traits.CannotWake {
		if !errors.Is(err, backend.ErrNoWake) {
			k.Errorf("CannotWake is declared, but Await returned %v", err)
		}
		k.free(g)
		return
	}
	if err != nil {
		k.Fatalf("Await: %v", err)
	}
	if free {
		k.Error("Await says that a held key is free")
	}
	k.free(g)
	k.soon("a waiter after the release", woken)
	cancel()
	cancel, free, err = w.Await(k.ctx(), k.key, func() {})
	if err != nil || !free {
		k.Errorf("Await of a free key: free %v, error %v", free, err)
	}
	if cancel != nil {
		cancel()
	}
}

func (k *kit) watchReportsATouch() {
	b := k.backend()
	w, ok := b.(backend.Waker)
	if !ok {
		return
	}
	g := k.take(b)
	touched := make(chan struct{})
	cancel, err := k.watch(w, g, once(touched))
	if k.traits.CannotWake {
		if !errors.Is(err, backend.ErrNoWake) {
			k.Errorf("CannotWake is declared, but Watch returned %v", err)
		}
		k.free(g)
		return
	}
	if err != nil {
		k.Fatalf("Watch: %v", err)
	}
	k.Seize(k.key)
	k.soon("a holder after the theft", touched)
	cancel()
	_ = g.Release(k.ctx()) // lost
}

// watchOutlivesARenewal checks that a theft after a renewal is reported before
// the next renewal.
func (k *kit) watchOutlivesARenewal() {
	b := k.backend()
	w, ok := b.(backend.Waker)
	if !ok || k.traits.CannotWake || k.traits.NotRenewable {
		return
	}
	g := k.take(b)
	touched := make(chan struct{})
	cancel, err := k.watch(w, g, once(touched))
	if err != nil {
		k.Fatalf("Watch: %v", err)
	}
	grants := []backend.Grant{g}
	key := k.key
	k.key += ":other"
	grants = append(grants, k.take(b))
	k.key = key
	for range 2 {
		if _, err := g.Extend(k.ctx(), k.TTL); err != nil {
			k.Fatalf("Extend: %v", err)
		}
	}
	if batch, ok := b.(backend.BatchExtender); ok {
		if _, errs := batch.ExtendAll(k.ctx(), grants, k.TTL); errs[0] != nil {
			k.Fatalf("ExtendAll: %v", errs[0])
		}
	}
	select {
	case <-touched:
		k.Error("a grant's own renewal was reported as a touch")
	default:
	}
	k.Seize(k.key)
	k.soon("a holder after a theft that followed its renewal", touched)
	cancel()
	_ = g.Release(k.ctx()) // lost
	k.free(grants[1])
}

func (k *kit) watchOfALostGrantReturnsErrLost() {
	b := k.backend()
	w, ok := b.(backend.Waker)
	if !ok || k.traits.CannotWake {
		return
	}
	g := k.take(b)
	k.Seize(k.key)
	_, err := k.watch(w, g, func() {})
	k.wantLost("Watch of a seized key", err)
	_ = g.Release(k.ctx()) // lost
}

// watchReportsToTheRightHolder watches four grants at once, one of which is
// lost. It checks that a theft is reported only to its own holder, renewed or
// not, and to no holder after Unwatch.
func (k *kit) watchReportsToTheRightHolder() {
	b := k.backend()
	w, ok := b.(backend.Waker)
	if !ok || k.traits.CannotWake {
		return
	}
	name := k.key
	var keys []string
	var grants []backend.Grant
	var told []chan struct{}
	var holders []interface{ Touched() }
	for _, end := range []string{":lost", ":seized", ":kept", ":unwatched"} {
		k.key = name + end
		keys, grants = append(keys, k.key), append(grants, k.take(b))
		told = append(told, make(chan struct{}))
		holders = append(holders, holder(once(told[len(told)-1])))
	}
	k.key = name
	k.Seize(keys[0])
	errs := w.Watch(k.ctx(), grants, holders)
	k.wantLost("Watch of a seized key among others", errs[0])
	if err := errors.Join(errs[1:]...); err != nil {
		k.Fatalf("Watch together with a lost grant: %v", err)
	}
	if batch, ok := b.(backend.BatchExtender); ok && !k.traits.NotRenewable {
		if _, errs := batch.ExtendAll(k.ctx(), grants[2:], k.TTL); errs[0] != nil {
			k.Fatalf("ExtendAll: %v", errs[0])
		}
	}
	w.Unwatch(grants[3])
	k.Seize(keys[3])
	k.Seize(keys[1])
	k.soon("a holder after the theft", told[1])
	select {
	case <-told[2]:
		k.Error("the theft of another key was reported too")
	case <-told[3]:
		k.Error("a theft was reported after Unwatch")
	default:
	}
	w.Unwatch(grants[1])
	w.Unwatch(grants[2])
	for _, i := range []int{0, 1, 3} {
		_ = grants[i].Release(k.ctx()) // lost
	}
	k.free(grants[2])
}

// watch watches one grant.
func (k *kit) watch(w backend.Waker, g backend.Grant, touched func()) (cancel func(), err error) {
	err = w.Watch(k.ctx(), []backend.Grant{g}, []interface{ Touched() }{holder(touched)})[0]
	return func() { w.Unwatch(g) }, err
}

// holder is a func as a watching holder.
type holder func()

func (h holder) Touched() { h() }

// clientsLoseNoUpdate makes goroutines of two processes increment one number
// under the lock.
func (k *kit) clientsLoseNoUpdate() {
	const processes, goroutines, rounds = 2, 4, 25
	retry := 5 * time.Millisecond
	if !k.RealTime {
		retry *= 4 // virtual time costs work for each event, and events share instants anyway
	}
	var total int // guarded only by the lock; the race detector checks it
	var wg sync.WaitGroup
	for range processes {
		// The client owns its backend and closes it.
		client, err := lock.New(k.Backend(),
			lock.Config{TTL: k.TTL, Clock: k.Clock, RetryEvery: retry, Politeness: -1})
		if err != nil {
			k.Fatalf("New: %v", err)
		}
		k.Cleanup(func() {
			if err := client.Close(context.Background()); err != nil {
				k.Errorf("Close: %v", err)
			}
		})
		for range goroutines {
			wg.Go(func() {
				for range rounds {
					k.round(client, &total)
				}
			})
		}
	}
	wg.Wait()
	if total != processes*goroutines*rounds {
		k.Errorf("%d updates of %d were kept", total, processes*goroutines*rounds)
	}
	k.free(k.take(k.backend()))
}

func (k *kit) round(client *lock.Client, total *int) {
	for {
		l, err := client.Acquire(k.ctx(), k.key)
		if errors.Is(err, backend.ErrHeld) || errors.Is(err, lock.ErrWaitEnded) ||
			errors.Is(err, backend.ErrNoRetry) {
			continue // the backend has an attempt limit, or gives up as its old client does
		}
		if err != nil {
			k.Errorf("Acquire: %v", err)
			return
		}
		*total++
		if err := l.Release(); err != nil {
			k.Errorf("Release: %v", err)
		}
		return
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package watches helps backends that arm one watch at a time to implement
// [backend.Waker].
package watches

import (
	"context"
	"sync"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// together is how many watches are requested at the same time.
const together = 4

// Armed has the watches of grants, by grant. The zero Armed is empty.
type Armed struct {
	mu      sync.Mutex
	cancels map[backend.Grant]func()
}

// Watch implements [backend.Waker.Watch] by one call for each grant, a few at
// the same time. one arms a watch and returns the func that ends it.
func (a *Armed) Watch(gs []backend.Grant, holders []interface{ Touched() },
	one func(g backend.Grant, touched func()) (func(), error)) []error {
	errs := make([]error, len(gs))
	arm := func(i int) {
		cancel, err := one(gs[i], holders[i].Touched)
		if errs[i] = err; err == nil {
			a.add(gs[i], cancel)
		}
	}
	if len(gs) == 1 {
		arm(0)
		return errs
	}
	var wg sync.WaitGroup
	for first := range min(together, len(gs)) {
		wg.Go(func() {
			for i := first; i < len(gs); i += together {
				arm(i)
			}
		})
	}
	wg.Wait()
	return errs
}

func (a *Armed) add(g backend.Grant, cancel func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancels == nil {
		a.cancels = make(map[backend.Grant]func())
	}
	a.cancels[g] = cancel
}

// Unwatch implements [backend.Waker.Unwatch].
func (a *Armed) Unwatch(g backend.Grant) {
	a.mu.Lock()
	cancel := a.cancels[g]
	delete(a.cancels, g)
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// One watches one grant by w. cancel ends the watch.
func One(ctx context.Context, w backend.Waker, g backend.Grant, touched func()) (cancel func(), err error) {
	if err := w.Watch(ctx, []backend.Grant{g}, []interface{ Touched() }{holder(touched)})[0]; err != nil {
		return nil, err
	}
	return func() { w.Unwatch(g) }, nil
}

type holder func()

func (h holder) Touched() { h() }

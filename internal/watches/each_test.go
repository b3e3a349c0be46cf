// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/lock/backend"
)

type grant struct {
	backend.Grant
	n int
}

type told struct{ times int }

func (t *told) Touched() { t.times++ }

func TestEachGrantHasItsOwnWatch(t *testing.T) {
	const all = 9
	var a watches.Armed
	gs, holders := make([]backend.Grant, all), make([]interface{ Touched() }, all)
	for i := range all {
		gs[i], holders[i] = &grant{n: i}, &told{}
	}
	lost := errors.New("lost")
	cancelled := make([]int, all)
	errs := a.Watch(gs, holders, func(g backend.Grant, touched func()) (func(), error) {
		n := g.(*grant).n
		if n == 4 {
			return nil, lost
		}
		touched()
		return func() { cancelled[n]++ }, nil
	})
	for i := range all {
		if (errs[i] == lost) != (i == 4) || holders[i].(*told).times != 1 && i != 4 {
			t.Errorf("grant %d: %v, its holder was called %d times", i, errs[i], holders[i].(*told).times)
		}
		a.Unwatch(gs[i])
		a.Unwatch(gs[i])
	}
	if got, want := fmt.Sprint(cancelled), "[1 1 1 1 0 1 1 1 1]"; got != want {
		t.Errorf("watches were cancelled %s times, want %s", got, want)
	}
}

// waker is a backend that watches grants one by one.
type waker struct {
	watches.Armed
	cancelled int
}

func (w *waker) Await(context.Context, string, func()) (func(), bool, error) {
	return nil, false, backend.ErrNoWake
}

func (w *waker) Watch(_ context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	return w.Armed.Watch(gs, holders, func(_ backend.Grant, touched func()) (func(), error) {
		touched()
		return func() { w.cancelled++ }, nil
	})
}

func TestOneWatchEndsByItsCancel(t *testing.T) {
	w, times := &waker{}, 0
	cancel, err := watches.One(t.Context(), w, &grant{}, func() { times++ })
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if times != 1 || w.cancelled != 1 {
		t.Errorf("called %d times, cancelled %d times", times, w.cancelled)
	}
}

// SPDX-License-Identifier: Apache-2.0

package polite

import (
	"errors"
	"testing"
	"time"
)

// world is what a Watch sees.
type world struct {
	now      time.Duration
	sight    Sight
	err      error
	wakeless bool
	fn       func()
	armed    int
	tracked  int
	looks    []time.Duration
}

func (w *world) eyes() Eyes {
	return Eyes{
		Now: func() time.Duration { return w.now },
		Arm: func(fn func()) (func(), error) {
			if w.wakeless {
				return nil, errors.New("the server does not report changes")
			}
			w.fn = fn
			w.armed++
			return func() { w.armed-- }, nil
		},
		See: func(tracked bool) (Sight, error) {
			w.looks = append(w.looks, w.now)
			if tracked {
				w.tracked++
			}
			return w.sight, w.err
		},
	}
}

// watch looks until the Watch needs no more looks, and calls what at that time.
func (w *world) watch(t *testing.T, at time.Duration, what func()) (old bool) {
	t.Helper()
	left := NewWatch(0, gap)
	for {
		old, next := left.Look(w.eyes())
		if old || next == 0 {
			if w.armed != 0 {
				t.Errorf("%d watches stay armed", w.armed)
			}
			return old
		}
		if what != nil && w.now+next >= at {
			what()
			what = nil
		}
		w.now += next
	}
}

func TestWatchReportsWhetherOldClientCame(t *testing.T) {
	const late = 9 * gap / 10
	for _, c := range []struct {
		name     string
		wakeless bool
		what     func(*world)
		want     bool
		looks    int
	}{
		{"no old client came", false, nil, false, 2},
		{"no old client came, server reports nothing", true, nil, false, 4},
		{"old client is in", false, func(w *world) { w.sight.Old = true }, true, 2},
		{"old client is in, server reports nothing", true, func(w *world) { w.sight.Old = true }, true, 2},
		{"old client was in and out", false, func(w *world) { w.fn() }, true, 2},
		{"getsetlock script met old client", true, func(w *world) { w.sight.Left = false }, true, 2},
		{"the server is away", false, func(w *world) { w.err = errors.New("away") }, false, 2},
	} {
		w := &world{sight: Sight{Left: true}, wakeless: c.wakeless}
		var what func()
		if c.what != nil {
			what = func() { c.what(w) }
		}
		if old := w.watch(t, 0, what); old != c.want || len(w.looks) != c.looks {
			t.Errorf("%s: %v, looks at %v", c.name, old, w.looks)
		}
		if last := w.looks[len(w.looks)-1]; !c.want && last != late {
			t.Errorf("%s: the last look at %v", c.name, last)
		}
		if c.wakeless == (w.tracked == 1) {
			t.Errorf("%s: %d looks were tracked", c.name, w.tracked)
		}
	}
}

// A look after the gap may see a getsetlock client, which may have the key by
// then.
func TestLateLookIgnoresGetsetlockClients(t *testing.T) {
	w := &world{sight: Sight{Left: true}}
	if w.watch(t, 0, func() { w.now += gap; w.sight.Left = false; w.fn() }) {
		t.Error("a getsetlock client counts as an old client")
	}
}

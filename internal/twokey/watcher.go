// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"container/list"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
)

const (
	// samples is how many retry periods may lie between two looks of one
	// observation.
	samples = 3

	// watched is for how many keys observations are kept. The key not looked at
	// for the longest time is dropped first.
	watched = 4096
)

// watcher remembers what looks have shown: for how long each held value stayed
// unchanged, and whether the server's clock kept pace with this process.
type watcher struct {
	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // dialect.Observation values, the latest first

	clock dialect.Observation // the latest look with the server's clock
	pace  pace
	seen  dialect.Seen // what old clients wrote that contradicts the terms
	told  dialect.Seen // what other observers saw, as far as they still say so

	polite *polite.Memory // old clients seen on the keys, and this process's time on them
}

func newWatcher(poll, greatest time.Duration, simulated bool) *watcher {
	return &watcher{byKey: map[string]*list.Element{}, recent: list.New(),
		polite: polite.NewMemory(poll, greatest, simulated)}
}

// note adds a look to the memory of values and to that of old clients.
func (e *Engine) note(o *Observation) {
	w := e.watch
	if o.OfOldClient() {
		w.polite.Saw(o.Key, o.Sent)
	} else if _, left := o.left(); left {
		w.polite.Met(o.Key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step(o.Observation) {
		e.Count.Steps.Add(1)
	}
	var lost time.Duration
	o.Gained, lost = w.pace.against(o.Observation)
	if o.MarkExists || o.Err != nil {
		return // cannot be judged, so it is not kept
	}
	gap := samples * time.Duration(e.period.Load())
	var before dialect.Observation
	el := w.byKey[o.Key]
	if el != nil {
		before = el.Value.(dialect.Observation)
	}
	if o.OfOldClient() && o.ServerMicros != 0 {
		// A step of the server's clock is added to Behind elsewhere.
		w.seen.Add(e.Settings.Dialect, e.Settings.Terms, o.Stamp,
			changedSince(before, o.Observation, lost+o.Gained), o.ServerNow())
	}
	o.Seen = w.against()
	o.Observation = o.Follow(before, gap)
	if same := before.Exists && before.Value == o.Value; same && o.Received-before.Received > gap {
		o.Sparse = o.Received - before.Received
		e.Count.Sparse.Add(1)
	}
	w.keep(el, o.Observation)
}

// changedSince returns an instant of the server's clock after which the value
// of a look was written: the look before it showed another. It is zero if that
// is unknown. stepped is how much the server's clock may have moved by steps.
func changedSince(before, now dialect.Observation, stepped time.Duration) time.Time {
	if !before.Exists || before.Value == now.Value || before.Received > now.Sent || before.ServerMicros == 0 {
		return time.Time{}
	}
	return before.ServerNow().Add(-stepped)
}

func (w *watcher) keep(el *list.Element, o dialect.Observation) {
	if el != nil {
		el.Value = o
		w.recent.MoveToFront(el)
		return
	}
	w.byKey[o.Key] = w.recent.PushFront(o)
	if w.recent.Len() > watched {
		last := w.recent.Back()
		w.recent.Remove(last)
		delete(w.byKey, last.Value.(dialect.Observation).Key)
	}
}

// contradictions returns what old clients wrote that contradicts the terms.
func (w *watcher) contradictions() dialect.Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.against()
}

// against is contradictions for a caller that holds w.mu.
func (w *watcher) against() dialect.Seen {
	s := w.seen
	s.Behind, s.Ahead = max(s.Behind, w.told.Behind), w.told.Ahead
	return s
}

// forget drops what was seen of a key that has been taken since.
func (w *watcher) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if el := w.byKey[key]; el != nil {
		w.recent.Remove(el)
		delete(w.byKey, key)
	}
}

// sawClock notes the reading of the server's clock that came with a successful
// attempt.
func (e *Engine) sawClock(at roundTrip, micros int64) {
	w := e.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step(dialect.Observation{ServerMicros: micros, Sent: at.sent, Received: at.received}) {
		e.Count.Steps.Add(1)
	}
}

// step notes a reading of the server's clock and reports whether that clock
// stepped since the reading before. A difference counts as a step above ten
// milliseconds plus a thousandth of the time in between: no two healthy clocks
// drift apart so fast.
func (w *watcher) step(o dialect.Observation) bool {
	if o.ServerMicros == 0 {
		return false
	}
	w.pace.note(o)
	before := w.clock
	if o.Received >= before.Received {
		w.clock = o
	}
	by := o.ServerStep(before).Abs()
	return by > (o.Received-before.Sent).Abs()/1000+10*time.Millisecond
}

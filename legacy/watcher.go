package legacy

import (
	"container/list"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

const (
	// samples is how many retry periods two looks may lie apart to belong to one observation.
	samples = 3

	// watched is for how many keys observations are kept; the one not looked at for longest goes.
	watched = 4096
)

// watcher remembers what was seen between calls: how long each held value has stood unchanged, and
// whether the server's clock kept pace with ours.
type watcher struct {
	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // of dialect.Observation, the latest first

	clock dialect.Observation // the latest look with the server's clock
	pace  pace

	polite *polite.Memory // of who was seen on the keys, and for how long we worked on them
}

func newWatcher(poll, greatest time.Duration, simulated bool) *watcher {
	return &watcher{byKey: map[string]*list.Element{}, recent: list.New(), polite: polite.NewMemory(poll, greatest, simulated)}
}

// note joins a look to those before it, for both memories.
func (h *hardened) note(o *Observation) {
	w := h.watch
	if o.OfOldClient() {
		w.polite.Saw(o.Key, o.Sent)
	} else if _, left := o.left(); left {
		w.polite.Met(o.Key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step(o.Observation) {
		h.count.steps.Add(1)
	}
	o.Gained, _ = w.pace.against(o.Observation)
	if o.MarkExists || o.Err != nil {
		return // nothing that could be judged: not worth the room
	}
	gap := samples * time.Duration(h.period.Load())
	var before dialect.Observation
	el := w.byKey[o.Key]
	if el != nil {
		before = el.Value.(dialect.Observation)
	}
	o.Observation = o.Follow(before, gap)
	if same := before.Exists && before.Value == o.Value; same && o.Sent-before.Received > gap {
		o.Sparse = o.Sent - before.Received
		h.count.sparse.Add(1)
	}
	w.keep(el, o.Observation)
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

// forget drops what was seen of a key that was taken since.
func (w *watcher) forget(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if el := w.byKey[key]; el != nil {
		w.recent.Remove(el)
		delete(w.byKey, key)
	}
}

// sawClock compares the server's clock, as an attempt that took its key brought it.
func (h *hardened) sawClock(at roundTrip, micros int64) {
	w := h.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.step(dialect.Observation{ServerMicros: micros, Sent: at.sent, Received: at.received}) {
		h.count.steps.Add(1)
	}
}

// step notes a reading of the server's clock and reports whether it stepped since the one before. What
// two healthy clocks drift apart (a thousandth is beyond any quartz) and ten milliseconds are none.
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

// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

//go:embed look.lua
var lookSource string

// lookScripts are the look script for every number of keys, at index keys−1.
var lookScripts = func() (all [looksTogether]*wire.Script) {
	for i := range all {
		all[i] = wire.NewScript(i+1, lookSource)
	}
	return all
}()

// looksTogether is how many keys one script looks at. Each script has a fixed
// cost for client and server that exceeds that of one look, but a script with
// many looks keeps the server's other clients waiting. A look at an unchanged
// value costs the server 1 to 2 µs, depending on its processor's caches, and
// any other look costs twice that. Four scripts of 64 looks in a message thus
// take a quarter to half a millisecond, four times a second. One SCAN or CLIENT
// LIST of a larger server takes as long. If keys live on several nodes, or
// rights depend on the key, each script looks at one key.
const looksTogether = 64

// watcher owns the connections and goroutines of one watch. Its sources send
// events; one goroutine folds them.
type watcher struct {
	cfg    Config
	pool   *redis.Pool
	mux    *wire.Mux
	events chan []offset.Observed
	wg     sync.WaitGroup
	reader *reading.Reader

	elapsed func() time.Duration

	mu     sync.Mutex
	synced bool
	server time.Time     // the last reading of the server's clock,
	at     time.Duration // received at this elapsed time
	anchor struct {      // the first reading since the start or since the last step
		server         time.Time
		sent, received time.Duration
	}
	cost  Cost
	fresh []string      // keys that MONITOR found
	news  chan struct{} // holds an element when the poller should wake up

	looking chan struct{} // holds an element when a look was sent since the last receive

	lookTime  time.Duration // total time that the server took for lookCount looks, by its own clock
	lookCount int64
}

func newWatcher(pool *redis.Pool, cfg Config) (*watcher, error) {
	w := &watcher{cfg: cfg, pool: pool, reader: reading.NewReader(cfg.Dialects),
		events: make(chan []offset.Observed, 64), news: make(chan struct{}, 1),
		looking: make(chan struct{}, 1)}
	w.elapsed = clocks.New(cfg.Clock).Elapsed
	var err error
	w.mux, err = wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: keys.Setup})
	return w, err
}

// send passes events to the fold, which reads until every source has ended.
func (w *watcher) send(os ...offset.Observed) {
	if len(os) > 0 {
		w.events <- os
	}
}

// rest waits for d. It returns false if ctx ends first.
func (w *watcher) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.cfg.Clock.After(d):
		return true
	}
}

// tolerated returns how far the server's clock and elapsed time may disagree
// over a span before it counts as a step. That is more than a clock is ever
// slewed for long, and leaves room for a reading that arrives late.
func tolerated(span time.Duration) time.Duration { return 20*time.Millisecond + span/1000 }

// heard takes a reading of the server's clock, made between sent and received.
// It compares the reading with the elapsed time since the anchor, so that small
// disagreements add up until they count. It returns the size of the step, 0 for
// none.
func (w *watcher) heard(server time.Time, sent, received time.Duration) (step time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &w.anchor
	if w.synced {
		low, high := a.server.Add(sent-a.received), a.server.Add(received-a.sent)
		slack := tolerated(sent - a.received)
		switch {
		case server.Before(low.Add(-slack)):
			step = server.Sub(low)
		case server.After(high.Add(slack)):
			step = server.Sub(high)
		}
	}
	if !w.synced || step != 0 {
		a.server, a.sent, a.received = server, sent, received
	}
	w.synced, w.server, w.at = true, server, received
	return step.Truncate(time.Microsecond)
}

// serverNow returns the present time of the server's clock, extrapolated from
// its last reading; zero before the first reading.
func (w *watcher) serverNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return time.Time{}
	}
	return w.server.Add(w.elapsed() - w.at).Truncate(time.Microsecond)
}

// refused returns why a source cannot be used and what to do.
func refused(err error, command, instead string) string {
	what := fmt.Sprintf("%s: %v", command, err)
	switch {
	case wire.IsNoPerm(err):
		what = "the user has no right to " + command
	case wire.IsUnknownCommand(err):
		what = "the server does not know " + command
	}
	if advice := wire.Explain(err); advice != "" && !wire.IsNoPerm(err) {
		what += " (" + advice + ")"
	}
	return what + "; " + instead
}

// gone sends an event: the source will not be used.
func (w *watcher) gone(s census.Source, why string) { w.say(s, reading.Missing, why) }

// note sends an event: the source works only in part.
func (w *watcher) note(s census.Source, what string) { w.say(s, reading.Noted, what) }

func (w *watcher) say(s census.Source, reason census.HoleReason, what string) {
	at := w.serverNow()
	if at.IsZero() {
		at = w.cfg.Clock.Now().UTC().Truncate(time.Microsecond)
	}
	w.send(reading.GapOf(s, at, 0, reason, what))
}

// offer sends an event, or drops it if the channel is full.
func (w *watcher) offer(o offset.Observed) {
	select {
	case w.events <- []offset.Observed{o}:
	default:
	}
}

func (w *watcher) takeFresh() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.fresh
	w.fresh = nil
	return out
}

// found is called by the filter for each new key of a lock.
func (w *watcher) found(key string) {
	w.mu.Lock()
	if len(w.fresh) < w.cfg.MaxKeys {
		w.fresh = append(w.fresh, key)
	}
	w.mu.Unlock()
	w.rouse()
}

// rouse wakes the poller.
func (w *watcher) rouse() { signal(w.news) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *watcher) spent(looks, scans int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cost.Looks += looks
	w.cost.Scans += scans
}

// took adds the time that the server spent on looks which it executed in a row.
// The time of other clients' commands in between is included, so the sum is
// never too small.
func (w *watcher) took(span time.Duration, looks int) {
	if span < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookTime += span
	w.lookCount += int64(looks)
}

// spentSoFar returns the cost until now of a watch that began at begun.
func (w *watcher) spentSoFar(begun time.Duration) Cost {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cost
	c.Elapsed = w.elapsed() - begun
	if w.lookCount > 0 && c.Elapsed > 0 {
		c.ServerTime = time.Duration(float64(w.lookTime) / float64(w.lookCount) * float64(c.Looks))
		c.Share = c.ServerTime.Seconds() / c.Elapsed.Seconds()
	}
	return c
}

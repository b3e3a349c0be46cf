package audit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/skew/offset"
)

//go:embed look.lua
var lookSource string

// lookScripts are one script, by its number of keys less one.
var lookScripts = func() (all [looksTogether]*wire.Script) {
	for i := range all {
		all[i] = wire.NewScript(i+1, lookSource)
	}
	return all
}()

// looksTogether is how many keys a script looks at. What surrounds a script costs both sides more than a look, and many in
// one keep the server's other clients waiting. A look at a value that still stands costs the server 1 to 2 µs, by how much of
// the key and the script its processor still has at hand, and any other twice that: so four scripts of sixty-four in a
// message take a quarter to half a millisecond, four times a second, which is what one SCAN or CLIENT LIST of a larger
// server takes. Where keys live on several nodes, or rights are by key, it is a script each.
const looksTogether = 64

// connectionName is what the connections of a watch are called, in servers that have names.
const connectionName = "getsetlock-audit"

// watcher owns the connections and goroutines of one watch. Sources send events; one goroutine folds them.
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
	server time.Time     // server's clock …
	at     time.Duration // … at this elapsed time
	anchor struct {      // the same at the first reading, or the first since a step
		server         time.Time
		sent, received time.Duration
	}
	cost  Cost
	fresh []string      // keys that MONITOR found
	news  chan struct{} // holds a token when the poller should not sleep on

	looking chan struct{} // holds a token when a look has been sent since it was taken

	lookTime  time.Duration // server's clock over looks of one message
	lookCount int64

	rooms chan []offset.Observed // events that were taken: room for others
}

func newWatcher(pool *redis.Pool, cfg Config) (*watcher, error) {
	w := &watcher{cfg: cfg, pool: pool, reader: reading.NewReader(cfg.Dialects), events: make(chan []offset.Observed, 64), news: make(chan struct{}, 1), looking: make(chan struct{}, 1), rooms: make(chan []offset.Observed, 2)}
	w.elapsed = elapsedOf(cfg.Clock)
	var err error
	w.mux, err = wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: setup})
	return w, err
}

func elapsedOf(c lock.Clock) func() time.Duration {
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		return e.Elapsed
	}
	return func() time.Duration { return c.Now().Sub(time.Unix(0, 0)) }
}

// setup names the connection and asks the server not to count our looks as uses of a key. Both are
// politeness: a server that knows neither is watched all the same.
func setup(c redis.Conn) error {
	for _, command := range [][]any{{"SETNAME", connectionName}, {"NO-TOUCH", "ON"}} {
		if _, err := c.Do("CLIENT", command...); err != nil && c.Err() != nil {
			return err
		}
	}
	return nil
}

// send hands events over. Whoever folds them reads until every source has ended.
func (w *watcher) send(os ...offset.Observed) {
	if len(os) > 0 {
		w.events <- os
	}
}

// room is an empty list for n events. A message of looks fills 60 kB: made anew each time, it is most of what a quiet
// watch leaves to the collector.
func (w *watcher) room(n int) []offset.Observed {
	select {
	case os := <-w.rooms:
		return slices.Grow(os, n)
	default:
		return make([]offset.Observed, 0, n)
	}
}

// emptied gives a list that was sent back, when its events are copied.
func (w *watcher) emptied(os []offset.Observed) {
	if cap(os) < looksTogether {
		return
	}
	clear(os)
	select {
	case w.rooms <- os[:0]:
	default:
	}
}

// rest waits for d, or says false where the watch ends first.
func (w *watcher) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.cfg.Clock.After(d):
		return true
	}
}

// tolerated is how far a server's clock and ours may disagree in a span before it counts as a step: more
// than any clock is slewed for long, and enough for a reading that came late.
func tolerated(span time.Duration) time.Duration { return 20*time.Millisecond + span/1000 }

// heard compares the server's clock with elapsed time since the anchor: server was read by it between
// sent and received. Small disagreements add up that way until they count. It returns the step, 0 for none.
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

// serverNow is the server's clock now, as far as the last reading of it tells; zero before the first.
func (w *watcher) serverNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return time.Time{}
	}
	return w.server.Add(w.elapsed() - w.at).Truncate(time.Microsecond)
}

// refused says why a source can't be used, with what to do.
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

// gone sends that a source will not be used.
func (w *watcher) gone(s census.Source, why string) { w.say(s, reading.Missing, why) }

// note sends what has to be known of a source that works in part.
func (w *watcher) note(s census.Source, what string) { w.say(s, reading.Noted, what) }

func (w *watcher) say(s census.Source, reason census.HoleReason, what string) {
	at := w.serverNow()
	if at.IsZero() {
		at = w.cfg.Clock.Now().UTC().Truncate(time.Microsecond)
	}
	w.send(reading.GapOf(s, at, 0, reason, what))
}

// offer sends an event that may be left out where nobody has time for it.
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

// found is called by the filter for each key of a lock.
func (w *watcher) found(key string) {
	w.mu.Lock()
	if len(w.fresh) < w.cfg.MaxKeys {
		w.fresh = append(w.fresh, key)
	}
	w.mu.Unlock()
	w.rouse()
}

// rouse ends the poller's rest.
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

// took notes how long the server was busy with looks that it executed one right after another. What
// other clients had executed in between counts too, so the sum is never too small.
func (w *watcher) took(span time.Duration, looks int) {
	if span < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookTime += span
	w.lookCount += int64(looks)
}

// spentSoFar is the cost up to now, of a watch that began at begun.
func (w *watcher) spentSoFar(begun time.Duration) Cost {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.cost
	c.Elapsed = w.elapsed() - begun
	if w.lookCount > 0 && c.Elapsed > 0 {
		c.ServerTime = time.Duration(float64(w.lookTime) / float64(w.lookCount) * float64(c.Looks))
		c.Share, c.HasShare = c.ServerTime.Seconds()/c.Elapsed.Seconds(), true
	}
	return c
}

// timeOf reads a reply of TIME.
func timeOf(reply any, err error) (time.Time, error) {
	sec, usec, err := wire.Clock(reply, err)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(sec*1e6 + usec).UTC(), nil
}

func instant(seconds, micros string) (time.Time, error) {
	s, err := strconv.ParseInt(seconds, 10, 64)
	m, err2 := strconv.ParseInt(micros, 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return time.Time{}, err
	}
	return time.UnixMicro(s*1e6 + m).UTC(), nil
}

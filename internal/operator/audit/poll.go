// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// The speed of polling. Waking up costs more than looking, so looks are
// collected: a batch is sent when it is full, or when the first key has been
// due for pollSlow.
//
// Two batches are at least pollTick apart, so that the server's other clients
// do not wait behind many batches at once. When the server says that a key
// changed, the next tick looks at it.
const (
	pollTick   = 20 * time.Millisecond
	pollSlow   = 300 * time.Millisecond
	pollBatch  = 4 * looksTogether
	scanCount  = 100
	scanAgain  = 5 * time.Second        // the longest time between two passes of SCAN
	scanSoon   = 500 * time.Millisecond // the shortest; longer after a pass of many slices
	heartbeat  = time.Second            // time between two comparisons of clocks
	mostAbsent = 2 * time.Second        // the longest time without an answer that is no hole
	longFree   = 5 * time.Second        // how long a key is free before another may take its place

	// With tracking on, the server reports one change after each read. Such a
	// read is repeated after this time, since the report may have been lost.
	trackAgain = 10 * time.Second
)

// poller finds keys and looks at them.
type poller struct {
	w       *watcher
	scope   scope.Scope
	tracker *wire.Tracker // nil if keys are only polled
	plain   bool          // no EVAL: three commands instead of the script
	keys    []*followed   // looked at in turn
	follow  map[string]*followed
	next    int // index in keys of the next one to look at
	scanning
	budget  float64       // number of looks that may be made now
	filled  time.Duration // elapsed time up to which budget was given
	beat    time.Duration // elapsed time at which the next heartbeat is due
	last    time.Duration // elapsed time of the last answer
	started bool          // the server has answered
	single  bool          // the script gets one key in each call
	works   bool          // at least one look was answered
	dead    bool          // the server refuses every look

	mu  sync.Mutex
	hot map[string]bool // keys that the server says have changed; at most one entry for each key followed
}

// scanning is a pass of SCAN through the keyspace.
type scanning struct {
	queue   []string      // found, not looked at yet
	cursor  string        // "0" at the beginning of a pass
	slices  int           // number of slices of the present pass
	resting time.Duration // elapsed time at which the next pass begins
	noScan  bool          // the server refuses SCAN
}

// followed is a key that the poller looks at again and again. Times are elapsed
// times.
type followed struct {
	key      string
	name     any           // key as an any, allocated once and not at every look
	value    string        // the value at the last look if it was short and had no TTL, else empty
	expected any           // value as an any
	looked   time.Duration // time of the last look
	cancel   func()        // ends the tracker's watch; nil without a watch
	armed    bool          // the tracker watches the key
	told     time.Duration // when the server was asked to report the next change; never if it was not
	free     time.Duration // since when every look found it missing; 0 if the last look found it
}

// idle reports whether another key may take the place of f.
func (f *followed) idle(now time.Duration) bool {
	return f.free != 0 && now-f.free >= longFree
}

// never is earlier than any elapsed time.
const never time.Duration = -1 << 62

func newPoller(w *watcher) *poller {
	return &poller{w: w, scope: w.cfg.scope(), follow: map[string]*followed{},
		scanning: scanning{cursor: "0"}, hot: map[string]bool{}}
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	defer p.stop()
	p.tracker = p.w.mux.Tracker()
	p.last = p.w.elapsed()
	p.filled = p.last - pollTick
	for {
		p.tick(ctx)
		if !p.rest(ctx) {
			// The coverage reaches to the end.
			p.time(context.WithoutCancel(ctx))
			p.away()
			return
		}
	}
}

// stop ends the tracker's watches.
func (p *poller) stop() {
	for _, f := range p.follow {
		if f.cancel != nil {
			f.cancel()
		}
	}
}

// add follows a key. If there is no room, the key takes the place of a key that
// has been free for a long time. add returns false if the key was followed
// already, or if there is no such place: then only MONITOR and later passes of
// SCAN see the key.
func (p *poller) add(key string) bool {
	if p.follow[key] != nil || len(p.follow) >= p.w.cfg.MaxKeys && !p.dropFree() {
		return false
	}
	f := &followed{key: key, name: key, expected: nothing, looked: never, told: never}
	p.follow[key] = f
	p.keys = append(p.keys, f)
	return true
}

// dropFree makes room: it follows one key no more that has been free for a long
// time. A lock is named after what it protects, and most names never come back.
// It returns false if no key has been free for so long.
func (p *poller) dropFree() bool {
	now := p.w.elapsed()
	for i, f := range p.keys {
		if !f.idle(now) {
			continue
		}
		if f.cancel != nil {
			f.cancel()
		}
		delete(p.follow, f.key)
		p.keys = slices.Delete(p.keys, i, i+1)
		return true
	}
	return false
}

// tick spends the budget of this slice of time. It looks at keys that the
// server says have changed, keys that are due, and keys that SCAN found; then
// it scans.
func (p *poller) tick(ctx context.Context) {
	now := p.w.elapsed()
	p.budget = min(p.budget+p.looksIn(now-p.filled), max(1, p.looksIn(2*pollSlow)))
	p.filled = now
	for _, k := range p.w.takeFresh() {
		p.add(k)
	}
	scan := p.budget >= 1 && p.scans(now)
	if scan {
		p.budget--
	}
	most := min(int(p.budget), pollBatch)
	if most > looksTogether {
		// a message of few looks costs nearly as much as a full one; the rest
		// wait until the next tick
		most -= most % looksTogether
	}
	keys := p.due(now, most)
	p.budget -= float64(len(keys))
	beat := now >= p.beat
	if beat {
		p.beat = now + heartbeat
	}
	switch looks := len(keys) > 0 && !p.dead; {
	case looks:
		p.look(ctx, keys, beat)
	case beat:
		p.time(ctx)
	}
	if scan {
		p.scan(ctx)
	}
}

// scans reports whether it is time for a slice of the keyspace. It is not while
// keys of the last slice wait, nor if there is no room for a key that it could
// find.
func (p *poller) scans(now time.Duration) bool {
	if len(p.queue) > 0 || p.noScan || now < p.resting {
		return false
	}
	if len(p.follow) >= p.w.cfg.MaxKeys &&
		!slices.ContainsFunc(p.keys, func(f *followed) bool { return f.idle(now) }) {
		p.resting = now + scanAgain
		return false
	}
	return true
}

// looksIn is how many looks the budget has for d.
func (p *poller) looksIn(d time.Duration) float64 { return float64(p.w.cfg.Looks) * d.Seconds() }

// rest waits until there is something to do. It returns false if the watch ends
// first.
func (p *poller) rest(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.w.cfg.Clock.After(p.pause()):
		return true
	case <-p.w.news:
	}
	left := p.filled + pollTick - p.w.elapsed()
	return left <= 0 && ctx.Err() == nil || p.w.rest(ctx, left)
}

// pause returns how long the poller may sleep unless news comes. It wakes for
// the next pass of SCAN. It wakes for looks when a key is due and the budget
// allows a full message of looks, or a look at every key. The result lies
// between pollTick and pollSlow.
func (p *poller) pause() time.Duration {
	now := p.w.elapsed()
	idle := pollSlow
	if len(p.queue) == 0 && !p.noScan {
		idle = min(idle, p.resting-now)
	}
	if most := len(p.queue) + len(p.keys); most > 0 {
		due := pollSlow
		for _, f := range p.keys {
			due = min(due, f.looked+p.w.cfg.PollEvery-now)
		}
		if len(p.queue) > 0 {
			due = 0
		}
		lacking := float64(min(most, pollBatch)) - p.budget
		full := time.Duration(lacking / float64(p.w.cfg.Looks) * float64(time.Second))
		idle = min(idle, max(due, full))
	}
	return min(max(idle, pollTick), pollSlow)
}

// due picks at most most keys to look at next. First come the keys that the
// server says have changed. The rest is one half new keys and one half keys
// that are due again, so that neither kind keeps the other from being seen.
func (p *poller) due(now time.Duration, most int) []string {
	var out []string
	p.mu.Lock()
	for k := range p.hot {
		if len(out) == most {
			break
		}
		delete(p.hot, k)
		if f := p.follow[k]; f != nil {
			f.looked, f.armed, f.told = now, false, never
			out = append(out, k)
		}
	}
	p.mu.Unlock()
	out = p.fromQueue(out, len(out)+(most-len(out)+1)/2)
	for range p.keys {
		if len(out) >= most {
			break
		}
		p.next %= len(p.keys)
		f := p.keys[p.next]
		p.next++
		// A key that was hot is not due, but those after it may be.
		if now-f.looked >= p.w.cfg.PollEvery {
			f.looked = now
			out = append(out, f.key)
		}
	}
	return p.fromQueue(out, most)
}

// fromQueue adds keys that SCAN found to out, until it has most keys.
func (p *poller) fromQueue(out []string, most int) []string {
	n := min(len(p.queue), max(0, most-len(out)))
	out, p.queue = append(out, p.queue[:n]...), p.queue[n:]
	return out
}

// time asks for the server's clock. This is the heartbeat, and it finds clock
// steps.
func (p *poller) time(ctx context.Context) {
	sent := p.w.elapsed()
	at, err := wire.Time(p.w.mux.Do(ctx, "TIME"))
	if err != nil {
		p.failed(ctx, err)
		return
	}
	p.heard(at, sent, true)
}

// heard takes an answer of the server, which showed its clock at the instant
// at. It reports the time without an answer before this one, if that was long.
// It also reports a step of the server's clock and, with beat, a comparison of
// the clocks without a step.
func (p *poller) heard(at time.Time, sent time.Duration, beat bool) {
	received := p.w.elapsed()
	if away := received - p.last; away > mostAbsent && p.started {
		p.w.send(reading.GapOf(census.SourcePoll, at.Add(-away).Truncate(time.Microsecond), away,
			census.HoleAbsent, "no answer for "+away.Round(time.Millisecond).String()))
	}
	p.last, p.started = received, true
	if step := p.w.heard(at, sent, received); step != 0 || beat {
		p.w.send(offset.Observed{At: at, Kind: offset.ObservedStep, For: step})
	}
}

// away reports at the end that the server no longer answered. Elsewhere a hole
// is reported by the answer after it, and here there is none.
func (p *poller) away() {
	now, at := p.w.elapsed(), p.w.serverNow()
	if away := now - p.last; p.started && away > mostAbsent {
		const why = "no answer until the end"
		// A hole is cut at the last event. The second gap, of no length, is
		// that event.
		p.w.send(reading.GapOf(census.SourcePoll, at.Add(-away).Truncate(time.Microsecond), away,
			census.HoleAbsent, why), reading.GapOf(census.SourcePoll, at, 0, census.HoleAbsent, why))
	}
}

// failed takes the error of a look. A lost connection comes back by itself; a
// missing permission does not. So it acts on a refusal, if no look has been
// answered yet:
//
//   - of the script: looks are made by plain commands from now on.
//   - of the plain commands: no look is made any more.
func (p *poller) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || p.works || !wire.IsNoPerm(err) && !wire.IsUnknownCommand(err) {
		return
	}
	if !p.plain {
		p.plain = true
		p.w.note(census.SourcePoll, refused(err, "EVAL",
			"PTTL, GETRANGE and TIME are sent one by one, which makes the clocks' lower bounds looser"))
		return
	}
	p.dead = true
	p.w.gone(census.SourcePoll, refused(err, "GETRANGE, PTTL or TIME",
		"keys can't be looked at; give the user +getrange +pttl +time ~* or watch with MONITOR"))
}

// arm makes the tracker watch the key. It reports whether the tracker does. If
// the server refuses tracking, all keys are only polled from now on.
func (p *poller) arm(ctx context.Context, key string, f *followed) bool {
	if p.tracker == nil || f.armed {
		return p.tracker != nil
	}
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
	f.told = never
	cancel, err := p.tracker.Arm(ctx, key, func() { p.changed(key) })
	if err != nil {
		if errors.Is(err, wire.ErrNoWake) {
			p.tracker = nil
			p.w.gone(census.SourceTracking,
				refused(err, "CLIENT TRACKING", "keys are only polled, so short holds are missed more often"))
		}
		return false
	}
	f.cancel, f.armed = cancel, true
	return true
}

// changed takes the server's message that a key changed. The tracker calls it
// on a goroutine of its own.
func (p *poller) changed(key string) {
	p.mu.Lock()
	p.hot[key] = true
	p.mu.Unlock()
	p.w.rouse()
	if at := p.w.serverNow(); !at.IsZero() {
		p.w.offer(offset.Observed{At: at, Kind: offset.ObservedEvent, Event: "changed", Key: key})
	}
}

// scan asks for the next slice of the keyspace.
func (p *poller) scan(ctx context.Context) {
	keys, next, err := p.w.mux.Scan(ctx, p.cursor, "MATCH", p.scope.Pattern(), "COUNT", scanCount)
	if err != nil {
		if wire.IsNoPerm(err) || wire.IsUnknownCommand(err) {
			p.noScan = true
			p.w.note(census.SourcePoll,
				refused(err, "SCAN", "only keys that MONITOR shows are looked at"))
		}
		p.resting = p.w.elapsed() + scanAgain
		return
	}
	p.w.spent(0, 1)
	p.cursor = next
	for _, k := range keys {
		if p.follow[k] == nil && p.scope.Covers(p.scope.Database(), k) {
			p.queue = append(p.queue, k)
		}
	}
	p.slices++
	if p.cursor == "0" {
		p.resting = p.w.elapsed() + min(max(scanSoon, time.Duration(p.slices)*scanSoon/5), scanAgain)
		p.slices = 0
	}
}

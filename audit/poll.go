package audit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/skew"
)

// The pace of polling. A slice of looks every tick keeps the server's other clients from waiting behind
// many at once.
const (
	pollTick   = 20 * time.Millisecond
	scanCount  = 100
	scanAgain  = 5 * time.Second        // between two passes, at most …
	scanSoon   = 500 * time.Millisecond // … and at least; a pass of many slices rests for longer
	heartbeat  = time.Second
	mostHot    = 4096
	mostAbsent = 2 * time.Second
	longFree   = 5 * time.Second
)

// poller looks at keys and finds them.
type poller struct {
	w       *watcher
	tracker *wire.Tracker // nil where keys are only polled
	plain   bool          // no EVAL: three commands in place of the script
	keys    []string      // followed, looked at by turns
	follow  map[string]*followed
	next    int
	queue   []string // found by SCAN, not looked at yet
	cursor  string
	slices  int           // of this pass
	resting time.Duration // elapsed time at which the next pass of SCAN begins
	budget  float64
	beat    time.Duration
	last    time.Duration // elapsed time of the last answer
	started bool
	noScan  bool
	single  bool // a script for each key
	works   bool // a look was answered
	dead    bool // looks are refused for good

	mu  sync.Mutex
	hot map[string]bool // changed, says the server
}

type followed struct {
	looked time.Duration
	cancel func() // of the tracker's watch; nil without one
	armed  bool
	free   time.Duration // since when it was missing at every look, 0 if it was not; keys given by name never leave
	given  bool
}

func newPoller(w *watcher) *poller {
	p := &poller{w: w, follow: map[string]*followed{}, cursor: "0", hot: map[string]bool{}}
	if !w.cfg.NoTracking {
		p.tracker = w.mux.Tracker()
	}
	for _, k := range w.cfg.Keys {
		if p.add(k) {
			p.follow[k].given = true
		}
	}
	return p
}

// run polls until ctx ends.
func (p *poller) run(ctx context.Context) {
	defer p.stop()
	p.last = p.w.elapsed()
	for {
		p.tick(ctx)
		if !p.w.rest(ctx, pollTick) {
			// What was covered reaches to the end.
			p.time(context.WithoutCancel(ctx))
			return
		}
	}
}

func (p *poller) stop() {
	for _, f := range p.follow {
		if f.cancel != nil {
			f.cancel()
		}
	}
}

// add follows a key. Where there is no room it takes the place of one that has been free for long; else
// it is left to MONITOR and to later passes.
func (p *poller) add(key string) bool {
	if p.follow[key] != nil || len(p.follow) >= p.w.cfg.MaxKeys && !p.dropFree() {
		return false
	}
	p.follow[key] = &followed{looked: -1 << 62}
	p.keys = append(p.keys, key)
	return true
}

// dropFree makes room: locks are named after what they protect, and most names never come back.
func (p *poller) dropFree() bool {
	now := p.w.elapsed()
	for i, key := range p.keys {
		f := p.follow[key]
		if f.given || f.free == 0 || now-f.free < longFree {
			continue
		}
		if f.cancel != nil {
			f.cancel()
		}
		delete(p.follow, key)
		p.keys = slices.Delete(p.keys, i, i+1)
		return true
	}
	return false
}

// tick spends this slice's share of the budget: on what the server says has changed, on what is due, on
// what the scan found, on scanning.
func (p *poller) tick(ctx context.Context) {
	p.budget = min(p.budget+float64(p.w.cfg.Looks)*pollTick.Seconds(), float64(max(1, p.w.cfg.Looks/10)))
	for _, k := range p.w.takeFresh() {
		p.add(k)
	}
	now := p.w.elapsed()
	keys := p.due(now, int(p.budget))
	p.budget -= float64(len(keys))
	scan := p.budget >= 1 && len(p.queue) == 0 && now >= p.resting && !p.noScan
	beat := now >= p.beat
	if len(keys) == 0 && !scan && !beat {
		return
	}
	if beat {
		p.beat = now + heartbeat
		p.time(ctx)
	}
	if len(keys) > 0 && !p.dead {
		p.look(ctx, keys)
	}
	if scan {
		p.budget--
		p.scan(ctx)
	}
}

func (p *poller) due(now time.Duration, most int) []string {
	var out []string
	p.mu.Lock()
	for k := range p.hot {
		if len(out) == most {
			break
		}
		delete(p.hot, k)
		if f := p.follow[k]; f != nil {
			f.looked, f.armed = now, false
			out = append(out, k)
		}
	}
	p.mu.Unlock()
	for range p.keys {
		if len(out) >= most {
			break
		}
		p.next %= len(p.keys)
		f := p.follow[p.keys[p.next]]
		if now-f.looked < p.w.cfg.PollEvery {
			break
		}
		f.looked = now
		out = append(out, p.keys[p.next])
		p.next++
	}
	for len(p.queue) > 0 && len(out) < most {
		out, p.queue = append(out, p.queue[0]), p.queue[1:]
	}
	return out
}

// time asks the server's clock: the heartbeat, and the one that finds steps.
func (p *poller) time(ctx context.Context) {
	sent := p.w.elapsed()
	at, err := timeOf(p.w.mux.Do(ctx, "TIME"))
	if err != nil {
		p.failed(ctx, err)
		return
	}
	p.heard(at, sent, true)
}

// heard notes an answer: that time passed without one, and that the server's clock stepped.
func (p *poller) heard(at time.Time, sent time.Duration, beat bool) {
	received := p.w.elapsed()
	if away := received - p.last; away > mostAbsent && p.started {
		p.w.send(gapOf(SourcePoll, at.Add(-away).Truncate(time.Microsecond), away, HoleAbsent, "no look for "+away.Round(time.Millisecond).String()))
	}
	p.last, p.started = received, true
	if step := p.w.heard(at, sent, received); step != 0 || beat {
		p.w.send(skew.Observed{At: at, Kind: skew.ObservedStep, For: step})
	}
}

// failed takes an error of a look. A connection that is lost comes back by itself; a right that is
// missing does not.
func (p *poller) failed(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || p.works || !wire.IsNoPerm(err) && !wire.IsUnknownCommand(err) {
		return
	}
	if !p.plain {
		p.plain = true
		p.w.note(SourcePoll, refused(err, "EVAL", "PTTL, GETRANGE and TIME are sent one by one, which makes the clocks' lower bounds looser"))
		return
	}
	p.dead = true
	p.w.gone(SourcePoll, refused(err, "GETRANGE, PTTL or TIME", "keys can't be looked at; give the user +getrange +pttl +time ~* or watch with MONITOR"))
}

// arm asks to be told of the key's next change. Where the server refuses, keys are only polled.
func (p *poller) arm(ctx context.Context, key string, f *followed) bool {
	if p.tracker == nil || f.armed {
		return p.tracker != nil
	}
	if f.cancel != nil {
		f.cancel()
		f.cancel = nil
	}
	cancel, err := p.tracker.Arm(ctx, key, func() { p.changed(key) })
	if err != nil {
		if errors.Is(err, wire.ErrNoWake) {
			p.tracker = nil
			p.w.gone(SourceTracking, refused(err, "CLIENT TRACKING", "keys are only polled, so short holds are missed more often"))
		}
		return false
	}
	f.cancel, f.armed = cancel, true
	return true
}

// changed is called by the tracker, on a goroutine of its own.
func (p *poller) changed(key string) {
	p.mu.Lock()
	if len(p.hot) < mostHot {
		p.hot[key] = true
	}
	p.mu.Unlock()
	if at := p.w.serverNow(); !at.IsZero() {
		p.w.offer(skew.Observed{At: at, Kind: skew.ObservedEvent, Event: "changed", Key: key})
	}
}

// scan asks for one more slice of the keyspace.
func (p *poller) scan(ctx context.Context) {
	reply, err := redis.Values(p.w.mux.Do(ctx, "SCAN", p.cursor, "MATCH", p.w.cfg.Match, "COUNT", scanCount))
	if err != nil {
		if wire.IsNoPerm(err) || wire.IsUnknownCommand(err) {
			p.noScan = true
			p.w.note(SourcePoll, refused(err, "SCAN", "only keys that were given, or that MONITOR shows, are looked at"))
		}
		p.resting = p.w.elapsed() + scanAgain
		return
	}
	p.w.spent(0, 1)
	var keys []string
	if _, err := redis.Scan(reply, &p.cursor, &keys); err != nil {
		p.resting = p.w.elapsed() + scanAgain
		return
	}
	for _, k := range keys {
		if p.follow[k] == nil {
			p.queue = append(p.queue, k)
		}
	}
	p.slices++
	if p.cursor == "0" {
		p.resting = p.w.elapsed() + min(max(scanSoon, time.Duration(p.slices)*scanSoon/5), scanAgain)
		p.slices = 0
	}
}

package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// Watch looks at the server until cfg.For has passed or ctx ends, and returns
// what it saw; the end of ctx is no error. Sources that the server refuses are
// named in the result's Coverage and the others used. It fails where the server
// can't even be asked for its time, where cfg.DB is not the database that the
// server says the pool is in, and with the first error of cfg.Record, with what
// was seen beside it.
func Watch(ctx context.Context, pool *redis.Pool, cfg Config) (*Result, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	cfg, known, err := inDatabase(ctx, pool, cfg)
	if err != nil {
		return nil, err
	}
	folded, err := census.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	w, err := newWatcher(pool, cfg)
	if err != nil {
		return nil, err
	}
	sent := w.elapsed()
	at, err := timeOf(w.mux.Do(ctx, "TIME"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit: asking the server for its time: %w", err), w.mux.Close())
	}
	begun := w.elapsed()
	w.heard(at, sent, begun)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.start(ctx)
	f := newFold(w, folded, begun)
	if cfg.Monitor.On && !known {
		f.take(reading.GapOf(census.SourceMonitor, at, 0, reading.Noted, fmt.Sprintf(
			"the server does not say in which database this connection is, so commands of database %d are counted; give the user +client|list", cfg.DB)))
	}
	if n := cfg.DB; n != 0 {
		f.take(offset.Observed{At: at, Kind: offset.ObservedGap, Reason: reading.InDB + " " + strconv.Itoa(n)})
	}
	if p := cfg.Probed; p != nil {
		for _, o := range p.Observed() {
			f.recorder.event(o)
		}
	}
	f.run(ctx, stop)
	return f.result(), f.recorder.err
}

// start begins the sources. Each ends with ctx; when all have, the channel of events is closed.
func (w *watcher) start(ctx context.Context) {
	begin := func(run func(context.Context)) {
		w.wg.Add(1)
		go func() {
			defer w.wg.Done()
			run(ctx)
		}()
	}
	begin(newPoller(w).run)
	begin(w.small)
	if w.cfg.Monitor.On {
		begin(w.monitor)
	}
	go func() {
		w.wg.Wait()
		// The tracker's goroutines offer events too, and end with the connection.
		_ = w.mux.Close()
		close(w.events)
	}()
}

// fold brings the sources' events into the order of the server's clock, counts and records them.
type fold struct {
	w        *watcher
	census   *census.Census
	recorder *recorder
	begun    time.Duration
	waiting  []offset.Observed // those that came since the last flush behind those that were too young for it
}

func newFold(w *watcher, folded *census.Census, begun time.Duration) *fold {
	return &fold{w: w, census: folded, begun: begun, recorder: newRecorder(w.cfg)}
}

// The pace of folding. Connections are read by goroutines of their own, so events of one moment come at
// several; what is later than patience is counted out of order, which the census survives. Folding goes on when events
// come, since the program is awake then anyhow, and after a while without any for the last of them.
const (
	patience = 300 * time.Millisecond
	foldTick = 250 * time.Millisecond
	foldLate = time.Second
)

func (f *fold) run(ctx context.Context, stop func()) {
	var over <-chan time.Time
	if f.w.cfg.For > 0 {
		over = f.w.cfg.Clock.After(f.w.cfg.For)
	}
	late := min(foldLate, f.w.cfg.SeenEvery)
	tick := f.w.cfg.Clock.After(late)
	flushed, seen := f.begun, f.begun
	for {
		ripe := false
		select {
		case <-over:
			stop()
			over = nil
		case os, ok := <-f.w.events:
			if !ok {
				f.flush(time.Time{})
				return
			}
			f.waiting = append(f.waiting, os...)
			f.w.emptied(os)
			ripe = f.w.elapsed()-flushed >= foldTick
		case <-tick:
			ripe = true
		}
		if !ripe {
			continue
		}
		flushed, tick = f.w.elapsed(), f.w.cfg.Clock.After(late)
		f.flush(f.w.serverNow().Add(-patience))
		if f.w.cfg.Seen != nil && ctx.Err() == nil && flushed-seen >= f.w.cfg.SeenEvery {
			seen = flushed
			f.w.cfg.Seen(f.result())
		}
	}
}

// flush counts what is not younger than until; all of it where that is zero. Of one instant, what came first goes
// first.
func (f *fold) flush(until time.Time) {
	byTime := func(a, b offset.Observed) int { return a.At.Compare(b.At) }
	if !slices.IsSortedFunc(f.waiting, byTime) {
		slices.SortStableFunc(f.waiting, byTime)
	}
	n := 0
	for n < len(f.waiting) && (until.IsZero() || !f.waiting[n].At.After(until)) {
		f.take(f.waiting[n])
		n++
	}
	f.waiting = slices.Delete(f.waiting, 0, n)
}

func (f *fold) take(o offset.Observed) {
	f.recorder.event(o)
	for _, h := range f.census.Add(o) {
		f.recorder.hold(h)
	}
}

func (f *fold) result() *Result {
	e, findings := f.census.Evidence()
	return &Result{Evidence: e, Findings: findings, Cost: f.w.spentSoFar(f.begun)}
}

// Replay reads a record of a watch and comes to the same result as the watch did, with the same
// Dialects, Lease and claims; Cost is zero. A record of hashed keys is read with Match left at its
// default. What a probe had found before is judged anew by cfg, and its counts of stamps that were past or far ahead are
// those of the probe. It fails with a *offset.ObservedError for a broken line, and returns what stood before it
// beside the error.
func Replay(from io.Reader, cfg Config) (*Result, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	c, err := census.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	r, err := offset.NewObservedReader(from)
	if err != nil {
		return nil, err
	}
	var probe recordedProbe
	result := func() *Result {
		e, findings := c.Evidence()
		return &Result{Evidence: e, Findings: findings, Probe: probe.result()}
	}
	for {
		o, err := r.Next()
		switch {
		case err == io.EOF:
			return result(), nil
		case err != nil:
			return result(), err
		case o.Kind == offset.ObservedProbe:
			if err := probe.take(o, cfg); err != nil {
				probe.tally = nil // half a sum is none
				return result(), &offset.ObservedError{Line: r.Line(), Reason: err.Error()}
			}
		default:
			if n, ok := reading.WatchedIn(o); ok {
				cfg.DB = n
			}
			c.Add(o)
		}
	}
}

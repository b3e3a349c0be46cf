// SPDX-License-Identifier: Apache-2.0

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

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// Watch watches the server until cfg.For has passed or ctx ends, and returns
// what it saw. The end of ctx is not an error. If the server refuses a source,
// the result's Coverage says so and Watch uses the others.
//
// It returns an error if the server cannot be asked for its time, or if cfg.DB
// is not the database that the pool's connections use. If writing cfg.Record
// fails, Watch goes on and returns that error together with the result.
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
	at, err := wire.Time(w.mux.Do(ctx, "TIME"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("audit: asking the server for its time: %w", err), w.mux.Close())
	}
	begun := w.elapsed()
	w.heard(at, sent, begun)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.start(ctx)
	f := &fold{w: w, census: folded, begun: begun, recorder: newRecorder(w.cfg)}
	if cfg.Monitor.On && !known {
		f.take(reading.GapOf(census.SourceMonitor, at, 0, reading.Noted, fmt.Sprintf(
			"the server does not say in which database this connection is, so commands of database %d are counted; give the user +client|list", cfg.DB)))
	}
	if n := cfg.DB; n != 0 {
		f.take(offset.Observed{At: at, Kind: offset.ObservedGap,
			Reason: reading.InDB + " " + strconv.Itoa(n)})
	}
	f.run(ctx, stop)
	return f.result(), f.recorder.err
}

// start starts the sources. Each ends with ctx; when all have ended, the
// channel of events is closed.
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
		// The tracker's goroutines offer events too; they end with the
		// connection.
		_ = w.mux.Close()
		close(w.events)
	}()
}

// fold puts the sources' events in the order of the server's clock, counts them
// and records them.
type fold struct {
	w        *watcher
	census   *census.Census
	recorder *recorder
	begun    time.Duration
	waiting  []offset.Observed // events that the last flush left as too new, then those that came since
}

// The pace of folding. Several goroutines read connections, so events of one
// moment arrive at different times. An event that arrives later than patience
// is counted out of order, which the census allows for. Folding happens when
// events arrive, since the program is awake then, and after a silence for the
// last of them.
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

// flush counts the events that are not newer than until, or all if until is
// zero. Events of one instant keep the order in which they arrived.
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

// Replay reads the record of a watch. With the same Dialects, Lease and claims
// it comes to the same result as the watch; Cost is zero. For a record of
// hashed keys, leave Match at its default.
//
// If a line is broken, Replay returns an *offset.ObservedError together with
// the result of the lines before it.
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
	result := func() *Result {
		e, findings := c.Evidence()
		return &Result{Evidence: e, Findings: findings}
	}
	for {
		o, err := r.Next()
		switch {
		case err == io.EOF:
			return result(), nil
		case err != nil:
			return result(), err
		}
		c.Add(o)
	}
}

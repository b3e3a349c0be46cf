// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Spec says what one process of a measurement does.
type Spec struct {
	Setup
	Lock    string
	Prefix  string // prefix of all keys
	Keys    int    // number of keys; goroutine i takes key i modulo Keys
	Keep    bool   // take every key once and keep it; otherwise take them again and again
	Once    bool   // each goroutine takes its key once
	Clients int    // number of Lockers, among which the goroutines are divided. Defaults to 1
	Spans   bool   // report every acquisition

	Hold   time.Duration // how long a lock is held
	Rest   time.Duration // how long a goroutine pauses after a release
	Window time.Duration // how long the measurement lasts
}

// name returns the name of the i-th key.
func (s Spec) name(i int) string { return fmt.Sprint(s.Prefix, ":", i%s.Keys) }

// Result is what one or more processes measured. Fields that their kind of work
// does not use are zero.
type Result struct {
	Messages int64
	Writes   int64         // in which messages were sent, for Keep
	Counts   []int         // acquisitions, by goroutine
	WaitP50  time.Duration // of successful waits
	WaitMax  time.Duration // of all waits
	TurnP50  time.Duration // one turn: acquire, hold, release, rest
	TurnP99  time.Duration
	Allocs   uint64
	Spans    []Span

	Resident   int64         // additional resident memory, in bytes
	Goroutines int           // additional goroutines
	GaveBack   time.Duration // how long it took to give the locks back
	Lost       int           // locks that were lost before

	Commands float64 // executed by the servers
}

// add adds the result of another process.
func (r *Result) add(process int, o Result) {
	for i := range o.Spans {
		o.Spans[i].Process = process
	}
	r.Counts, r.Spans = append(r.Counts, o.Counts...), append(r.Spans, o.Spans...)
	r.Messages, r.Writes, r.WaitMax = r.Messages+o.Messages, r.Writes+o.Writes, max(r.WaitMax, o.WaitMax)
}

// patience is how long a library may take to let its callers return after the
// end of the window.
const patience = 3 * time.Second

// run opens the Lockers and does the Spec's work. ready returns when the work
// may begin.
func (s Spec) run(ready func() error) (res Result, err error) {
	lockers := make([]Locker, max(s.Clients, 1))
	for i := range lockers {
		if lockers[i], err = locks[s.Lock](s.Setup); err != nil {
			return res, err
		}
	}
	// Connections are opened, scripts loaded and code is warm after a while.
	warm := Spec{Setup: s.Setup, Prefix: s.Prefix + ":warm", Keys: s.Goroutines}
	warm.Window = min(s.Window/4, 300*time.Millisecond)
	if _, err := warm.loop(lockers); err != nil {
		return res, fmt.Errorf("warming up: %w", err)
	}
	if s.Keep {
		return s.keep(lockers[0], ready)
	}
	if err := ready(); err != nil {
		return res, err
	}
	return s.loop(lockers)
}

// loop lets goroutines take locks repeatedly while the window is open. It
// leaves behind those that the library does not let return; they got what they
// got, and have waited to the end.
func (s Spec) loop(lockers []Locker) (Result, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent := messages.Load()
	// The context has no deadline: libraries would use one for their calls or
	// for the lock itself.
	open, shut := context.WithCancel(context.Background())
	time.AfterFunc(s.Window, shut)
	counts, ends := make([]atomic.Int64, s.Goroutines), make(chan turns, s.Goroutines)
	for i := range s.Goroutines {
		go func() { ends <- s.turns(open, i, lockers[i%len(lockers)], &counts[i]) }()
	}
	<-open.Done()
	runtime.ReadMemStats(&after)
	res := Result{Messages: messages.Load() - sent, Allocs: after.Mallocs - before.Mallocs}
	var all turns
	for late, n := time.After(patience), s.Goroutines; n > 0; n-- {
		select {
		case t := <-ends:
			all.add(t)
		case <-late:
			n, res.WaitMax = 0, s.Window
		}
	}
	for i := range counts {
		res.Counts = append(res.Counts, int(counts[i].Load()))
	}
	res.Spans = all.spans
	res.WaitP50, res.WaitMax = quantile(all.waits, 0.5), max(res.WaitMax, all.vain, quantile(all.waits, 1))
	res.TurnP50, res.TurnP99 = quantile(all.took, 0.5), quantile(all.took, 0.99)
	return res, all.err
}

// turns are the acquisitions of one goroutine, or of several.
type turns struct {
	waits, took []time.Duration
	vain        time.Duration // the longest wait that the end of the window cut short
	spans       []Span
	err         error
}

func (t *turns) add(o turns) {
	t.waits, t.took = append(t.waits, o.waits...), append(t.took, o.took...)
	t.spans = append(t.spans, o.spans...)
	t.vain, t.err = max(t.vain, o.vain), errors.Join(t.err, o.err)
}

// turns takes the i-th key again and again until the window closes.
func (s Spec) turns(open context.Context, i int, l Locker, count *atomic.Int64) (t turns) {
	key := s.name(i)
	for begun := time.Now(); ; {
		held, err := l.Lock(open, key)
		got := time.Now()
		if open.Err() != nil {
			t.vain = got.Sub(begun)
			if err == nil {
				_ = held.Release() // too late to count; the context's end may have lost the lock
			}
			return t
		}
		if err != nil {
			t.err = err
			return t
		}
		t.waits = append(t.waits, got.Sub(begun))
		count.Add(1)
		pause(open, s.Hold)
		if s.Spans {
			t.spans = append(t.spans,
				Span{Key: i % s.Keys, Acquired: got.UnixNano(), Released: time.Now().UnixNano()})
		}
		if err := held.Release(); err != nil && open.Err() == nil {
			t.err = err
			return t
		}
		pause(open, s.Rest)
		now := time.Now()
		t.took = append(t.took, now.Sub(begun))
		if s.Once {
			return t
		}
		begun = now
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// keep takes a lock on every key, keeps all of them for the window, and gives
// them back. If the library leaves renewal to its user, a goroutine per lock
// renews it every third of the TTL.
func (s Spec) keep(l Locker, ready func() error) (res Result, err error) {
	resident() // the collector allocates 0.4 MB in its first cycles
	before, running := resident(), runtime.NumGoroutine()
	held := make([]Held, s.Keys)
	renewing, stop := context.WithCancel(context.Background())
	defer stop()
	var renewers sync.WaitGroup
	every := s.TTL / 3 // capturing s would copy it for each lock and count as the library's memory
	err = s.each(func(i int) (err error) {
		pause(renewing, time.Duration(i)*s.Rest)
		if held[i], err = l.Lock(renewing, s.name(i)); err != nil {
			return fmt.Errorf("taking lock %d: %w", i, err)
		}
		if e, ok := held[i].(Extender); ok {
			renewers.Go(func() { renew(renewing, e, every) })
		}
		return nil
	})
	if err != nil {
		return res, err
	}
	if err := ready(); err != nil {
		return res, err
	}
	pause(renewing, every) // until renewals have reached their usual rhythm
	res.Resident, res.Goroutines = resident()-before, runtime.NumGoroutine()-running
	sent, written := messages.Load(), writes.Load()
	pause(renewing, s.Window)
	res.Messages, res.Writes = messages.Load()-sent, writes.Load()-written
	stop()
	renewers.Wait()
	began := time.Now()
	var lost atomic.Int64
	_ = s.each(func(i int) error {
		if held[i].Release() != nil {
			lost.Add(1)
		}
		return nil
	})
	err = l.Close()
	res.GaveBack, res.Lost = time.Since(began), int(lost.Load())
	return res, err
}

// each calls do for every key, with as many goroutines as the Spec has. A
// goroutine ends at its first error. each returns one of them.
func (s Spec) each(do func(i int) error) error {
	errs := make([]error, s.Goroutines)
	var wg sync.WaitGroup
	for t := range s.Goroutines {
		wg.Go(func() {
			for i := t; i < s.Keys && errs[t] == nil; i += s.Goroutines {
				errs[t] = do(i)
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// renew extends a lock until ctx ends. If that fails, the release will say that
// the lock was lost.
func renew(ctx context.Context, e Extender, every time.Duration) {
	for pause(ctx, every); ctx.Err() == nil; pause(ctx, every) {
		_ = e.Extend(ctx)
	}
}

// resident returns the process's resident memory in bytes, after returning free
// memory to the system. Systems other than Linux do not tell it: 0.
func resident() int64 {
	debug.FreeOSMemory()
	var size, pages int64
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		_, _ = fmt.Sscan(string(text), &size, &pages)
	}
	return pages * int64(os.Getpagesize())
}

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// loop lets goroutines take locks repeatedly while the window is open. A
// goroutine that still waits when the window closes has waited without success;
// its wait counts among the longest.
func (s Spec) loop(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	hung, err := s.warm(ctx, l)
	if err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent := messages.Load()

	open, shut := window(ctx, s.Window)
	defer shut()
	all := make([]turns, s.Goroutines)
	begun := time.Now()
	for i := range all {
		all[i].done = make(chan struct{})
		go func() {
			defer close(all[i].done)
			all[i].run(open, s, i, l)
		}()
	}
	<-open.Done()
	res := &Result{Hung: hung, Elapsed: time.Since(begun), Messages: messages.Load() - sent}
	runtime.ReadMemStats(&after)
	res.Allocs, res.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	res.collect(all, s.Spans)
	return res, nil
}

// window returns a context that ends after d but has no deadline: libraries
// would use a deadline for their calls or for the lock itself.
func window(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(d, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// warming is how long opening all connections may take.
const warming = 30 * time.Second

// warm opens every connection and loads every script on the server. It returns
// how many goroutines the library did not let return; those are left behind.
func (s Spec) warm(ctx context.Context, l Locker) (hung int, err error) {
	done := make(chan error, s.Goroutines)
	for i := range s.Goroutines {
		go func() { done <- s.warmOne(ctx, l, i) }()
	}
	late := time.After(warming)
	for i := range s.Goroutines {
		select {
		case err := <-done:
			if err != nil {
				return 0, fmt.Errorf("warming up: %w", err)
			}
		case <-late:
			if i == 0 {
				return 0, fmt.Errorf("warming up: no lock was taken and released within %v", warming)
			}
			return s.Goroutines - i, nil
		}
	}
	return 0, nil
}

func (s Spec) warmOne(ctx context.Context, l Locker, i int) error {
	for range 3 {
		held, err := l.Lock(ctx, fmt.Sprintf("%swarm:%d", s.Prefix, i))
		if err != nil {
			return err
		}
		if err := held.Release(); err != nil {
			return err
		}
	}
	return nil
}

// turns are the acquisitions of one goroutine.
type turns struct {
	// closed when the goroutine has ended; until then only it may use the
	// fields that are not atomic
	done       chan struct{}
	count      atomic.Int64
	waits, ops ticks
	vain       time.Duration // the wait that the end of the window cut short
	spans      []span
	failed     Result
}

func (t *turns) run(ctx context.Context, s Spec, i int, l Locker) {
	key := s.name(i)
	for begun := time.Now(); ctx.Err() == nil; {
		held, err := l.Lock(ctx, key)
		got := time.Now()
		if ctx.Err() != nil {
			t.vain = got.Sub(begun)
			if err == nil {
				_ = held.Release() // too late to count; the context's end may have lost the lock
			}
			return
		}
		if err != nil {
			t.failed.note(err)
			begun = got
			continue
		}
		t.waits.add(got.Sub(begun))
		t.count.Add(1)
		pause(ctx, s.Hold)
		if s.Spans {
			t.spans = append(t.spans,
				span{Key: i % s.Keys, Acquired: got.UnixNano(), Released: time.Now().UnixNano()})
		}
		if err := held.Release(); err != nil && ctx.Err() == nil {
			t.failed.note(err)
		}
		pause(ctx, s.Rest)
		now := time.Now()
		t.ops.add(now.Sub(begun))
		begun = now
	}
}

func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// patience is how long after the end of the window a library may take to let
// its callers return.
const patience = 3 * time.Second

// collect adds up the goroutines' results. Goroutines that the library never
// lets return are counted and left behind: the process ends soon.
func (r *Result) collect(all []turns, every bool) {
	var waits, ops ticks
	late := time.After(patience)
	for i := range all {
		t := &all[i]
		r.Counts = append(r.Counts, int(t.count.Load()))
		select {
		case <-t.done:
		default:
			select {
			case <-t.done:
			case <-late:
				r.Hung++
				late = alreadyLate
				continue
			}
		}
		waits, ops = append(waits, t.waits...), append(ops, t.ops...)
		r.WaitMax = max(r.WaitMax, t.vain)
		r.Spans = append(r.Spans, t.spans...)
		r.Failed += t.failed.Failed
		if r.Failure == "" {
			r.Failure = t.failed.Failure
		}
	}
	if r.Hung > 0 {
		r.WaitMax = max(r.WaitMax, r.Elapsed)
	}
	r.WaitMax = max(r.WaitMax, waits.quantile(1))
	r.WaitP50 = waits.quantile(0.5)
	r.OpP50, r.OpP99 = ops.quantile(0.5), ops.quantile(0.99)
	if every {
		r.Waits = waits
	}
}

// alreadyLate is closed: receiving from it does not wait.
var alreadyLate = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

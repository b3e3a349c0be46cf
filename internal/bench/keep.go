package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// takers is how many goroutines take the locks that are then kept.
const takers = 64

// keep takes a lock on every key and keeps all of them for the window. Where the library leaves
// renewal to its user, a goroutine for each does it, at a third of the TTL.
func (s Spec) keep(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	few := s
	few.Goroutines = takers
	hung, err := few.warm(ctx, l)
	if err != nil {
		return nil, err
	}
	before, running := settled(), runtime.NumGoroutine()
	k := kept{held: make([]Held, s.Keys)}
	if err := k.take(ctx, s, l); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	k.watch(ctx, s.TTL/3) // a full period: from here on renewals are as they always are
	res := &Result{Resident: resident() - before, Goroutines: runtime.NumGoroutine() - running}
	began, cpu, sent := time.Now(), cpuTime(), messages.Load()
	res.Busiest = k.watch(ctx, s.Window)
	res.Elapsed, res.CPU, res.Messages = time.Since(began), cpuTime()-cpu, messages.Load()-sent
	res.Lost = int(k.lost.Load())
	for _, h := range k.held {
		w, ok := h.(Watched)
		if !ok {
			break
		}
		if err := w.Err(); err != nil {
			res.Lost++
			if res.Failure == "" {
				res.Failure = err.Error()
			}
		}
	}
	released := make(chan struct{})
	go func() {
		defer close(released)
		k.release()
	}()
	res.Hung = hung
	select {
	case <-released:
	case <-time.After(2*patience + time.Duration(s.Keys)*time.Millisecond/5): // two messages for each
		res.Hung++
	}
	return res, ctx.Err()
}

// kept are locks and what keeps them.
type kept struct {
	held     []Held
	renewers sync.WaitGroup
	stop     []context.CancelFunc
	lost     atomic.Int64
}

func (k *kept) take(ctx context.Context, s Spec, l Locker) error {
	renewing, stop := context.WithCancel(ctx)
	k.stop = append(k.stop, stop)
	errs := make([]error, takers)
	var wg sync.WaitGroup
	for t := range takers {
		wg.Go(func() {
			for i := t; i < s.Keys && errs[t] == nil; i += takers {
				errs[t] = k.one(ctx, renewing, s, i, l)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (k *kept) one(ctx, renewing context.Context, s Spec, i int, l Locker) error {
	h, err := l.Lock(ctx, s.name(i))
	if err != nil {
		return fmt.Errorf("taking lock %d: %w", i, err)
	}
	k.held[i] = h
	if e, ok := h.(Extender); ok {
		every := s.TTL / 3 // of s itself there would be a copy for each lock, between those of the library
		k.renewers.Go(func() { k.renew(renewing, e, every) })
	}
	return nil
}

func (k *kept) renew(ctx context.Context, e Extender, every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := e.Extend(ctx); err != nil && ctx.Err() == nil {
			k.lost.Add(1)
			return
		}
	}
}

// watch counts messages for a time, and returns those of the busiest tenth of a second.
func (k *kept) watch(ctx context.Context, d time.Duration) (busiest int64) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	last := messages.Load()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return busiest
		case <-t.C:
		}
		now := messages.Load()
		busiest, last = max(busiest, now-last), now
	}
	return busiest
}

func (k *kept) release() {
	for _, stop := range k.stop {
		stop()
	}
	k.renewers.Wait()
	var wg sync.WaitGroup
	for t := range takers {
		wg.Go(func() {
			for i := t; i < len(k.held); i += takers {
				if k.held[i] != nil {
					_ = k.held[i].Release()
				}
			}
		})
	}
	wg.Wait()
}

// crowd lets very many goroutines wait for one key that this process holds, and weighs them.
func (s Spec) crowd(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	first, err := l.Lock(ctx, s.name(0))
	if err != nil {
		return nil, err
	}
	defer func() { _ = first.Release() }()
	before, memory, running := settled(), inUse(), runtime.NumGoroutine()
	waiting, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range s.Goroutines {
		wg.Go(func() {
			if h, err := l.Lock(waiting, s.name(0)); err == nil {
				_ = h.Release()
			}
		})
	}
	defer wg.Wait()
	defer leave()
	if err := ready(); err != nil {
		return nil, err
	}
	pause(ctx, time.Second) // all of them have come by then, and the first has asked
	sent := messages.Load()
	pause(ctx, s.Window)
	return &Result{
		Elapsed: s.Window, Messages: messages.Load() - sent, Resident: resident() - before,
		Bytes: uint64(max(inUse()-memory, 0)), Goroutines: runtime.NumGoroutine() - running,
	}, ctx.Err()
}

// settled is resident when the collector has made what it keeps for itself from its first cycles on: some
// 0.4 MB, which are no lock's.
func settled() int64 {
	last := resident()
	for range 16 {
		now := resident()
		if now <= last {
			break
		}
		last = now
	}
	return last
}

// inUse is the heap that is reachable.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident is the memory that the system counts as ours, after what is free was given back to it;
// where it cannot be asked, what the runtime has of it.
func resident() int64 {
	debug.FreeOSMemory()
	if n, ok := residentBytes(); ok {
		return n
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

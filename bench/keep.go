package main

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

// takers is how many goroutines take the locks to be kept.
const takers = 64

// keep takes a lock on every key and keeps all of them for the window. If the
// library leaves renewal to its user, a goroutine per lock renews it every
// third of the TTL.
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
	k.watch(ctx, s.TTL/3) // wait a full period, so that renewals have reached their usual rhythm
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
	case <-time.After(2*patience + time.Duration(s.Keys)*time.Millisecond/5):
		// time for two messages per lock
		res.Hung++
	}
	return res, ctx.Err()
}

// kept are held locks and the goroutines that renew them.
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
		every := s.TTL / 3 // capturing s would copy it for each lock and count as the library's memory
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

// watch counts messages for d and returns the number in the busiest tenth of a
// second.
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

// crowd lets many goroutines wait for one key that this process holds, and
// measures their memory.
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
	pause(ctx, time.Second) // by then all goroutines wait, and the first has asked the server
	sent := messages.Load()
	pause(ctx, s.Window)
	return &Result{
		Elapsed: s.Window, Messages: messages.Load() - sent, Resident: resident() - before,
		Bytes: uint64(max(inUse()-memory, 0)), Goroutines: runtime.NumGoroutine() - running,
	}, ctx.Err()
}

// settled returns resident after the garbage collector has allocated what it
// keeps from its first cycles on: about 0.4 MB, which no lock caused.
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

// inUse returns the size of the reachable heap, in bytes.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// resident returns the process's resident memory in bytes, after returning free
// memory to the system. If the system does not tell, it returns what the
// runtime has obtained.
func resident() int64 {
	debug.FreeOSMemory()
	if n, ok := residentBytes(); ok {
		return n
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// hold takes a lock on every key and waits to be killed. It pauses between the
// keys, so that they do not expire together.
func (s Spec) hold(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	for i := range s.Keys {
		held, err := l.Lock(ctx, s.name(i))
		if err != nil {
			return nil, fmt.Errorf("taking lock %d: %w", i, err)
		}
		defer func() { _ = held.Release() }() // if the process is told to end instead of being killed
		pause(ctx, s.Rest)
	}
	if err := ready(); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// inherit waits for every key, each in a goroutine, and reports when it
// acquired each.
func (s Spec) inherit(ctx context.Context, l Locker, ready func() error) (*Result, error) {
	few := s
	few.Goroutines = s.Keys
	if _, err := few.warm(ctx, l); err != nil {
		return nil, err
	}
	if err := ready(); err != nil {
		return nil, err
	}
	sent := messages.Load()
	ctx, cancel := window(ctx, s.Window)
	defer cancel()
	res := &Result{Held: make([]int64, s.Keys)}
	errs := make([]error, s.Keys)
	var wg sync.WaitGroup
	for i := range s.Keys {
		wg.Go(func() {
			var h Held
			for h == nil && ctx.Err() == nil {
				h, errs[i] = l.Lock(ctx, s.name(i))
			}
			if res.Held[i] = time.Now().UnixNano(); errs[i] == nil {
				_ = h.Release()
			}
		})
	}
	wg.Wait()
	res.Messages = messages.Load() - sent
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("inheriting lock %d: %w", i, err)
		}
	}
	return res, nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Two regions make the job of one tick. One of them works it, and fails. River
// tries it again there: it is snoozed while the key is taken, which counts as
// no attempt, and worked when the key is free.
func TestOneRegionWorksTheJob(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	events := make(chan *river.Event)
	var worked atomic.Int32
	var regions sync.WaitGroup
	for _, name := range []string{"east", "west"} {
		r := region{redis: s.URL(), database: filepath.Join(t.TempDir(), name), every: time.Hour,
			report: func(context.Context) error {
				if worked.Add(1) == 1 {
					return errors.New("the first attempt fails")
				}
				return nil
			},
			heard: func(e *river.Event) {
				select {
				case events <- e:
				case <-ctx.Done():
				}
			}}
		regions.Go(func() {
			if err := r.run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
				stop()
			}
		})
	}
	attempts := map[int]int{} // of the jobs that were completed
	for len(attempts) < 2 {
		select {
		case e := <-events:
			switch e.Kind {
			case river.EventKindJobCompleted:
				attempts[e.Job.Attempt]++
			case river.EventKindJobSnoozed:
				if len(attempts) > 0 { // the other region has found the key taken
					s.Do("DEL", "river:report")
				}
			}
		case <-ctx.Done():
			t.Fatal("a region has ended")
		}
	}
	if n := worked.Load(); n != 2 || attempts[1] != 1 || attempts[2] != 1 {
		t.Errorf("worked %d times; jobs completed by attempt: %v", n, attempts)
	}
	stop()
	regions.Wait()
}

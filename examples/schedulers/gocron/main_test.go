// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// The schedulers of an experiment are processes of this program, which is the
// test's own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--locker" {
		if os.Getenv(byHand) == "" {
			main()
		} else if err := step(parse()); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// Three schedulers with clocks 2 s apart, in virtual time. The same ticks
// without a floor show what the floor is for.
func TestJobRunsOnceATickWithFloor(t *testing.T) {
	e := experiment{ticks: 1000, period: time.Minute, apart: 2 * time.Second, job: 10 * time.Millisecond,
		floor: 8 * time.Second}
	for _, k := range lockers {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := virtually(t, e, k)
				want := 3
				if k.name == "floor" {
					want = 1
				}
				for tick := range e.ticks {
					if runs[tick] != want {
						t.Errorf("tick %d: %d runs, want %d", tick, runs[tick], want)
					}
				}
				if total := sum(runs); total != want*e.ticks {
					t.Errorf("%d runs, want %d", total, want*e.ticks)
				}
			})
		})
	}
}

// virtually runs the experiment with one kind of lock in a bubble, and returns
// how often the job ran at each tick.
func virtually(t *testing.T, e experiment, k kind) map[int]int {
	w := redistest.Bubble(t)
	start := time.Now().Add(time.Minute)
	var mu sync.Mutex
	runs := map[int]int{}
	var all sync.WaitGroup
	for _, offset := range []time.Duration{-e.apart, 0, e.apart} {
		pool := w.Pool()
		backend, err := modern.New(pool, modern.Config{})
		if err != nil {
			t.Fatal(err)
		}
		client, err := lock.New(backend, lock.Config{Clock: w.Clock(redistest.Skew{Offset: offset})})
		if err != nil {
			t.Fatal(err)
		}
		locker, task, err := k.open(e, client, pool)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer client.Close(t.Context())
			s := scheduler{e, k.name, offset, start}
			err := s.run(t.Context(), apart{clockwork.NewRealClock(), offset}, locker, task, func(tick int) {
				mu.Lock()
				defer mu.Unlock()
				runs[tick]++
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return runs
}

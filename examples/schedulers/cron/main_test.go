// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	locks "github.com/getsetlock/getsetlock/adapters/cron"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func newClient(t *testing.T, w *redistest.World) *lock.Client {
	t.Helper()
	backend, err := modern.New(w.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{Clock: w.Clock(redistest.Skew{})})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A zone two seconds ahead starts the jobs of a machine as a clock does that is
// two seconds ahead.
func TestProgramReportsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		// A bubble begins at a full hour, when the machines are in two minutes.
		time.Sleep(30 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var runs atomic.Int32
		var machines sync.WaitGroup
		for _, ahead := range []int{-2, 0, 2} {
			client := newClient(t, w)
			machines.Go(func() {
				err := run(ctx, client, time.FixedZone("ahead", ahead), func(context.Context) error {
					runs.Add(1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		machines.Wait()
		if n := runs.Load(); n != 60 {
			t.Errorf("%d runs in an hour", n)
		}
	})
}

// said counts what a job reports.
type said struct {
	skipped int
	failed  error
}

func (s *said) Info(string, ...any)                 { s.skipped++ }
func (s *said) Error(err error, _ string, _ ...any) { s.failed = err }

func TestWrappedJobRunsOnceAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		var log said
		client := newClient(t, w)
		defer client.Close(t.Context())
		jobs, err := locks.New(client, tick.Config{Period: time.Minute, Spread: time.Second}, &log)
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		job := cron.NewChain(jobs.Once("wrapped")).Then(cron.FuncJob(func() { runs++ }))
		job.Run()
		job.Run()
		if runs != 1 || log.skipped != 1 || log.failed != nil {
			t.Errorf("%d runs, %+v", runs, log)
		}
		late := errors.New("too late")
		jobs.Func(t.Context(), "failing", func(context.Context) error { return late }).Run()
		if !errors.Is(log.failed, late) {
			t.Errorf("the log has %v", log.failed)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	locks "github.com/getsetlock/getsetlock/adapters/gocron"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func newClient(t *testing.T, w *redistest.World, clock lock.Clock) *lock.Client {
	t.Helper()
	backend, err := modern.New(w.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{TTL: 10 * time.Second, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// once runs a task at once, by a scheduler with these options, and returns the
// task's error.
func once(t *testing.T, task gocron.Task, options ...gocron.SchedulerOption) error {
	t.Helper()
	s, err := gocron.NewScheduler(options...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	_, err = s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task, gocron.WithName("report"),
		gocron.WithEventListeners(
			gocron.AfterJobRuns(func(uuid.UUID, string) { done <- nil }),
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { done <- err })))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	err = <-done
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	return err
}

// A process that was stopped for two TTLs checks its task's context before any
// timer has fired. Another process has had the key meanwhile.
func TestStoppedHolderFindsItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		client, other := newClient(t, w, clock), newClient(t, w, w.Clock(redistest.Skew{}))
		defer client.Close(t.Context())
		defer other.Close(t.Context())
		locker, err := locks.NewLocker(client, tick.Config{Period: time.Minute, Spread: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = once(t, locker.Task(func(ctx context.Context) error {
			clock.Freeze()
			defer clock.Thaw()
			time.Sleep(20 * time.Second)
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("the context of the stopped task: %v", ctx.Err())
			}
			next, err := other.TryAcquire(t.Context(), "gocron:report")
			if err != nil {
				return err
			}
			return next.Release()
		}), gocron.WithDistributedLocker(locker))
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("gocron reports %v", err)
		}
	})
}

func TestStoppedLeaderFindsItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		client, idle := newClient(t, w, clock), newClient(t, w, w.Clock(redistest.Skew{}))
		defer client.Close(t.Context())
		defer idle.Close(t.Context())
		ctx, resign := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		leader, follower := locks.NewElector(client, "leader"), locks.NewElector(idle, "leader")
		go func() { ended <- leader.Run(ctx) }()
		synctest.Wait()
		go func() { ended <- follower.Run(ctx) }()
		synctest.Wait()
		if err := leader.IsLeader(ctx); err != nil {
			t.Error(err)
		}
		if err := follower.IsLeader(ctx); !errors.Is(err, locks.ErrNotLeader) {
			t.Errorf("the second process: %v", err)
		}
		err := once(t, leader.Task(func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("the leader's task began with %v", ctx.Err())
			}
			clock.Freeze()
			time.Sleep(20 * time.Second)
			if ctx.Err() == nil {
				t.Error("the context of the stopped task lives")
			}
			if err := follower.IsLeader(ctx); err != nil {
				t.Errorf("the second process after the first was stopped: %v", err)
			}
			clock.Thaw()
			<-ctx.Done()
			return context.Cause(ctx)
		}), gocron.WithDistributedElector(leader))
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("gocron reports %v", err)
		}
		resign()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

func TestTaskRefusesToRunWithoutItsLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, redistest.Bubble(t), nil)
		defer client.Close(t.Context())
		locker, err := locks.NewLocker(client, tick.Config{Period: time.Minute, Spread: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ran := func(context.Context) error { t.Error("the job ran without a lock"); return nil }
		if err := once(t, locker.Task(ran)); err == nil {
			t.Error("gocron reports nothing")
		}
	})
}

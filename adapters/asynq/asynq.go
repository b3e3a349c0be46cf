// SPDX-License-Identifier: Apache-2.0

// Package asynq runs the periodic tasks of asynq once, and tasks with one name
// one at a time.
//
// asynq wants one scheduler. Several make each task several times; with one,
// its machine may fail. So run [Schedule] on all machines, which runs a
// scheduler on one of them:
//
//	err := locks.Schedule(ctx, client, "scheduler", func() (*asynq.Scheduler, error) {
//		s := asynq.NewScheduler(redis, nil)
//		_, err := s.Register("* * * * *", asynq.NewTask("report", nil))
//		return s, err
//	})
//
// When the leader changes, a task may be made twice, since the clock of the
// next leader may be behind. The handlers are where that is mended:
//
//	jobs, err := locks.New(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second})
//	mux.Handle("report", jobs.Once(handler))
//
// The spread counts the time that a task waits in its queue.
package asynq

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lead"
	"github.com/getsetlock/getsetlock/lock"
)

// Schedule campaigns for key. While this process leads, it runs the scheduler
// that start makes; start is called for each leadership, since a scheduler
// cannot be started again. Schedule returns when ctx ends, with its cause, or
// start fails.
func Schedule(ctx context.Context, client *lock.Client, key string,
	start func() (*asynq.Scheduler, error)) error {
	return lead.Run(ctx, client, key, func(ctx context.Context) error {
		s, err := start()
		if err == nil {
			err = s.Start()
		}
		if err != nil {
			return fmt.Errorf("asynq: the scheduler did not start: %w", err)
		}
		defer s.Shutdown()
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// Jobs makes handlers of periodic tasks.
type Jobs struct{ jobs *tick.Jobs }

// New returns Jobs. Its errors are those of [tick.New].
func New(client *lock.Client, cfg tick.Config) (*Jobs, error) {
	jobs, err := tick.New(client, "asynq", cfg)
	if err != nil {
		return nil, err
	}
	return &Jobs{jobs}, nil
}

// Once is an asynq.MiddlewareFunc for periodic tasks: of all tasks of one type,
// one is handled at each tick, and the others are done without being handled.
// Its context ends with the lock. A task that is tried again is no duplicate:
// while the key is taken, it fails, so that asynq tries it once more.
func (j *Jobs) Once(h asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		err := j.jobs.Do(ctx, t.Type(), func(ctx context.Context) error { return h.ProcessTask(ctx, t) })
		retried, _ := asynq.GetRetryCount(ctx)
		if errors.Is(err, lock.ErrHeld) && retried == 0 {
			return nil
		}
		return err
	})
}

// Unique is an asynq.MiddlewareFunc: tasks for which name returns the same key
// are handled one at a time, by whatever worker. A task waits for the key as
// long as the Wait of client. If the key is still taken then, the task fails
// with [lock.ErrWaitEnded] or [lock.ErrHeld], and asynq tries it again. To keep
// such failures from counting, let asynq.Config.IsFailure return false for
// them.
func Unique(client *lock.Client, name func(*asynq.Task) string) asynq.MiddlewareFunc {
	return func(h asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			return client.Do(ctx, name(t), func(ctx context.Context) error { return h.ProcessTask(ctx, t) })
		})
	}
}

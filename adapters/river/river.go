// SPDX-License-Identifier: Apache-2.0

// Package river runs the periodic jobs of River once, and jobs with one name
// one at a time.
//
// The clients of one database elect a leader by themselves, which inserts
// periodic jobs. These middlewares are for several databases, such as one a
// region, whose workers share one lock:
//
//	once, err := locks.Once(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second})
//	…
//	func (w *ReportWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
//		return []rivertype.WorkerMiddleware{once}
//	}
//
// The spread counts the time that a job waits in its queue. A middleware of
// River's Config is called for the jobs of all kinds.
package river

import (
	"context"
	"errors"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
)

// Once returns a middleware for periodic jobs: of all jobs of one kind, one is
// worked at each tick, and the others are completed without being worked. The
// job's context ends with the lock. A job that is tried again is no duplicate:
// while the key is taken, it is snoozed for a second. The errors are those of
// [tick.New].
func Once(client *lock.Client, cfg tick.Config) (rivertype.WorkerMiddleware, error) {
	jobs, err := tick.New(client, "river", cfg)
	if err != nil {
		return nil, err
	}
	return middleware(func(ctx context.Context, job *rivertype.JobRow, work body) error {
		err := jobs.Do(ctx, job.Kind, work)
		if errors.Is(err, lock.ErrHeld) && job.Attempt <= 1 {
			return nil
		}
		return snoozed(err, time.Second)
	}), nil
}

// Unique returns a middleware: jobs for which name returns the same key are
// worked one at a time, by whatever worker. A job waits for the key as long as
// the Wait of client. If the key is still taken then, the job is snoozed, which
// counts as no attempt.
func Unique(client *lock.Client, snooze time.Duration,
	name func(*rivertype.JobRow) string) rivertype.WorkerMiddleware {
	return middleware(func(ctx context.Context, job *rivertype.JobRow, work body) error {
		return snoozed(client.Do(ctx, name(job), work), snooze)
	})
}

// snoozed lets River try a job again that found its key taken.
func snoozed(err error, d time.Duration) error {
	if errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrWaitEnded) {
		return &rivertype.JobSnoozeError{Duration: d}
	}
	return err
}

// body works a job. It is an alias, as River's interface wants a plain func.
type body = func(context.Context) error

type middleware func(context.Context, *rivertype.JobRow, body) error

// IsMiddleware marks it as what it is.
func (middleware) IsMiddleware() bool { return true }

func (m middleware) Work(ctx context.Context, job *rivertype.JobRow, work body) error {
	return m(ctx, job, work)
}

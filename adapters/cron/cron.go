// SPDX-License-Identifier: Apache-2.0

// Package cron runs the jobs of robfig/cron v3 once a tick on one of several
// machines.
//
//	jobs, err := locks.New(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second}, cron.DefaultLogger)
//	…
//	c := cron.New()
//	_, err = c.AddJob("* * * * *", jobs.Func(ctx, "report", report))
//	c.Start()
//
// [Jobs.Once] wraps jobs that exist. They get no context, so nothing tells them
// that the lock was lost. The schedule "@every 1m" counts from the start of
// its process: such jobs start at different times on each machine, and no
// Spread covers that.
package cron

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
)

// Jobs makes jobs that run once a tick.
type Jobs struct {
	jobs *tick.Jobs
	log  cron.Logger
}

// New returns Jobs that report to log: by Info that another machine runs a job
// or has run it, and by Error what went wrong. The errors are those of
// [tick.New].
func New(client *lock.Client, cfg tick.Config, log cron.Logger) (*Jobs, error) {
	jobs, err := tick.New(client, "cron", cfg)
	if err != nil {
		return nil, err
	}
	return &Jobs{jobs, log}, nil
}

// Once is a cron.JobWrapper: of all jobs with this name on all machines, one
// runs at each tick.
//
//	cron.NewChain(jobs.Once("report")).Then(job)
func (j *Jobs) Once(name string) cron.JobWrapper {
	return func(job cron.Job) cron.Job {
		return j.Func(context.Background(), name, func(context.Context) error {
			job.Run()
			return nil
		})
	}
}

// Func is a job that runs fn. Its context ends with ctx and with the lock.
func (j *Jobs) Func(ctx context.Context, name string, fn func(context.Context) error) cron.Job {
	return cron.FuncJob(func() {
		switch err := j.jobs.Do(ctx, name, fn); {
		case errors.Is(err, lock.ErrHeld):
			j.log.Info("another machine runs the job or has run it", "job", name)
		case err != nil:
			j.log.Error(err, "the job failed", "job", name)
		}
	})
}

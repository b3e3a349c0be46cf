// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// scheduler is one process of an experiment.
type scheduler struct {
	experiment
	locker string
	offset time.Duration // of its clock
	start  time.Time     // the first tick
}

// process runs the scheduler by a clock, and calls ran with the number of each
// tick at which it runs the job.
func (s scheduler) process(ctx context.Context, clock clockwork.Clock, ran func(tick int)) error {
	pool, err := redisconn.Open(ctx, s.redis, redisconn.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	backend, err := modern.New(pool, modern.Config{})
	if err != nil {
		return err
	}
	client, err := lock.New(backend, lock.Config{TTL: max(10*time.Second, s.floor), Clock: clock})
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	kind, err := lockerNamed(s.locker)
	if err != nil {
		return err
	}
	locker, task, err := kind.open(s.experiment, client, pool)
	if err != nil {
		return err
	}
	return s.run(ctx, clock, locker, task, ran)
}

// run runs the job at each tick at which locker lets it.
func (s scheduler) run(ctx context.Context, clock clockwork.Clock, locker gocron.Locker, task tasks,
	ran func(tick int)) error {
	cron, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithClock(clock))
	if err != nil {
		return err
	}
	job := func(ctx context.Context) error {
		ran(int((clock.Now().Sub(s.start) + s.period/2) / s.period))
		select {
		case <-time.After(s.job):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	_, err = cron.NewJob(gocron.DurationJob(s.period), task(job), gocron.WithName("report "+s.locker),
		gocron.WithStartAt(gocron.WithStartDateTime(s.start)))
	if err != nil {
		return err
	}
	cron.Start()
	end := s.start.Add(time.Duration(s.ticks)*s.period - s.period/2)
	select {
	case <-clock.After(end.Sub(clock.Now())):
	case <-ctx.Done():
	}
	return cron.Shutdown()
}

// apart is a clock that differs from the machine's.
type apart struct {
	clockwork.Clock
	offset time.Duration
}

func (a apart) Now() time.Time                  { return a.Clock.Now().Add(a.offset) }
func (a apart) Since(t time.Time) time.Duration { return a.Now().Sub(t) }
func (a apart) Until(t time.Time) time.Duration { return t.Sub(a.Now()) }

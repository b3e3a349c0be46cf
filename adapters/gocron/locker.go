// SPDX-License-Identifier: Apache-2.0

// Package gocron runs the jobs of gocron v2 once a tick on one of several
// machines. Most programs need [NewLocker]:
//
//	locker, err := locks.NewLocker(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second})
//	…
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	…
//	_, err = s.NewJob(gocron.CronJob("* * * * *", false), locker.Task(report), gocron.WithName("report"))
//	s.Start()
//
// Jobs must start at times of the clock, as those of CronJob do. A DurationJob
// counts from the start of its process; give it gocron.WithStartAt.
//
// [Locker.Task] gives the job a context that ends with the lock. Tasks made by
// gocron.NewTask are locked too, but nothing tells them that the lock was lost.
//
// An [Elector] lets one machine run all jobs. When the leader changes, a tick
// may be run twice, since its next leader's clock may be behind: a Locker's
// floor prevents that.
package gocron

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
)

// Locker is a gocron.Locker: the machine that gets a job's key runs the job,
// and the key stays taken until the other machines have started too.
type Locker struct {
	jobs *tick.Jobs
	held sync.Map // *lock.Lease of running jobs, by the context that gocron gives them
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker. Its errors are those of [tick.New].
func NewLocker(client *lock.Client, cfg tick.Config) (*Locker, error) {
	jobs, err := tick.New(client, "gocron", cfg)
	if err != nil {
		return nil, err
	}
	return &Locker{jobs: jobs}, nil
}

// Lock is called by gocron before a job, with the job's name. If another
// machine runs it or has run it, the error wraps [lock.ErrHeld].
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lease, err := l.jobs.Begin(ctx, name)
	if err != nil {
		return nil, err
	}
	l.held.Store(ctx, lease)
	return unlock(func() error {
		l.held.Delete(ctx)
		return lease.Release()
	}), nil
}

// unlock is called by gocron after the job. It ignores gocron's context, which
// has ended if the scheduler was shut down.
type unlock func() error

func (u unlock) Unlock(context.Context) error { return u() }

// Task is a job of gocron whose context ends with its lock, too. If the lock
// was lost, the error that gocron reports wraps [lock.ErrLost], joined with
// fn's.
func (l *Locker) Task(fn func(context.Context) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		found, ok := l.held.Load(ctx)
		if !ok {
			return errors.New("gocron: the job runs without the Locker that made its Task; give that to the scheduler by WithDistributedLocker, or to the job by WithDistributedJobLocker")
		}
		lease := found.(*lock.Lease)
		err := fn(lease.Context(ctx))
		if lost := lease.Err(); lost != nil && !errors.Is(err, lost) {
			err = errors.Join(err, lost)
		}
		return err
	})
}

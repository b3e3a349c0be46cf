// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	redigolib "github.com/gomodule/redigo/redis"

	locks "github.com/getsetlock/getsetlock/adapters/gocron"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
)

// tasks makes a task of gocron of a job.
type tasks func(job func(context.Context) error) gocron.Task

func plainTask(job func(context.Context) error) gocron.Task { return gocron.NewTask(job) }

// kind is a way to lock a job.
type kind struct {
	name, says string
	open       func(experiment, *lock.Client, *redigolib.Pool) (gocron.Locker, tasks, error)
}

var lockers = []kind{
	{"redsync", "redsync", openRedsync},
	{"plain", "getsetlock without a floor", openPlain},
	{"floor", "getsetlock with a floor", openFloor},
}

func lockerNamed(name string) (kind, error) {
	for _, k := range lockers {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("there is no locker %q", name)
}

func openFloor(e experiment, client *lock.Client, _ *redigolib.Pool) (gocron.Locker, tasks, error) {
	locker, err := locks.NewLocker(client, tick.Config{Period: e.period, Spread: 2 * e.apart, Floor: e.floor})
	if err != nil {
		return nil, nil, err
	}
	return locker, locker.Task, nil
}

// plain gives the key back as soon as the job is done.
type plain struct{ client *lock.Client }

func openPlain(_ experiment, client *lock.Client, _ *redigolib.Pool) (gocron.Locker, tasks, error) {
	return plain{client}, plainTask, nil
}

func (p plain) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	lease, err := p.client.TryAcquire(ctx, "plain:"+name)
	if err != nil {
		return nil, err
	}
	return unlock(lease.Release), nil
}

// byRedsync locks as gocron's own locker for redsync does.
type byRedsync struct{ *redsync.Redsync }

func openRedsync(_ experiment, _ *lock.Client, pool *redigolib.Pool) (gocron.Locker, tasks, error) {
	return byRedsync{redsync.New(redigo.NewPool(pool))}, plainTask, nil
}

func (r byRedsync) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	mutex := r.NewMutex("redsync:"+name, redsync.WithTries(1), redsync.WithExpiry(8*time.Second))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return unlock(func() error {
		_, err := mutex.Unlock()
		return err
	}), nil
}

type unlock func() error

func (u unlock) Unlock(context.Context) error { return u() }

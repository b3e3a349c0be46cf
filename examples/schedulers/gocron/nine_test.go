// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	locks "github.com/getsetlock/getsetlock/adapters/gocron"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

func everyMinute(client *lock.Client, report func(context.Context) error) (gocron.Scheduler, error) {
	// doc: nine
	locker, err := locks.NewLocker(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	_, err = s.NewJob(gocron.CronJob("* * * * *", false), locker.Task(report), gocron.WithName("report"))
	// doc: end
	return s, err
}

func TestNineLinesRunJobOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		var runs atomic.Int32
		var machines sync.WaitGroup
		for range 3 {
			client := newClient(t, w, w.Clock(redistest.Skew{}))
			s, err := everyMinute(client, func(context.Context) error { runs.Add(1); return nil })
			if err != nil {
				t.Fatal(err)
			}
			machines.Go(func() {
				defer client.Close(t.Context())
				s.Start()
				time.Sleep(time.Hour + 30*time.Second)
				if err := s.Shutdown(); err != nil {
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

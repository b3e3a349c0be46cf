// SPDX-License-Identifier: Apache-2.0

//go:build real

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	locks "github.com/getsetlock/getsetlock/adapters/asynq"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// Two machines run the program. One makes tasks until it ends, and then the
// other does.
func TestSchedulerMovesToAnotherMachine(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Options{})
	handled := make(chan struct{}, 100)
	leaders := make(chan context.CancelFunc, 2)
	var machines sync.WaitGroup
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		m := machine{redis: s.URL(), every: time.Second,
			report: func(context.Context, *asynq.Task) error { handled <- struct{}{}; return nil },
			leads:  func() { leaders <- cancel }}
		machines.Go(func() {
			if err := m.run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	for range 2 {
		end := <-leaders
		<-handled
		end()
	}
	machines.Wait()
	if len(leaders) != 0 {
		t.Error("two machines led at the same time")
	}
}

// handling is a server of asynq that handles tasks until the test ends, and
// tries failed ones again at once.
func handling(t *testing.T, h func(*lock.Client) asynq.Handler) *asynq.Client {
	t.Helper()
	s := redistest.Real(t, redistest.Options{})
	client, err := modern.Open(t.Context(), s.URL(), modern.Options{Lock: lock.Config{Wait: -1}})
	if err != nil {
		t.Fatal(err)
	}
	redis := asynq.RedisClientOpt{Addr: s.Addr()}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 20 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 20 * time.Millisecond }})
	if err := server.Start(h(client)); err != nil {
		t.Fatal(err)
	}
	tasks := asynq.NewClient(redis)
	t.Cleanup(func() {
		server.Shutdown()
		_ = client.Close(context.Background())
		_ = tasks.Close()
	})
	return tasks
}

// The second of two tasks of one tick is done without being handled. A task
// that failed is handled again, although its own run has taken the key.
func TestDuplicateIsDoneAndRetryIsNot(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32 // how often each task was handled
	began, done := make(chan struct{}), make(chan string, 2)
	tasks := handling(t, func(client *lock.Client) asynq.Handler {
		jobs, err := locks.New(client, tick.Config{Period: 8 * time.Second, Spread: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		once := jobs.Once(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			if string(task.Payload()) == "second" {
				second.Add(1)
				return nil
			}
			if first.Add(1) == 1 {
				close(began)
				return errors.New("fails the first time")
			}
			return nil
		}))
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := once.ProcessTask(ctx, task)
			if err == nil {
				done <- string(task.Payload())
			}
			return err
		})
	})
	for _, payload := range []string{"first", "second"} {
		_, err := tasks.Enqueue(asynq.NewTask("report", []byte(payload)), asynq.MaxRetry(1000))
		if err != nil {
			t.Fatal(err)
		}
		<-began
	}
	for range 2 {
		<-done
	}
	if first.Load() != 2 || second.Load() != 0 {
		t.Errorf("the first task was handled %d times, its duplicate %d times", first.Load(), second.Load())
	}
}

func TestUniqueTasksRunOneAtATime(t *testing.T) {
	t.Parallel()
	var running, done sync.WaitGroup
	var at atomic.Int32
	running.Add(1)
	done.Add(2)
	refused := make(chan error, 1000)
	tasks := handling(t, func(client *lock.Client) asynq.Handler {
		unique := locks.Unique(client, func(task *asynq.Task) string {
			return "customer:" + string(task.Payload())
		})
		inner := unique(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			if at.Add(1) > 1 {
				t.Error("two tasks of one customer at the same time")
			}
			running.Wait()
			at.Add(-1)
			done.Done()
			return nil
		}))
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := inner.ProcessTask(ctx, task)
			if err != nil {
				refused <- err
			}
			return err
		})
	})
	for range 2 {
		if _, err := tasks.Enqueue(asynq.NewTask("bill", []byte("7")), asynq.MaxRetry(1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-refused; !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the second task: %v", err)
	}
	running.Done()
	done.Wait()
}

// SPDX-License-Identifier: Apache-2.0

// Command asynq makes a periodic task on one of all machines on which it runs,
// and handles it once, on whichever machine.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/hibiken/asynq"

	locks "github.com/getsetlock/getsetlock/adapters/asynq"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/modern"
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "address of a Redis server")
	every := flag.Duration("every", time.Minute, "the period of the task")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	m := machine{redis: *redis, every: *every, report: report}
	if err := m.run(ctx); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func report(context.Context, *asynq.Task) error {
	log.Print("reported")
	return nil
}

type machine struct {
	redis  string
	every  time.Duration
	report asynq.HandlerFunc
	leads  func() // called when this machine begins to make tasks; nil: nothing
}

// run makes and handles tasks until ctx ends.
func (m machine) run(ctx context.Context) error {
	client, err := modern.Open(ctx, m.redis, modern.Options{})
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	redis, err := asynq.ParseRedisURI(m.redis)
	if err != nil {
		return err
	}
	jobs, err := locks.New(client, tick.Config{Period: m.every, Spread: m.every / 5})
	if err != nil {
		return err
	}
	mux := asynq.NewServeMux()
	mux.Handle("report", jobs.Once(m.report))
	server := asynq.NewServer(redis, asynq.Config{LogLevel: asynq.ErrorLevel})
	if err := server.Start(mux); err != nil {
		return err
	}
	defer server.Shutdown()
	return locks.Schedule(ctx, client, "scheduler", func() (*asynq.Scheduler, error) {
		if m.leads != nil {
			m.leads()
		}
		s := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.ErrorLevel})
		_, err := s.Register("@every "+m.every.String(), asynq.NewTask("report", nil))
		return s, err
	})
}

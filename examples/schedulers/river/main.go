// SPDX-License-Identifier: Apache-2.0

// SQLite takes a minute to compile for the race detector.
//go:build !race

// Command river works a periodic job of River in one region. Each region has a
// database of its own, and so makes the job by itself; one of them works it.
//
// The database is SQLite here, so that the program runs anywhere. Regions with
// PostgreSQL differ in the driver alone: riverpgxv5 in place of riversqlite.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
	_ "modernc.org/sqlite"

	locks "github.com/getsetlock/getsetlock/adapters/river"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "address of the Redis server of all regions")
	database := flag.String("database", "region.db", "the region's own database")
	every := flag.Duration("every", time.Minute, "the period of the job")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := region{redis: *redis, database: *database, every: *every, report: report}
	if err := r.run(ctx); !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func report(context.Context) error {
	log.Print("reported")
	return nil
}

type region struct {
	redis, database string
	every           time.Duration
	report          func(context.Context) error
	heard           func(*river.Event) // called with what became of a job; nil: nothing
}

// job is the periodic job. It has no arguments.
type job struct{}

func (job) Kind() string { return "report" }

// worker works the job, if no other region does at this tick.
type worker struct {
	river.WorkerDefaults[job]
	once   rivertype.WorkerMiddleware
	report func(context.Context) error
}

func (w *worker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{w.once}
}

func (w *worker) Work(ctx context.Context, _ *river.Job[job]) error { return w.report(ctx) }

// run makes and works jobs until ctx ends.
func (r region) run(ctx context.Context) error {
	client, err := modern.Open(ctx, r.redis, modern.Options{Lock: lock.Config{TTL: r.every, Wait: -1}})
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	once, err := locks.Once(client, tick.Config{Period: r.every, Spread: r.every / 5})
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", r.database)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // SQLite has one writer
	driver := riversqlite.New(db)
	tables, err := rivermigrate.New(driver, nil)
	if err == nil {
		_, err = tables.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{once: once, report: r.report})
	periodic := river.NewPeriodicJob(river.PeriodicInterval(r.every),
		func() (river.JobArgs, *river.InsertOpts) { return job{}, nil },
		&river.PeriodicJobOpts{RunOnStart: true})
	jobs, err := river.NewClient(driver, &river.Config{Workers: workers,
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		PeriodicJobs: []*river.PeriodicJob{periodic}})
	if err != nil {
		return err
	}
	events, end := jobs.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed,
		river.EventKindJobSnoozed)
	defer end()
	if err := jobs.Start(ctx); err != nil {
		return err
	}
	for {
		select {
		case e := <-events:
			if r.heard != nil {
				r.heard(e)
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), jobs.Stop(context.WithoutCancel(ctx)))
		}
	}
}

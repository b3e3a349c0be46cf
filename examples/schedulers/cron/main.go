// SPDX-License-Identifier: Apache-2.0

// Command cron runs a job of robfig/cron each minute, once for all machines on
// which it runs.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/robfig/cron/v3"

	locks "github.com/getsetlock/getsetlock/adapters/cron"
	"github.com/getsetlock/getsetlock/adapters/tick"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "address of a Redis server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	client, err := modern.Open(ctx, *redis, modern.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, client, time.Local, report); err != nil {
		log.Fatal(err)
	}
}

func report(context.Context) error {
	log.Print("reported")
	return nil
}

// run runs report each minute until ctx ends.
func run(ctx context.Context, client *lock.Client, zone *time.Location,
	report func(context.Context) error) error {
	defer client.Close(context.WithoutCancel(ctx))
	jobs, err := locks.New(client, tick.Config{Period: time.Minute, Spread: 5 * time.Second},
		cron.DefaultLogger)
	if err != nil {
		return err
	}
	c := cron.New(cron.WithLocation(zone))
	if _, err := c.AddJob("* * * * *", jobs.Func(ctx, "report", report)); err != nil {
		return err
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done() // the job that runs
	return nil
}

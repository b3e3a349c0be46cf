// SPDX-License-Identifier: Apache-2.0

// Package tick runs a job once at each tick, on one of several machines that
// all start it. It is what the adapters to schedulers share, and serves
// schedulers that have no adapter:
//
//	jobs, err := tick.New(client, "reports", tick.Config{Period: time.Minute, Spread: 5 * time.Second})
//	…
//	for range time.Tick(time.Minute) {
//		err := jobs.Do(ctx, "daily", report) // lock.ErrHeld: another machine runs it, or has run it
//	}
//
// A lock alone does not do that. If the job is done before the last machine's
// clock says that it is time, that machine finds the key free and runs the job
// again. So the key stays taken for a floor: at least as long as the machines'
// starts for one tick lie apart, and shorter than the period.
//
// # What it does not guarantee
//
// A tick may be left out: if the machine that runs it is killed, nobody runs
// it again, and the key stays taken for the TTL of the Client. If starts lie
// further apart than Config.Floor, a tick may be run twice.
package tick

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Config says when the machines start their jobs.
type Config struct {
	// Period is the shortest time from one tick of a job to its next. Needed.
	Period time.Duration

	// Spread is the longest time between the first and the last machine's start
	// for the same tick: how far apart their clocks are, plus how much longer
	// one takes to start than another. Needed.
	Spread time.Duration

	// Floor is how long a key stays taken, from the start of its job. It is at
	// least Spread, and less than Period. Defaults to [lock.Floor] of both.
	Floor time.Duration

	// Prefix begins each key, before the name of the job. Machines that share
	// jobs need the same one. Defaults to the framework's name and a colon.
	Prefix string
}

// floor checks the times against each other.
func (c Config) floor() (time.Duration, error) {
	switch {
	case c.Floor == 0:
		return lock.Floor(c.Period, c.Spread)
	case c.Spread <= 0 || c.Floor < c.Spread:
		return 0, fmt.Errorf("Config.Floor (%v) must not be shorter than Config.Spread (%v), which must be positive: the last machine would find the key free and run the job again",
			c.Floor, c.Spread)
	case c.Floor >= c.Period:
		return 0, fmt.Errorf("Config.Floor (%v) must be shorter than Config.Period (%v): the next tick would find the key taken",
			c.Floor, c.Period)
	}
	return c.Floor, nil
}

// Jobs takes the keys of jobs. Its methods are safe for concurrent use.
type Jobs struct {
	client *lock.Client
	prefix string
}

// New returns the Jobs of a framework that locks by client. It returns an error
// if the times of cfg do not fit each other or the TTL of client, if the
// store cannot keep a key taken, or if another framework of this process has
// the same prefix: each would take the other's job for its own.
func New(client *lock.Client, framework string, cfg Config) (*Jobs, error) {
	floor, err := cfg.floor()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", framework, err)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = framework + ":"
	}
	once, err := client.With(func(c *lock.Config) { c.KeepFor, c.Wait = floor, -1 })
	if err != nil {
		return nil, fmt.Errorf("%s: the floor is %v: %w", framework, floor, err)
	}
	if other, _ := frameworks.LoadOrStore(cfg.Prefix, framework); other != framework {
		return nil, fmt.Errorf("%s: the keys of %v begin with %q already; set another Config.Prefix, since each would take the other's job for its own",
			framework, other, cfg.Prefix)
	}
	return &Jobs{once, cfg.Prefix}, nil
}

// frameworks are the names of the frameworks of this process by their prefix.
var frameworks sync.Map

// Begin takes the key of the job name for one tick. The error wraps
// [lock.ErrHeld] if another machine runs the job or has run it. Release the
// lease when the job is done: the key stays taken for the rest of the floor.
func (j *Jobs) Begin(ctx context.Context, name string) (*lock.Lease, error) {
	return j.client.TryAcquire(ctx, j.prefix+name)
}

// Do runs fn unless another machine runs the job name or has run it at this
// tick: then the error wraps [lock.ErrHeld]. It is [lock.Client.Do] otherwise:
// fn's context ends with the lease, and the error is fn's, joined with what
// went wrong with the lease.
func (j *Jobs) Do(ctx context.Context, name string, fn func(context.Context) error) error {
	return j.client.Do(ctx, j.prefix+name, fn)
}

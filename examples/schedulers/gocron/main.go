// SPDX-License-Identifier: Apache-2.0

// Command gocron counts how often a job of gocron runs that three schedulers
// start, each in a process of its own, with clocks that are apart:
//
//	go run ./examples/schedulers/gocron --redis redis://127.0.0.1:6379
//
// It does so with the lock of redsync, with that of getsetlock, and with
// adapters/gocron, which keeps a key taken for a floor.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/getsetlock/getsetlock/redisconn"
)

// experiment is what all processes of a run share.
type experiment struct {
	redis  string
	ticks  int
	period time.Duration
	apart  time.Duration // between the clocks of a scheduler and the next
	job    time.Duration // how long the job takes
	floor  time.Duration
}

// startUp is how long the processes have to start.
const startUp = 3 * time.Second

func main() {
	c := parse()
	var err error
	if c.locker != "" {
		clock := apart{clockwork.NewRealClock(), c.offset}
		err = c.process(context.Background(), clock, func(tick int) { fmt.Println(tick) })
	} else {
		err = c.print(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// parse reads the command line.
func parse() scheduler {
	var c scheduler
	e := &c.experiment
	flag.StringVar(&e.redis, "redis", "redis://127.0.0.1:6379", "address of a Redis server")
	flag.IntVar(&e.ticks, "ticks", 60, "how often the job is due")
	flag.DurationVar(&e.period, "period", time.Second, "from one tick to the next")
	flag.DurationVar(&e.apart, "apart", 200*time.Millisecond, "between the clocks of two schedulers")
	flag.DurationVar(&e.job, "job", 10*time.Millisecond, "how long the job takes")
	flag.DurationVar(&e.floor, "floor", 600*time.Millisecond, "how long the key stays taken")
	flag.StringVar(&c.locker, "locker", "", "of one scheduler; the program sets it for its children")
	flag.DurationVar(&c.offset, "offset", 0, "of one scheduler's clock")
	start := flag.Int64("start", 0, "first tick of one scheduler, in milliseconds of Unix time")
	flag.Parse()
	c.start = time.UnixMilli(*start)
	return c
}

// print runs the experiment with all lockers at the same time, and prints how
// often the job ran with each.
func (e experiment) print(ctx context.Context) error {
	// Nine processes would say nine times that no server answers.
	pool, err := redisconn.Open(ctx, e.redis, redisconn.Options{})
	if err != nil {
		return fmt.Errorf("the experiment needs a Redis server; start one, or name yours by --redis: %w", err)
	}
	defer pool.Close()
	var all sync.WaitGroup
	runs, failed := make([]map[int]int, len(lockers)), make([]error, len(lockers))
	start := time.Now().Add(startUp + e.apart)
	for i, l := range lockers {
		all.Go(func() { runs[i], failed[i] = e.count(ctx, l.name, start) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	fmt.Printf("three schedulers, clocks %v apart, a job of %v each %v, %d ticks\n\n", e.apart, e.job, e.period,
		e.ticks)
	for i, l := range lockers {
		fmt.Printf("%-32s %4d runs\n", l.says, sum(runs[i]))
	}
	return nil
}

func sum(runs map[int]int) (n int) {
	for _, k := range runs {
		n += k
	}
	return n
}

// count runs three schedulers with one kind of lock, and returns how often the
// job ran at each tick.
func (e experiment) count(ctx context.Context, locker string, start time.Time) (map[int]int, error) {
	runs, lines := map[int]int{}, make(chan string)
	failed := make(chan error)
	offsets := []time.Duration{-e.apart, 0, e.apart}
	for _, offset := range offsets {
		go func() {
			failed <- scheduler{e, locker, offset, start}.child(ctx, lines)
		}()
	}
	var errs []error
	for left := len(offsets); left > 0; {
		select {
		case line := <-lines:
			tick, err := strconv.Atoi(line)
			errs = append(errs, err)
			runs[tick]++
		case err := <-failed:
			errs = append(errs, err)
			left--
		}
	}
	return runs, errors.Join(errs...)
}

// child runs this program as one scheduler, and sends each line that it prints.
func (s scheduler) child(ctx context.Context, lines chan<- string) error {
	cmd, err := s.command(ctx)
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	for s := bufio.NewScanner(out); s.Scan(); {
		lines <- s.Text()
	}
	return cmd.Wait()
}

// command is this program as one scheduler.
func (s scheduler) command(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--locker", s.locker, "--offset", s.offset.String(),
		"--start", strconv.FormatInt(s.start.UnixMilli(), 10), "--redis", s.redis,
		"--ticks", strconv.Itoa(s.ticks), "--period", s.period.String(), "--apart", s.apart.String(),
		"--job", s.job.String(), "--floor", s.floor.String())
	cmd.Stderr = os.Stderr
	return cmd, nil
}

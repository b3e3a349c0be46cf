// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/jonboulle/clockwork"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// byHand is set in the environment of schedulers whose time the test moves.
const byHand = "TEST_MOVES_TIME"

// Three processes, whose clocks are two seconds apart from the next. The test
// moves the server's time, and tells each process when its clock shows the
// tick.
func TestThreeProcessesRunJobOnceATick(t *testing.T) {
	for _, k := range lockers {
		t.Run(k.name, func(t *testing.T) {
			w := redistest.New(t)
			e := experiment{redis: "redis://" + w.Mini.Addr(), ticks: 60, period: time.Minute,
				apart: 2 * time.Second, job: time.Millisecond, floor: 8 * time.Second}
			s := scheduler{experiment: e, locker: k.name, start: w.Now()}
			processes := []*process{start(t, s), start(t, s), start(t, s)}
			want := 3
			if k.name == "floor" {
				want = 1
			}
			for tick := range e.ticks {
				runs := 0
				for _, p := range processes {
					if p.tick(t) {
						runs++
					}
					w.Pass(e.apart)
				}
				if runs != want {
					t.Errorf("tick %d: %d runs, want %d", tick, runs, want)
				}
				w.Pass(e.period - 3*e.apart)
			}
		})
	}
}

// process is a scheduler whose time the test moves.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

func start(t *testing.T, s scheduler) *process {
	t.Helper()
	cmd, err := s.command(context.Background()) // the end of its input ends it
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), byHand+"=1")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return &process{in, bufio.NewScanner(out)}
}

// tick lets the process's clock show the next tick. It reports whether the
// process ran the job, when that is done.
func (p *process) tick(t *testing.T) bool {
	t.Helper()
	fmt.Fprintln(p.in)
	p.out.Scan()
	switch said := p.out.Text(); said {
	case "ran":
		return true
	case lock.ErrHeld.Error():
	default:
		t.Fatalf("a process says %q", said)
	}
	return false
}

// step is such a process: it moves its clock to the next tick when it reads a
// line, and prints what came of that.
func step(s scheduler) error {
	clock := stepped{clockwork.NewFakeClockAt(s.start.Add(-s.period)), make(chan struct{}, 1)}
	asked := make(chan string, 1)
	for i, k := range lockers {
		lockers[i].open = func(e experiment, c *lock.Client, p *redis.Pool) (gocron.Locker, tasks, error) {
			locker, task, err := k.open(e, c, p)
			return telling{locker, asked}, task, err
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- s.process(context.Background(), clock, func(int) {}) }()
	<-clock.armed
	lines := bufio.NewScanner(os.Stdin)
	for range s.ticks {
		if !lines.Scan() {
			return errors.New("the test has ended")
		}
		clock.Advance(s.period)
		said := <-asked
		<-clock.armed
		fmt.Println(said)
	}
	clock.Advance(s.period * 3 / 4)
	return <-failed
}

// stepped is a clock that says when gocron has set its timer.
type stepped struct {
	*clockwork.FakeClock
	armed chan struct{}
}

func (c stepped) AfterFunc(d time.Duration, f func()) clockwork.Timer {
	timer := c.FakeClock.AfterFunc(d, f)
	c.armed <- struct{}{}
	return timer
}

// telling says what came of each lock.
type telling struct {
	gocron.Locker
	asked chan<- string
}

func (l telling) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	held, err := l.Locker.Lock(ctx, name)
	switch {
	case errors.Is(err, lock.ErrHeld):
		l.asked <- lock.ErrHeld.Error()
	case err != nil:
		l.asked <- strings.ReplaceAll(err.Error(), "\n", " ")
	}
	return unlock(func() error {
		err := held.Unlock(ctx)
		l.asked <- "ran"
		return err
	}), err
}

// No server answers at that address: one process says so, before the others
// begin.
func TestMissingServerIsSaidOnce(t *testing.T) {
	err := experiment{redis: "redis://127.0.0.1:1"}.print(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "the experiment needs a Redis server") ||
		strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

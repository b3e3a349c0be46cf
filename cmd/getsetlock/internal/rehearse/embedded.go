// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// Progress says how far a rehearsal has come.
type Progress struct {
	Done    int // orders done
	Orders  int
	Virtual time.Duration // time passed in the rehearsal
}

const reportEvery = 100 * time.Millisecond

// bubbles starts the goroutine that runs what it receives in a bubble, one
// after the other.
//
// A bubble of testing/synctest exists only inside a test, and a test only under
// testing.Main, which ends the process after its last test. So its only test
// never ends.
var bubbles = sync.OnceValue(func() chan<- func(*testing.T) {
	_ = os.Unsetenv("GODEBUG") // a bubble refuses some settings of the runtime's time
	if !flag.Parsed() {
		_ = flag.CommandLine.Parse(nil) // package testing would parse the arguments as its own
	}
	jobs := make(chan func(*testing.T))
	always := func(string, string) (bool, error) { return true, nil }
	go testing.Main(always, []testing.InternalTest{{Name: "Rehearsal", F: func(t *testing.T) {
		for job := range jobs {
			synctest.Test(t, job)
		}
	}}}, nil, nil)
	return jobs
})

// inBubble runs a function in a bubble on another goroutine. Tests replace it.
var inBubble = func(job func(*testing.T)) { bubbles() <- job }

// Embedded rehearses p on a server in memory, in virtual time. It calls
// progress now and then, on the caller's goroutine. If ctx ends, the error is
// ctx's cause, and the programs end soon afterwards.
func Embedded(ctx context.Context, p Plan, progress func(Progress)) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	var current atomic.Pointer[book]
	var res *Result
	done := make(chan error, 1)
	inBubble(func(*testing.T) {
		var err error
		res, err = rehearseEmbedded(context.Background(), p, current.Store)
		done <- err
	})
	if err := attend(ctx, p, done, current.Load, stuckAfter, progress); err != nil {
		return nil, err
	}
	res.WallMS = millis(time.Since(began))
	return res, nil
}

// attend reports progress until done says how the fleet's work ended, ctx ends,
// or the rehearsal's time has stood still for that long.
func attend(ctx context.Context, p Plan, done <-chan error, current func() *book, still time.Duration,
	progress func(Progress)) error {
	stuck, tick := time.NewTimer(still), time.NewTicker(reportEvery)
	defer stuck.Stop()
	defer tick.Stop()
	for last := time.Duration(0); ; {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			if b := current(); b != nil {
				b.halted.Store(true)
			}
			return context.Cause(ctx)
		case <-stuck.C:
			return errStuck
		case <-tick.C:
			b := current()
			if b == nil {
				continue
			}
			at := Progress{Done: int(b.done.Load()), Orders: p.Acquisitions,
				Virtual: time.Duration(b.virtual.Load())}
			if at.Virtual != last {
				last = at.Virtual
				stuck.Reset(still)
			}
			progress(at)
		}
	}
}

// errStuck: see the HAZARD of this package.
var errStuck = errors.New("virtual time stands still: a goroutine is busy without end, or waits for a mutex whose owner waits for time")

// stuckAfter is how long virtual time may stand still. A bubble at work moves
// it many times a second.
var stuckAfter = time.Minute

// opening is when a rehearsal begins by its clocks. Bubbles begin in the year
// 2000, and stamps should look like today's.
var opening = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// rehearseEmbedded runs the plan on a server in memory. It is called inside a
// testing/synctest bubble, where time moves when every goroutine waits. All
// that it starts has ended when it returns.
func rehearseEmbedded(ctx context.Context, p Plan, watch func(*book)) (*Result, error) {
	time.Sleep(time.Until(opening))
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	var wires sync.WaitGroup
	defer func() {
		server.Server().Close() // after its last client: INFO reads without a lock what Close writes
		server.Close()
		wires.Wait() // for messages that are still under way
	}()
	f, err := newFleet(p, "rehearsal:", p.embeddedDialer(server, &wires))
	if err != nil {
		return nil, err
	}
	watch(f.book)
	if err := f.work(ctx); err != nil {
		return nil, err
	}
	virtual := f.now()
	res, err := f.report(ctx)
	if err != nil {
		return nil, err
	}
	res.Server, res.VirtualMS = "embedded", new(millis(virtual))
	return res, nil
}

func (p Plan) embeddedDialer(server *miniredis.Miniredis, wires *sync.WaitGroup) dialer {
	return func(ctx context.Context, who identity, n int) (redis.Conn, error) {
		pipe := func(context.Context, string, string) (net.Conn, error) {
			c, err := server.Dial()
			if err != nil || who == nobody {
				return c, err
			}
			// Two programs' messages that are sent at one instant must not
			// arrive at one instant.
			return slowly(c, wires, p.Latency, time.Duration(who.slot),
				p.rand(streamWire, who.slot<<32|who.life<<16|n)), nil
		}
		return redis.DialContext(ctx, "tcp", "embedded", redis.DialContextFunc(pipe))
	}
}

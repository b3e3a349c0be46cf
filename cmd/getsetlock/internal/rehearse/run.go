// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
	done := make(chan func() (*Result, error), 1)
	inBubble(func(*testing.T) {
		res, err := rehearseEmbedded(context.Background(), p, current.Store)
		done <- func() (*Result, error) { return res, err }
	})
	stuck := time.NewTimer(stuckAfter)
	defer stuck.Stop()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for last := time.Duration(0); ; {
		select {
		case end := <-done:
			res, err := end()
			if err == nil {
				res.WallMS = millis(time.Since(began))
			}
			return res, err
		case <-ctx.Done():
			if b := current.Load(); b != nil {
				b.halted.Store(true)
			}
			return nil, context.Cause(ctx)
		case <-stuck.C:
			return nil, errStuck
		case <-tick.C:
			b := current.Load()
			if b == nil {
				continue
			}
			at := b.progress(p)
			if at.Virtual != last {
				last = at.Virtual
				stuck.Reset(stuckAfter)
			}
			progress(at)
		}
	}
}

func (b *book) progress(p Plan) Progress {
	return Progress{Done: int(b.done.Load()), Orders: p.Acquisitions,
		Virtual: time.Duration(b.virtual.Load())}
}

// errStuck: see the HAZARD of this package.
var errStuck = errors.New("virtual time stands still: a goroutine is busy without end, or waits for a mutex whose owner waits for time")

// stuckAfter is how long virtual time may stand still. A bubble at work moves
// it many times a second.
var stuckAfter = time.Minute

package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Embedded rehearses p on a server in memory, in virtual time, in a child
// process. child is the command that makes this program call Child. Embedded
// calls progress now and then, on the caller's goroutine. If ctx ends, it ends
// the child, and the error is ctx's cause.
func Embedded(ctx context.Context, p Plan, child []string, progress func(Progress)) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := newWatchdog(cancel)
	defer watch.stop()
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, child[0], child[1:]...)
	cmd.Env = childEnv(os.Environ())
	var said words
	cmd.Stderr = &said
	// The pipe stays open after the plan: its end tells the child that this
	// process has ended.
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	switch err := cmd.Start(); {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("starting the rehearsal's own process: %w", err)
	}
	in.Write(plan) // a child that cannot read the plan ends, and hear returns an error
	res, err := hear(out, func(at Progress) {
		watch.sees(at)
		progress(at)
	})
	in.Close()
	cmd.Wait() // the result counts, and not how the child ends afterwards
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && said.String() != "":
		return nil, fmt.Errorf("the rehearsal ended early: %w; it printed: %s", err, said.String())
	case err != nil:
		return nil, fmt.Errorf("the rehearsal ended early: %w", err)
	}
	res.WallMS = millis(time.Since(began))
	return res, nil
}

// errStuck: see the HAZARD of this package.
var errStuck = errors.New("virtual time stands still: a goroutine is busy without end, or waits for a mutex whose owner waits for time")

// stuckAfter is how long virtual time may stand still. A bubble at work moves
// it many times a second.
var stuckAfter = time.Minute

// watchdog ends a rehearsal whose virtual time does not pass.
type watchdog struct {
	timer *time.Timer
	last  time.Duration
}

func newWatchdog(end context.CancelCauseFunc) *watchdog {
	return &watchdog{timer: time.AfterFunc(stuckAfter, func() { end(errStuck) })}
}

func (w *watchdog) sees(at Progress) {
	if at.Virtual != w.last {
		w.last = at.Virtual
		w.timer.Reset(stuckAfter)
	}
}

func (w *watchdog) stop() { w.timer.Stop() }

// childEnv returns env without GODEBUG: a bubble refuses some settings of the
// runtime's time, which would end the child.
func childEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "GODEBUG=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// words keeps the beginning of a child's stderr, which names its trouble, and
// drops the goroutine dump after it.
type words struct{ buf bytes.Buffer }

const mostWords = 2000

func (w *words) Write(p []byte) (int, error) {
	if room := mostWords - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (w *words) String() string { return strings.TrimSpace(w.buf.String()) }

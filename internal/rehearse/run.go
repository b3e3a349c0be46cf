package rehearse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Embedded rehearses p on a server in memory, in virtual time, in a child process: child is the
// command that makes this program call Child. progress is called now and then, on the caller's
// goroutine. When ctx ends the child is ended too, and the error is ctx's cause.
func Embedded(ctx context.Context, p Plan, child []string, progress func(Progress)) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	plan, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, child[0], child[1:]...)
	cmd.Env = childEnv(os.Environ())
	var said words
	cmd.Stderr = &said
	// The pipe stays open behind the plan: its end tells the child that we are gone.
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the rehearsal's own process: %w", err)
	}
	in.Write(plan) // a child that cannot read it ends, which is heard below
	res, err := hear(out, progress)
	in.Close()
	cmd.Wait() // the answer counts, not how the child ends once it has given it
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && said.String() != "":
		return nil, fmt.Errorf("the rehearsal broke off: %w; it said: %s", err, said.String())
	case err != nil:
		return nil, fmt.Errorf("the rehearsal broke off: %w", err)
	}
	res.WallMS = millis(time.Since(began))
	return res, nil
}

// childEnv is the environment without what changes the runtime's time: a setting that a bubble
// refuses would end the child.
func childEnv(env []string) []string {
	var kept []string
	for _, e := range env {
		if !strings.HasPrefix(e, "GODEBUG=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// words keeps the beginning of what a child says, which names its trouble; a dump of goroutines that
// follows is cut.
type words struct{ buf bytes.Buffer }

const mostWords = 2000

func (w *words) Write(p []byte) (int, error) {
	if room := mostWords - w.buf.Len(); room > 0 {
		w.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (w *words) String() string { return strings.TrimSpace(w.buf.String()) }

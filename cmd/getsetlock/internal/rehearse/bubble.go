package rehearse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A bubble of testing/synctest exists only inside a test, and a test only under
// testing.Main, which prints PASS and ends the process. So a rehearsal on the
// embedded server runs in a child process: the same program, which calls Child.
// The child reads the plan from stdin and writes reports to stdout, one JSON
// document a line.

// report is one line from the child. The last one has a Result or an Error.
type report struct {
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Progress says how far a rehearsal has come.
type Progress struct {
	Done    int           `json:"done"` // orders done
	Orders  int           `json:"orders"`
	Virtual time.Duration `json:"virtual"` // time passed in the rehearsal
}

const reportEvery = 100 * time.Millisecond

// Child runs the rehearsal that it reads from in, and ends the process. Nothing
// else may use the standard output from then on. If in ends, the parent has
// ended, and Child ends the process too.
func Child(in io.Reader, out io.Writer) {
	// An interrupt of the terminal reaches parent and child; the parent decides
	// what to do. All other signals get their default action, whatever the
	// program caught before.
	signal.Reset()
	signal.Ignore(os.Interrupt)
	var plan Plan
	decoder := json.NewDecoder(in)
	send := newSender(out)
	if err := decoder.Decode(&plan); err != nil {
		send(report{Error: fmt.Sprintf("reading the plan: %v", err)})
		os.Exit(1)
	}
	go func() {
		io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	var current atomic.Pointer[book]
	go tell(&current, plan, send)

	os.Stdout = os.Stderr // for the output of package testing
	os.Args = os.Args[:1] // package testing would parse the arguments as its own
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "Rehearsal", F: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res, err := rehearseEmbedded(context.Background(), plan, func(b *book) { current.Store(b) })
			if err != nil {
				send(report{Error: err.Error()})
				return
			}
			send(report{Result: res})
		})
	}}}, nil, nil)
}

// newSender returns a function that writes reports one after the other. If a
// write fails, the parent has ended, and it ends the process.
func newSender(out io.Writer) func(report) {
	var mu sync.Mutex
	encoder := json.NewEncoder(out)
	return func(r report) {
		mu.Lock()
		defer mu.Unlock()
		if encoder.Encode(r) != nil {
			os.Exit(1)
		}
	}
}

// tell reports progress as real time passes. It runs outside the bubble and
// only reads counters.
func tell(current *atomic.Pointer[book], p Plan, send func(report)) {
	for range time.Tick(reportEvery) {
		if b := current.Load(); b != nil {
			at := b.progress(p)
			send(report{Progress: &at})
		}
	}
}

func (b *book) progress(p Plan) Progress {
	return Progress{Done: int(b.done.Load()), Orders: p.Acquisitions,
		Virtual: time.Duration(b.virtual.Load())}
}

// hear reads the child's reports until the last.
func hear(out io.Reader, progress func(Progress)) (*Result, error) {
	decoder := json.NewDecoder(out)
	for {
		var r report
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("it ended without a result: %w", err)
		}
		switch {
		case r.Progress != nil:
			progress(*r.Progress)
		case r.Error != "":
			return nil, errors.New(r.Error)
		case r.Result != nil:
			return r.Result, nil
		}
	}
}

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

// A bubble of testing/synctest, in which time moves only when every goroutine waits, exists only
// inside a test, and a test only under testing.Main, which prints PASS and ends the process. So a
// rehearsal on the embedded server runs in a child process: the same program, told to call Child.
// The plan goes in by stdin, reports come out by stdout, one JSON document a line.

// report is one line from the child. The last has a Result or an Error.
type report struct {
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// Progress is how far a rehearsal has come.
type Progress struct {
	Done    int           `json:"done"` // orders worked through
	Orders  int           `json:"orders"`
	Virtual time.Duration `json:"virtual"` // time passed in the rehearsal
}

const reportEvery = 100 * time.Millisecond

// Child rehearses what it reads from in and ends the process. Nothing else may use the standard
// output from here on. When in ends, whoever asked is gone, and so is the child.
func Child(in io.Reader, out io.Writer) {
	// A terminal's interrupt reaches parent and child; it is the parent who decides. Any other
	// signal was meant for this process, whatever the program caught before.
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

	os.Stdout = os.Stderr // for what package testing has to say
	os.Args = os.Args[:1] // it would take our arguments for its own
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

// newSender writes reports one after the other. A write that fails means that nobody listens.
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

// tell reports progress as real time passes: it runs outside the bubble and only reads counters.
func tell(current *atomic.Pointer[book], p Plan, send func(report)) {
	for range time.Tick(reportEvery) {
		if b := current.Load(); b != nil {
			at := b.progress(p)
			send(report{Progress: &at})
		}
	}
}

func (b *book) progress(p Plan) Progress {
	return Progress{Done: int(b.done.Load()), Orders: p.Acquisitions, Virtual: time.Duration(b.virtual.Load())}
}

// hear reads the child's reports to the last.
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

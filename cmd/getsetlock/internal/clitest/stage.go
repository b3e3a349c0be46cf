// SPDX-License-Identifier: Apache-2.0

// Package clitest runs command lines for the tests of the command and of its
// verbs.
package clitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// command is the Main of package cli. This package cannot import cli, since cli
// imports the verbs, and the verbs' tests are in the verbs' packages.
var command func(args []string, env out.Env) int

// Main is the body of a TestMain. main runs the command lines of every stage.
func Main(m *testing.M, main func(args []string, env out.Env) int) {
	command = main
	childtest.HeedSignals()
	redistest.Main(m)
}

// Stage runs command lines as users run them, inside the test's process.
type Stage struct {
	T           *testing.T
	World       *redistest.World // nil: no server
	Clock       lock.Clock
	Aside       *redistest.Clock // Aside of Env; nil: Clock
	Timeout     time.Duration    // Timeout of Env
	Patience    time.Duration    // Patience of Env
	Vars        map[string]string
	Stores      map[string]backing.Store // of Env
	Stdin       string
	Stdout      io.Writer // nil: kept in Screen
	Interactive bool
	Columns     int        // width of the terminal that stdout and stderr are, of 30 rows; 0: they are none
	Replaced    [][]string // arguments of each call of Replace
	Environ     []string   // … and the environment of the last call
	Stays       bool       // Replace is impossible, as on Windows and as PID 1

	mu          sync.Mutex
	subscribers []subscriber
}

type subscriber struct {
	c     chan<- os.Signal
	which []os.Signal
}

// NewStage returns a stage whose default server is the embedded one.
func NewStage(t *testing.T) *Stage {
	w := redistest.New(t)
	return &Stage{T: t, World: w, Clock: w.Clock(redistest.Skew{}), Aside: w.Clock(redistest.Skew{}),
		Vars: map[string]string{"GETSETLOCK_REDIS": w.URL()}}
}

// Screen is what a command line printed.
type Screen struct {
	Code        int
	Out, Errors string
}

// Run runs a command line to its end.
func (s *Stage) Run(args ...string) Screen {
	s.T.Helper()
	return (<-s.Start(args...).Done)
}

// Started is a command line that is running.
type Started struct {
	Out, Errors *Watched
	Done        chan Screen
}

// Start begins a command line that reads what Stdin holds.
func (s *Stage) Start(args ...string) *Started {
	return s.StartReading(strings.NewReader(s.Stdin), args...)
}

// StartReading begins a command line that reads from in.
func (s *Stage) StartReading(in io.Reader, args ...string) *Started {
	st := &Started{Out: NewWatched(), Errors: NewWatched(), Done: make(chan Screen, 1)}
	st.Out.t, st.Errors.t = s.T, s.T
	stdout := s.Stdout
	if stdout == nil {
		stdout = st.Out
	}
	env := out.Env{
		Stdin: in, Stdout: stdout, Stderr: st.Errors,
		Getenv: func(name string) string { return s.Vars[name] },
		Environ: func() []string {
			all := []string{"PATH=" + os.Getenv("PATH")}
			for name, value := range s.Vars {
				all = append(all, name+"="+value)
			}
			slices.Sort(all)
			return all
		},
		Stores:      s.Stores,
		Clock:       s.Clock,
		Aside:       s.aside(),
		Timeout:     s.Timeout,
		Patience:    s.Patience,
		Notify:      s.notify,
		Interactive: func() bool { return s.Interactive },
		Size:        func(io.Writer) (int, int, bool) { return s.Columns, 30, s.Columns > 0 },
		Hostname:    func() (string, error) { return "host7", nil },
		Replace: func(args, env []string) error {
			s.Replaced, s.Environ = append(s.Replaced, args), env
			if s.Stays {
				return errors.ErrUnsupported
			}
			return io.EOF // stands for "Replace returned"
		},
	}
	go func() {
		code := command(args, env)
		st.Out.close()
		st.Errors.close()
		st.Done <- Screen{code, st.Out.String(), st.Errors.String()}
	}()
	return st
}

func (s *Stage) aside() lock.Clock {
	if s.Aside == nil {
		return s.Clock
	}
	return s.Aside
}

func (s *Stage) notify(c chan<- os.Signal, which ...os.Signal) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = append(s.subscribers, subscriber{c, which})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers = slices.DeleteFunc(s.subscribers, func(o subscriber) bool { return o.c == c })
	}
}

// Signal delivers a signal to the subscribers, as os/signal does.
func (s *Stage) Signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.subscribers {
		if slices.Contains(o.which, sig) {
			select {
			case o.c <- sig:
			default:
			}
		}
	}
}

// Watched is a buffer that a test can wait on.
type Watched struct {
	t    *testing.T // nil: an Await that gives up panics
	mu   sync.Mutex
	more *sync.Cond
	buf  bytes.Buffer
	end  string // why nothing more is awaited; empty: it is
}

// NewWatched returns an empty buffer.
func NewWatched() *Watched {
	w := &Watched{}
	w.more = sync.NewCond(&w.mu)
	return w
}

// Write implements [io.Writer].
func (w *Watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.more.Broadcast()
	return w.buf.Write(p)
}

func (w *Watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// Await waits until text was written. It fails the test where the command line
// ends without it, or after redistest.Patience.
func (w *Watched) Await(text string) {
	if w.t != nil {
		w.t.Helper()
	}
	watchdog := time.AfterFunc(redistest.Patience, func() { w.stop("gave up") })
	defer watchdog.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !strings.Contains(w.buf.String(), text) {
		if w.end != "" {
			says := fmt.Sprintf("clitest: %s: waited for %q, got %q", w.end, text, w.buf.String())
			if w.t == nil {
				panic(says)
			}
			w.t.Fatal(says)
		}
		w.more.Wait()
	}
}

func (w *Watched) close() { w.stop("the command line ended") }

func (w *Watched) stop(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = why
	w.more.Broadcast()
}

// Want fails the test unless a command line ended with that code, printed
// exactly out, and printed says on stderr. With an empty says, stderr must be
// empty.
func (s *Stage) Want(got Screen, code int, out, says string) {
	s.T.Helper()
	if got.Code != code || got.Out != out || !strings.Contains(got.Errors, says) ||
		says == "" && got.Errors != "" {
		s.T.Errorf("code %d (want %d)\nstdout %q (want %q)\nstderr %q (want %q in it)", got.Code, code,
			got.Out, out, got.Errors, says)
	}
	if strings.Contains(got.Errors, "s3cret") || strings.Contains(got.Out, "s3cret") {
		s.T.Errorf("a password was printed:\n%s%s", got.Out, got.Errors)
	}
}

// Decimal returns a number as text.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// StampOf returns an instant as jedis-lock writes it.
func StampOf(t time.Time) string { return Decimal(t.UnixMilli()) }

// DocumentOf reads the one document of --json.
func DocumentOf[T any](t *testing.T, got Screen) T {
	t.Helper()
	var doc T
	dec := json.NewDecoder(strings.NewReader(got.Out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("%v\n%s%s", err, got.Out, got.Errors)
	}
	return doc
}

// Answer is the one document of --json, or a part of it.
type Answer struct {
	t    *testing.T
	part any
}

// AnswerOf reads the document of --json.
func AnswerOf(t *testing.T, got Screen) Answer {
	t.Helper()
	return Answer{t, DocumentOf[map[string]any](t, got)}
}

// At returns the value at a path, such as members.0.name. A number is a
// float64. A step that does not exist fails the test.
func (a Answer) At(path string) any {
	a.t.Helper()
	at := a.part
	for step := range strings.SplitSeq(path, ".") {
		list, _ := at.([]any)
		fields, _ := at.(map[string]any)
		n, err := strconv.Atoi(step)
		value, known := fields[step]
		switch {
		case known:
			at = value
		case err == nil && n < len(list):
			at = list[n]
		default:
			a.t.Fatalf("there is no %s: %v", path, a.part)
		}
	}
	return at
}

// All returns the parts of the list at a path.
func (a Answer) All(path string) (parts []Answer) {
	a.t.Helper()
	list, isList := a.At(path).([]any)
	if !isList {
		a.t.Fatalf("%s is no list: %v", path, a.part)
	}
	for _, part := range list {
		parts = append(parts, Answer{a.t, part})
	}
	return parts
}

// Number returns the number at a path, and 0 for null.
func (a Answer) Number(path string) float64 {
	a.t.Helper()
	n, _ := a.At(path).(float64)
	return n
}

// String returns the answer for messages.
func (a Answer) String() string { return fmt.Sprint(a.part) }

// Full is a writer on a full disk.
type Full struct{}

// Write implements [io.Writer].
func (Full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// OnReal returns a stage with a real server and the machine's time. Its long
// timeout keeps a busy machine from failing the test. A command line that waits
// says so at once, so that a test can await that.
func OnReal(t *testing.T, s *redistest.Server) *Stage {
	return &Stage{T: t, Clock: lock.Machine, Timeout: time.Minute, Patience: -1,
		Vars: map[string]string{"GETSETLOCK_REDIS": s.URL()}}
}

// Script returns a command line of run with --protocol legacy, whose command is
// a shell script.
func Script(flags, key, text string) []string {
	return TokenScript("--protocol legacy "+flags, key, text)
}

// TokenScript is Script with a token lock, unless the flags say otherwise.
func TokenScript(flags, key, text string) []string {
	return append(append([]string{"run"}, strings.Fields(flags)...), key, "--", "sh", "-c", text)
}

// ValueOf returns the value of a lock, as ls shows it.
func ValueOf(s *Stage, key string) string {
	s.T.Helper()
	return fmt.Sprint(AnswerOf(s.T, s.Run("ls", "--json", key)).At("locks.0.value"))
}

// Values of locks in tests. Springs is the key "stock" in the JDK's
// serialization.
const (
	Token   = "46pp_t56wMdRpwZ1BglSEg"
	UUID    = "0f8fad5b-d9cb-469f-a165-70867728950e"
	Springs = "\xac\xed\x00\x05t\x00\x05stock"
)

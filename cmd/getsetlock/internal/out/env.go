// Package out is what the verbs of the command share: the outside in which they run,
// flags, errors and exit codes, tables, JSON, the words for times, progress and the log.
// It knows no verb.
//
// Answers go to stdout and nothing else does. Progress, warnings and errors go to stderr. Nothing that
// is printed holds a password. What a verb needs of the outside it finds in an [Env], so that tests run
// it as users do, inside one process.
//
// The package assumes of clocks what the packages assume whose verbs these are; it adds no reading
// of its own but for progress.
package out

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/lock"
)

// Env is what a command has of the outside.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        func() []string
	Getenv         func(string) string

	// Clock is the one by which locks are kept.
	Clock lock.Clock

	// Timeout bounds dialing and each reply of the server. Zero leaves that to the packages: 2 s.
	Timeout time.Duration

	// Notify sends signals that we get to c, until stop is called.
	Notify func(c chan<- os.Signal, which ...os.Signal) (stop func())

	// Interactive reports whether somebody at a terminal can answer.
	Interactive func() bool

	// Hostname is this machine's, put beside tokens for people to read.
	Hostname func() (string, error)

	// Replace turns the process into another command; it returns only with an error.
	Replace func(args, env []string) error

	// Alone says that this process is the command getsetlock and nothing else: a run may then
	// wait for every child that the process has, orphans that it adopts as PID 1 included.
	Alone bool

	// Outer is the Stdout that we were given: a command of run gets it as it is. Execute sets it.
	Outer io.Writer
}

// System is the real outside.
func System() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ, Getenv: os.Getenv,
		Clock: lock.Machine,
		Notify: func(c chan<- os.Signal, which ...os.Signal) func() {
			if len(which) == 0 { // to signal.Notify that would mean all of them
				return func() {}
			}
			signal.Notify(c, which...)
			return func() { signal.Stop(c) }
		},
		Interactive: func() bool { _, ok := Terminal(os.Stdin); return ok },
		Hostname:    os.Hostname,
		Replace:     child.Replace,
		Alone:       true,
	}
}

// Execute runs one command line of the command that newRoot makes, and returns
// its exit code.
func Execute(args []string, env Env, newRoot func(*Env) *cobra.Command) int {
	said := &answer{Writer: env.Stdout}
	env.Outer, env.Stdout = env.Stdout, said
	root := newRoot(&env)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	ctx, stop := interruptible(&env)
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	return env.report(cmd, said.lost(err))
}

// answer is stdout as verbs write to it. It remembers what could not be written, so that no verb need look
// at each line of its table: whoever reads the exit code must not take half an answer for a whole one.
type answer struct {
	io.Writer
	mu    sync.Mutex
	first error
}

func (a *answer) Write(p []byte) (int, error) {
	n, err := a.Writer.Write(p)
	if err != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.first == nil {
			a.first = err
		}
	}
	return n, err
}

// lost is err, what a verb ended with, unless that was an answer that could not be printed. Only a failure
// with words of its own counts for more.
func (a *answer) lost(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var e *ExitError
	if a.first == nil || err != nil && (!errors.As(err, &e) || e.Err != nil) {
		return err
	}
	return unprinted(a.first)
}

// Interrupted is the cause with which a verb's context ends when we are told to end.
type Interrupted struct{ By os.Signal }

func (e Interrupted) Error() string { return "interrupted by " + signalName(e.By) }

// interruptible returns a context that ends with the first signal to end. The second one ends the
// program, as if nothing had been caught.
func interruptible(env *Env) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	stop := env.Notify(signals, child.Ending()...)
	go func() {
		select {
		case s := <-signals:
			stop()
			cancel(Interrupted{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Terminal reports whether a stream is a terminal, and which.
func Terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok || f == nil || !term.IsTerminal(int(f.Fd())) {
		return -1, false
	}
	return int(f.Fd()), true
}

// Confirm reads a yes or no. An interruption ends it, not only the next line.
func (e *Env) Confirm(ctx context.Context) (bool, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(e.Stdin).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		text = strings.ToLower(strings.TrimSpace(text))
		return text == "y" || text == "yes", nil
	case <-ctx.Done():
		fmt.Fprintln(e.Stderr)
		return false, CouldNot(context.Cause(ctx), "nothing was deleted")
	}
}

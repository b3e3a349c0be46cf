// SPDX-License-Identifier: Apache-2.0

// Package out has what all verbs share: the environment in which they run,
// flags, errors, exit codes, tables, JSON, the wording of times, progress and
// the log. It knows no verb.
//
// A verb prints its answer, and nothing else, to stdout. Progress, warnings and
// errors go to stderr. Nothing that is printed contains a password. A verb
// reaches the outside only through an [Env], so tests run it as users do,
// inside one process.
//
// The package assumes nothing of clocks beyond what the packages assume that a
// verb uses. It reads a clock itself only for progress.
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

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/lock"
)

// Env is what a verb uses of the world outside: streams, variables, clock,
// signals, terminal.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        func() []string
	Getenv         func(string) string

	// Stores are the stores other than Redis whose locks the verbs can take, by
	// the scheme of their addresses.
	Stores map[string]backing.Store

	// Clock decides when leases end and when to renew them.
	Clock lock.Clock

	// Aside decides when messages about waiting are due. It is Clock, except in
	// tests that move time from timer to timer of Clock.
	Aside lock.Clock

	// Timeout bounds dialing and each reply of the server. Zero leaves the
	// choice to the packages, which use 2 s.
	Timeout time.Duration

	// Patience is how long run, hold and wait wait before they print that they
	// do. Zero leaves the choice to them: 3 s. Negative: they say so at once.
	Patience time.Duration

	// Notify sends the signals that this process receives to c, until stop is
	// called.
	Notify func(c chan<- os.Signal, which ...os.Signal) (stop func())

	// Interactive reports whether stdin is a terminal, so that a person can
	// answer a question.
	Interactive func() bool

	// Size returns the size of the terminal that a stream writes to, and false
	// where it writes to none. nil asks the stream itself.
	Size func(w io.Writer) (columns, rows int, ok bool)

	// Hostname returns this machine's name. It is stored next to tokens, for
	// people to read.
	Hostname func() (string, error)

	// Replace turns this process into another command. It returns only with an
	// error.
	Replace func(args, env []string) error

	// Alone reports whether this process is the command getsetlock and nothing
	// else. Only then may a run wait for every child of the process, also for
	// orphans that it adopts as PID 1.
	Alone bool

	// Outer is the original Stdout. A command that run starts gets it
	// unwrapped. Execute sets it.
	Outer io.Writer

	told *told // warnings of this run; nil: each is printed
}

// System returns the real environment of this process.
func System() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ, Getenv: os.Getenv,
		Clock: lock.Machine, Aside: lock.Machine,
		Notify: func(c chan<- os.Signal, which ...os.Signal) func() {
			if len(which) == 0 { // signal.Notify would take an empty list for all signals
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

// Execute runs one command line with the root command that newRoot makes, and
// returns its exit code.
func Execute(args []string, env Env, newRoot func(*Env) *cobra.Command) int {
	said := &answer{Writer: env.Stdout}
	env.Outer, env.Stdout, env.told = env.Stdout, said, &told{}
	root := newRoot(&env)
	root.SetArgs(args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	ctx, stop := interruptible(&env)
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	env.told.sum(&env)
	return env.report(cmd, said.lost(err))
}

// answer is the stdout that verbs write to. It remembers the first write error,
// so that no verb has to check each line of its table. A script that reads the
// exit code must not take half an answer for a whole one.
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

// lost returns the error to report for a verb that ended with err. That is err,
// unless the answer could not be printed: then it is the write error. An err
// with a message of its own takes precedence over the write error.
func (a *answer) lost(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var e *ExitError
	if a.first == nil || err != nil && (!errors.As(err, &e) || e.Err != nil) {
		return err
	}
	return unprinted(a.first)
}

// Interrupted is the cause with which a verb's context ends after a signal that
// asks this process to end.
type Interrupted struct{ By os.Signal }

func (e Interrupted) Error() string { return "interrupted by " + signalName(e.By) }

// interruptible returns a context that ends with the first signal that asks the
// process to end. The second such signal ends the process at once, by its
// default action.
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

// Host returns this machine's name, for people to read.
func (e *Env) Host() string {
	if host, err := e.Hostname(); err == nil && host != "" {
		return host
	}
	return "unknown-host"
}

// Terminal reports whether a stream is a terminal, and returns its file
// descriptor.
func Terminal(stream any) (fd int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok || f == nil || !term.IsTerminal(int(f.Fd())) {
		return -1, false
	}
	return int(f.Fd()), true
}

// Confirm reads yes or no from stdin. The end of ctx ends it at once, without
// waiting for another line.
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

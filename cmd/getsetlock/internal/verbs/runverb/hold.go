// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// holdLong is what --help says.
//
//go:embed hold.txt
var holdLong string

// waitLong is what --help says.
//
//go:embed wait.txt
var waitLong string

// holding and awaiting stand for the command where a holder's name is written.
const (
	holding  = "getsetlock-hold"
	awaiting = "getsetlock-wait"
)

var holdingWords = kind{"the lock was not taken", "the lock is held no longer (%s)"}

// oneKey checks that there is one KEY.
func oneKey(_ *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return out.WrongUse("give one KEY, not %d", len(args))
	case args[0] == "":
		return out.WrongUse("KEY is empty")
	}
	return nil
}

// NewHold returns the verb hold.
func NewHold(e *out.Env) *cobra.Command {
	f := &runFlags{}
	f.wait.d = defaultWait
	cmd := &cobra.Command{
		Use:   "hold [flags] KEY",
		Short: "Hold a lock until stdin ends",
		Long:  holdLong,
		Example: out.Examples(
			"# at a terminal, until ^D",
			"getsetlock hold deploy",
			"# in a script: the lock is held while descriptor 3 is open",
			"mkfifo lock.in lock.out",
			"getsetlock hold deploy <lock.in >lock.out & exec 3>lock.in",
			"read -r held token fence <lock.out || exit 75; ./step1; ./step2; exec 3>&-",
		),
		Annotations:       map[string]string{out.OwnFailures: "yes"},
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.runner(e, cmd, args[0], []string{holding}, holdingWords)
			if err != nil {
				return err
			}
			return r.hold(cmd.Context())
		},
	}
	f.registerTarget(cmd)
	f.registerHolding(cmd, "how long before the end of the lock hold ends if renewals fail")
	return cmd
}

// NewWait returns the verb wait.
func NewWait(e *out.Env) *cobra.Command {
	f := &runFlags{mode: "hardened"}
	f.wait.forever = true
	cmd := &cobra.Command{
		Use:   "wait [flags] KEY",
		Short: "Wait until a lock is free, and take nothing",
		Long:  waitLong,
		Example: out.Examples(
			"# start a deploy when the backup has ended",
			"getsetlock wait nightly && ./deploy",
			"# ask whether the lock is free now",
			"getsetlock wait -q --wait 0 --busy-exit 1 nightly || echo busy",
		),
		Annotations:       map[string]string{out.OwnFailures: "yes"},
		ValidArgsFunction: cobra.NoFileCompletions,
		Args:              oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.runner(e, cmd, args[0], []string{awaiting}, kind{})
			if err != nil {
				return err
			}
			defer r.keeper.close(closeWait)
			return r.awaitFree(cmd.Context())
		},
	}
	f.registerTarget(cmd)
	return cmd
}

// hold takes the lock, or joins an outer run's, says so, and gives it back when
// stdin ends.
func (r *runner) hold(ctx context.Context) error {
	signals := make(chan os.Signal, 16)
	defer r.env.Notify(signals, child.Ending()...)()
	r.outliveReaders()
	in := r.watchInput(signals)
	r.gone = in.over
	lease, outer, err := r.obtain(ctx)
	switch {
	case err != nil:
		in.end(child.Exit{})
		return err
	case outer != nil:
		if err := r.announce(outer[1], outer[2]); err != nil {
			return err
		}
		return ended(in.Wait())
	}
	fence := ""
	if n, ok := lease.Fence(); ok {
		fence = strconv.FormatInt(n, 10)
	}
	if err := r.announce(lease.Token(), fence); err != nil {
		r.give(lease.free)
		r.keeper.close(closeWait)
		return err
	}
	return r.attend(in, lease)
}

// announce prints the line for which a script waits. If it cannot be printed,
// no script works under the lock.
func (r *runner) announce(token, fence string) error {
	if _, err := fmt.Fprintf(r.env.Stdout, "held %s %s\n", token, cmp.Or(fence, "-")); err != nil {
		return out.CouldNot(err, "telling that %q is held; it is given back", r.key)
	}
	if r.env.Interactive() {
		r.env.Say(r.flags.server.Quiet, "holding %q; ^D gives it back", r.key)
	}
	return nil
}

// input is the standard input of hold, which stands in the place of a command:
// it ends by itself, by a signal, or because the lock is lost.
type input struct {
	over chan struct{} // closed when the input has ended
	once sync.Once
	done chan struct{}
	exit child.Exit
}

func (r *runner) watchInput(signals <-chan os.Signal) *input {
	in := &input{over: make(chan struct{}), done: make(chan struct{})}
	go func() {
		// An error ends the input as well: nothing more can come.
		_, _ = io.Copy(io.Discard, r.env.Stdin)
		close(in.over)
		in.end(child.Exit{})
	}()
	go func() {
		select {
		case s := <-signals:
			in.end(child.Exit{Code: child.SignalCode(s), Signal: s.String()})
		case <-in.done:
		}
	}()
	return in
}

func (in *input) end(x child.Exit) {
	in.once.Do(func() {
		in.exit = x
		close(in.done)
	})
}

func (in *input) Done() <-chan struct{} { return in.done }

// Terminate ends hold at once: there is no command that needs time.
func (in *input) Terminate(child.Schedule) { in.end(child.Exit{Signal: "hold ended"}) }

func (in *input) Wait() child.Exit {
	<-in.done
	return in.exit
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child/childtest"
)

// The test binary also serves as the programs that the tests run: "<binary>
// -helper NAME ARGS…".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "-helper" {
		helpers[os.Args[2]](os.Args[3:])
		return
	}
	childtest.HeedSignals()
	goleak.VerifyTestMain(m)
}

var helpers map[string]func([]string)

func init() {
	helpers = map[string]func([]string){
		"run":      func(args []string) { runHelper(args, nil) },
		"expired":  func(args []string) { runHelper(args, alreadyOver) },
		"stubborn": func([]string) { say("ready"); report(unix.SIGTERM, unix.SIGINT, unix.SIGCONT) },
		"hold":     func([]string) { say("ready"); report(unix.SIGCONT, unix.SIGUSR1, unix.SIGWINCH) },
		"where":    func([]string) { say("foreground %v", inForeground()) },
		"ask":      func([]string) { askHelper() },
		"raw":      func([]string) { _, _ = term.MakeRaw(0); say("modes changed"); forever() },
	}
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// report prints each signal that it gets, for ever.
func report(signals ...os.Signal) {
	ch := make(chan os.Signal, 8)
	signal.Notify(ch, signals...)
	say("listening")
	for s := range ch {
		say("got %s", unix.SignalName(s.(unix.Signal)))
	}
}

// forever blocks until a signal ends the process. It catches a signal, since
// the runtime would otherwise report a deadlock.
func forever() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGUSR1)
	select {}
}

func inForeground() bool {
	tty := openTerminal()
	return tty != nil && tty.ours()
}

func askHelper() {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		say("no terminal: %v", err)
		return
	}
	fmt.Fprintln(tty, "name?")
	line, err := bufio.NewReader(tty).ReadString('\n')
	say("hello %s %v", strings.TrimSpace(line), err)
}

func alreadyOver() Schedule {
	now := time.Now()
	return Schedule{Term: now, Kill: now}
}

// runHelper is the main function of a program that runs a command by this
// package.
func runHelper(args []string, continued func() Schedule) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, Passed()...)
	p, err := Start(Spec{
		Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Signals: signals, Continued: continued, ReapOrphans: true,
	})
	if err != nil {
		say("%v, mine again %v", err, inForeground())
		os.Exit(1)
	}
	exit := p.Wait()
	fmt.Fprintf(os.Stderr, "exit %d, mine again %v\n", exit.Code, inForeground())
	os.Exit(exit.Code)
}

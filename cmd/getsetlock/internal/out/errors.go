// SPDX-License-Identifier: Apache-2.0

package out

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/redisconn"
)

// OwnCode is an exit code that getsetlock itself decides on. The exit code of a
// command that run started is a [CommandEnd] instead: report may turn one
// OwnCode into another, and a command's code must reach the caller unchanged.
// The compiler refuses a command's code, an int, where an OwnCode is wanted.
// The constants have no type, so that tests can compare them with what a
// process returned.
type OwnCode int

// Exit codes of all verbs except run, hold and wait. Those use 122 to 127, and
// run its command's own (CommandEnd).
const (
	CodeWell   = 0
	CodeBad    = 1 // done, and the answer is bad
	CodeUse    = 2 // wrong use
	CodeFailed = 3 // could not be done: the server is away, or a right is missing
)

// Exit codes of run, hold and wait where getsetlock itself decides how they
// end. When the command decides, run ends by a CommandEnd, whose code may be
// the same number.
const (
	// CodeRunServer: the server could not be reached before the wait ended, or
	// it refused for a reason that waiting does not mend.
	CodeRunServer = 122

	CodeRunLost   = 123 // the lock was lost, and run ended the command for that
	CodeRunHeld   = 124 // another client held the lock until the wait was over
	CodeRunFailed = 125 // wrong use, and every failure of getsetlock without a code of its own
)

// ExitError ends the program with a code that getsetlock decided on.
type ExitError struct {
	Code OwnCode
	Err  error // nil: the verb has printed everything already

	// Chosen: the user chose Code by a flag. It stays what it is, also where it
	// equals a code of another meaning.
	Chosen bool
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit ends the program with a code and prints nothing more.
func Exit(code OwnCode) error { return &ExitError{Code: code} }

// CommandEnd ends run with the exit code of its command, whatever that code
// means when getsetlock itself ends with it. The command has printed its own
// messages.
type CommandEnd struct{ child.Exit }

func (c *CommandEnd) Error() string { return "the command ended: " + Describe(c.Exit) }

// WrongUse returns an error for a command line that makes no sense as written.
func WrongUse(format string, args ...any) error {
	return &ExitError{Code: CodeUse, Err: fmt.Errorf(format, args...)}
}

// CouldNot returns an error that says what was tried and why it failed. It adds
// the advice that package wire has for err.
func CouldNot(err error, tried string, args ...any) error {
	tried = fmt.Sprintf(tried, args...)
	err = unprefixed{err}
	if advice := wire.Explain(err); advice != "" {
		return &ExitError{Code: CodeFailed, Err: fmt.Errorf("%s: %w; %s", tried, err, advice)}
	}
	return &ExitError{Code: CodeFailed, Err: fmt.Errorf("%s: %w", tried, err)}
}

// unprinted returns the error for an answer that could not be printed. An
// unread answer is a failure, since a verb has no other purpose.
func unprinted(err error) error {
	return &ExitError{Code: CodeFailed, Err: fmt.Errorf("printing the answer: %w", err)}
}

// unprefixed is an error whose message lacks the package names that each layer
// puts in front, and the fields that a program sets where users have flags.
type unprefixed struct{ error }

func (e unprefixed) Error() string {
	said := packages.ReplaceAllString(e.error.Error(), "$1")
	return fields.ReplaceAllString(onlyFlags.Replace(said), ")")
}

// fields finds a field next to the flag or variable that does the same.
var fields = regexp.MustCompile(`[;,] Options\.[A-Za-z]+(?: and Key)?\)`)

// onlyFlags replaces what a program would set in errors of Redis locks.
var onlyFlags = strings.NewReplacer(
	", Options.SentinelUser)", ")", " (Options.SentinelUser)", "",
	"; see Config.Replicas", "; lower --replicas if fewer are enough",
	"(Config.TTL less Config.Margin); raise Config.TTL", "(--ttl less its margin of safety); raise --ttl",
	" (Options.SentinelPassword, Options.SentinelPasswordFile)", "",
	"), a file (--password-file", ") and a file (--password-file",
	" and a function (Options.Credentials)", "",
	", by $"+redisconn.EnvPassword+" or by Options.Password", " or by $"+redisconn.EnvPassword,
	", or set Options.SentinelPlain if the server speaks TLS", "")

// packages finds package names in front of messages. It leaves alone the same
// words inside a server's message or a key's name.
var packages = regexp.MustCompile(
	`(?m)(^|[:;] |\()(?:(?:lock|legacy|modern|quorum|audit|redisconn|wire|etcd|zookeeper): )+`)

func (e unprefixed) Unwrap() error { return e.error }

// report prints why a verb failed, in one line, and returns the exit code.
func (e *Env) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return CodeWell
	}
	var command *CommandEnd
	if errors.As(err, &command) {
		return command.Code
	}
	return int(e.reportOwn(cmd, err))
}

// reportOwn is report for an end that getsetlock itself decided on.
func (e *Env) reportOwn(cmd *cobra.Command, err error) OwnCode {
	var known *ExitError
	if !errors.As(err, &known) {
		// An error of cobra: an unknown verb or flag, or too many arguments.
		known = &ExitError{Code: CodeUse, Err: err}
	}
	var stopped Interrupted
	code := known.Code
	switch {
	case errors.As(err, &stopped) && code == CodeFailed:
		code = OwnCode(child.SignalCode(stopped.By))
	case known.Chosen || cmd.Annotations[OwnFailures] == "":
	case code == CodeFailed && ofServer(err):
		code = CodeRunServer
	case code == CodeUse || code == CodeFailed:
		code = CodeRunFailed
	}
	if known.Err != nil {
		fmt.Fprintln(e.Stderr, OneLine(cmd.CommandPath()+": "+err.Error()))
	}
	return code
}

// ofServer reports whether the server, or the way to it, caused err. An attempt
// that the server may have executed counts too, such as one that too few
// replicas acknowledged.
func ofServer(err error) bool {
	var unsure *backend.UnsureError
	return errors.As(err, &unsure) || wire.FromServer(err)
}

// OwnFailures marks run, hold and wait: their own failures are 122 and 125, so
// that no script takes one for the command's.
const OwnFailures = "failures of ours are 122 and 125"

// credentials finds the user and password in front of the @ of an address.
// Package redisconn never prints a password. This pattern is for an address in
// an unexpected place, such as "getsetlock redis://…".
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// OneLine turns a message into one line without control characters and
// passwords, whatever a server or a library put into it.
func OneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text,
		func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	return credentials.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, ":***@") {
			return found
		}
		return "://***@"
	})
}

// WithoutPath drops the path from a file's error: the message names the file
// already, or the path is that of a temporary file.
func WithoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Say prints a line on stderr, unless quiet is set.
func (e *Env) Say(quiet bool, format string, args ...any) {
	if !quiet {
		fmt.Fprintln(e.Stderr, OneLine("getsetlock: "+fmt.Sprintf(format, args...)))
	}
}

// InFlags replaces the names of Config fields in an error by the flags that set
// them.
func InFlags(err error) error {
	if text := fieldFlags.Replace(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

var fieldFlags = strings.NewReplacer(
	"lock: ", "", "legacy: ", "", "modern: ", "", "etcd: ", "", "zookeeper: ", "",
	"quorum: ", "", "GreatestTTL", "--greatest", "Config.Terms.", "", "Config.Terms: ", "", "Config.", "",
	"Lease ", "--lease ", "Greatest ", "--greatest ", "Spread ", "--spread ", "Behind ", "--behind ",
	"Ahead ", "--ahead ", "Gap ", "--gap ", "Replicas ", "--replicas ",
	"ReplicaWait ", "the wait for replicas ", "Namespace ", "--namespace ", "TTL ", "--ttl ",
	"(TTL)", "(--ttl)", "Margin ", "the safety margin ", "RenewEvery ", "the time between renewals ")

// Describe says in a few words how a command ended.
func Describe(e child.Exit) string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Signal != "":
		return e.Signal
	}
	return fmt.Sprintf("it exited with %d", e.Code)
}

package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// ownCode is an exit code that getsetlock itself decides on. The code of a command
// that run started is a [commandEnd] instead: report may turn one own code into
// another, and a command's code must reach the caller unchanged. The compiler refuses
// a command's code, an int, where an ownCode is wanted. The constants have no type, so
// that tests can compare them with what a process returned.
type ownCode int

// Exit codes. Of run they are 123 to 127, see run.go; commandEnd has the command's.
const (
	codeWell   = 0
	codeBad    = 1 // done, and the answer is bad
	codeUse    = 2 // wrong use
	codeFailed = 3 // could not be done: the server, rights
)

// exitError ends the program with a code that getsetlock decided on.
type exitError struct {
	code ownCode
	err  error // nil: everything has been said
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exit ends with a code and says nothing more.
func exit(code ownCode) error { return &exitError{code, nil} }

// commandEnd ends run as its command ended: with the same exit code, whatever that
// code means when getsetlock itself ends with it. The command has said the rest.
type commandEnd struct{ child.Exit }

func (c *commandEnd) Error() string { return "the command ended: " + describe(c.Exit) }

// ended is what run returns for a command that ended by itself: nil if it ended with
// 0, an *exitError if it is unknown how it ended, else a *commandEnd.
func ended(x child.Exit) error {
	switch {
	case x.Err != nil:
		return &exitError{codeRunFailed, fmt.Errorf("the command ended, and its exit code is unknown: %w", x.Err)}
	case x.Code == 0:
		return nil
	}
	return &commandEnd{x}
}

// wrongUse says that the command line cannot be meant as it is written.
func wrongUse(format string, args ...any) error {
	return &exitError{codeUse, fmt.Errorf(format, args...)}
}

// couldNot says what was tried and why it could not be done. What the layers below advise is added.
func couldNot(err error, tried string, args ...any) error {
	tried = fmt.Sprintf(tried, args...)
	err = unprefixed{err}
	if advice := wire.Explain(err); advice != "" {
		return &exitError{codeFailed, fmt.Errorf("%s: %w; %s", tried, err, advice)}
	}
	return &exitError{codeFailed, fmt.Errorf("%s: %w", tried, err)}
}

// unprinted says that nobody can read the answer, which is all that a verb is for.
func unprinted(err error) error {
	return &exitError{codeFailed, fmt.Errorf("printing the answer: %w", err)}
}

// unprefixed is an error without the names of the packages that it came through.
type unprefixed struct{ error }

func (e unprefixed) Error() string {
	said := packages.ReplaceAllString(e.error.Error(), "$1")
	return strings.ReplaceAll(said, "; see Config.Replicas", "; fewer satisfy a smaller --replicas")
}

// packages finds the names before what their packages say, and not in the middle of what a server says, or
// of a key's name.
var packages = regexp.MustCompile(`(?m)(^|[:;] |\()(?:(?:lock|legacy|modern|audit|redisurl|wire): )+`)

func (e unprefixed) Unwrap() error { return e.error }

// report prints why a verb failed, in one line, and returns the exit code.
func (e *Env) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return codeWell
	}
	var command *commandEnd
	if errors.As(err, &command) {
		return command.Code
	}
	return int(e.reportOwn(cmd, err))
}

// reportOwn is report for what getsetlock itself decided.
func (e *Env) reportOwn(cmd *cobra.Command, err error) ownCode {
	var known *exitError
	if !errors.As(err, &known) {
		known = &exitError{codeUse, err} // cobra's own: unknown verbs, flags, numbers of arguments
	}
	var stopped errInterrupted
	code := known.code
	switch {
	case errors.As(err, &stopped) && code == codeFailed:
		code = ownCode(child.SignalCode(stopped.by))
	case cmd.Annotations[ownFailures] != "" && (code == codeUse || code == codeFailed):
		code = codeRunFailed
	}
	if known.err != nil {
		fmt.Fprintln(e.Stderr, oneLine(cmd.CommandPath()+": "+err.Error()))
	}
	return code
}

// ownFailures marks the command whose failures must not be taken for those of the command it runs.
const ownFailures = "failures of ours are 125"

// credentials finds what stands before the @ of an address. Package redisurl never lets a password
// out; this is for addresses in places where nobody looked for one, such as "getsetlock redis://…".
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// oneLine makes a message fit a line, whatever a server or a library put into it.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
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

// say prints a line for people on stderr, unless they asked for quiet.
func (e *Env) say(quiet bool, format string, args ...any) {
	if !quiet {
		fmt.Fprintln(e.Stderr, oneLine("getsetlock: "+fmt.Sprintf(format, args...)))
	}
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "^C"
	}
	return s.String()
}

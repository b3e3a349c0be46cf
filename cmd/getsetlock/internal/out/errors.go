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
)

// OwnCode is an exit code that getsetlock itself decides on. The code of a command
// that run started is a [CommandEnd] instead: report may turn one own code into
// another, and a command's code must reach the caller unchanged. The compiler refuses
// a command's code, an int, where an OwnCode is wanted. The constants have no type, so
// that tests can compare them with what a process returned.
type OwnCode int

// Exit codes. Of run they are 123 to 127; CommandEnd has the command's.
const (
	CodeWell   = 0
	CodeBad    = 1 // done, and the answer is bad
	CodeUse    = 2 // wrong use
	CodeFailed = 3 // could not be done: the server, rights
)

// Exit codes of run where getsetlock itself decides on the end; with the command's own
// code, which may be the same number, run ends by a CommandEnd.
const (
	CodeRunLost   = 123 // the lock was lost and the command ended for it
	CodeRunHeld   = 124 // the lock was not to be had in time
	CodeRunFailed = 125 // our own failure, wrong use included
)

// ExitError ends the program with a code that getsetlock decided on.
type ExitError struct {
	Code OwnCode
	Err  error // nil: everything has been said
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit ends with a code and says nothing more.
func Exit(code OwnCode) error { return &ExitError{code, nil} }

// CommandEnd ends run as its command ended: with the same exit code, whatever that
// code means when getsetlock itself ends with it. The command has said the rest.
type CommandEnd struct{ child.Exit }

func (c *CommandEnd) Error() string { return "the command ended: " + Describe(c.Exit) }

// WrongUse says that the command line cannot be meant as it is written.
func WrongUse(format string, args ...any) error {
	return &ExitError{CodeUse, fmt.Errorf(format, args...)}
}

// CouldNot says what was tried and why it could not be done. What the layers below advise is added.
func CouldNot(err error, tried string, args ...any) error {
	tried = fmt.Sprintf(tried, args...)
	err = unprefixed{err}
	if advice := wire.Explain(err); advice != "" {
		return &ExitError{CodeFailed, fmt.Errorf("%s: %w; %s", tried, err, advice)}
	}
	return &ExitError{CodeFailed, fmt.Errorf("%s: %w", tried, err)}
}

// unprinted says that nobody can read the answer, which is all that a verb is for.
func unprinted(err error) error {
	return &ExitError{CodeFailed, fmt.Errorf("printing the answer: %w", err)}
}

// unprefixed is an error without the names of the packages that it came through.
type unprefixed struct{ error }

func (e unprefixed) Error() string {
	said := packages.ReplaceAllString(e.error.Error(), "$1")
	return strings.ReplaceAll(said, "; see Config.Replicas", "; fewer satisfy a smaller --replicas")
}

// packages finds the names before what their packages say, and not in the middle of what a server says, or
// of a key's name.
var packages = regexp.MustCompile(`(?m)(^|[:;] |\()(?:(?:lock|legacy|modern|audit|redisconn|wire): )+`)

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

// reportOwn is report for what getsetlock itself decided.
func (e *Env) reportOwn(cmd *cobra.Command, err error) OwnCode {
	var known *ExitError
	if !errors.As(err, &known) {
		known = &ExitError{CodeUse, err} // cobra's own: unknown verbs, flags, numbers of arguments
	}
	var stopped Interrupted
	code := known.Code
	switch {
	case errors.As(err, &stopped) && code == CodeFailed:
		code = OwnCode(child.SignalCode(stopped.By))
	case cmd.Annotations[OwnFailures] != "" && (code == CodeUse || code == CodeFailed):
		code = CodeRunFailed
	}
	if known.Err != nil {
		fmt.Fprintln(e.Stderr, OneLine(cmd.CommandPath()+": "+err.Error()))
	}
	return code
}

// OwnFailures marks the command whose failures must not be taken for those of the command it runs.
const OwnFailures = "failures of ours are 125"

// credentials finds what stands before the @ of an address. Package redisconn never lets a password
// out; this is for addresses in places where nobody looked for one, such as "getsetlock redis://…".
var credentials = regexp.MustCompile(`://[^\s"']*@`)

// OneLine makes a message fit a line, whatever a server or a library put into it.
func OneLine(text string) string {
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

// Say prints a line for people on stderr, unless they asked for quiet.
func (e *Env) Say(quiet bool, format string, args ...any) {
	if !quiet {
		fmt.Fprintln(e.Stderr, OneLine("getsetlock: "+fmt.Sprintf(format, args...)))
	}
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "^C"
	}
	return s.String()
}

// InFlags rewrites the names of fields as those of the flags that set them.
func InFlags(err error) error {
	text := err.Error()
	for _, name := range fieldFlags {
		text = strings.ReplaceAll(text, name[0], name[1])
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

var fieldFlags = [][2]string{
	{"lock: ", ""}, {"legacy: ", ""}, {"modern: ", ""},
	{"Config.Terms.", ""}, {"Config.Terms: ", ""}, {"Config.", ""},
	{"Lease ", "--lease "}, {"Greatest ", "--greatest "}, {"Spread ", "--spread "}, {"Behind ", "--behind "}, {"Ahead ", "--ahead "}, {"Gap ", "--gap "},
	{"Replicas ", "--replicas "}, {"ReplicaWait ", "the wait for replicas "}, {"Namespace ", "--namespace "},
	{"TTL ", "--ttl "}, {"(TTL)", "(--ttl)"}, {"Margin ", "trust margin "}, {"RenewEvery ", "renewal "},
}

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

package wire

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"
)

var (
	// ErrClosed: the Mux was closed.
	ErrClosed = errors.New("connection to Redis was closed by us")

	// ErrTimeout: the server was silent for [Options.Timeout] after a command was sent.
	ErrTimeout = errors.New("no answer from Redis in time")

	// ErrLost: the connection ended by the server or the network.
	ErrLost = errors.New("connection to Redis lost")
)

// NotSentError says for certain that no part of the command reached the server.
type NotSentError struct {
	// Err is why: [ErrClosed], the cause with which the context ended, or what the dial hook said.
	Err error
}

func (e *NotSentError) Error() string { return "not sent: " + e.Err.Error() }
func (e *NotSentError) Unwrap() error { return e.Err }

// UnknownError says that the command was sent, perhaps in part, and that no reply came: it may have
// been executed, may yet be, or may be lost.
type UnknownError struct {
	// Err is why nobody waited longer: [ErrTimeout], [ErrLost], [ErrClosed], or the cause with which
	// the context ended.
	Err error

	// Pending yields the reply should the connection still bring it. It is never nil.
	Pending *Pending
}

func (e *UnknownError) Error() string { return "outcome unknown: " + e.Err.Error() }
func (e *UnknownError) Unwrap() error { return e.Err }

// MayBeSent reports that a command that failed with err may have been executed,
// or may yet be.
func MayBeSent(err error) (*UnknownError, bool) {
	var unknown *UnknownError
	return unknown, errors.As(err, &unknown)
}

// silentError is ErrTimeout with the time in it.
type silentError struct{ timeout time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("%v (%v)", ErrTimeout, e.timeout) }
func (e *silentError) Unwrap() error { return ErrTimeout }

// lostError is ErrLost with what the connection said.
type lostError struct{ err error }

func (e *lostError) Error() string   { return ErrLost.Error() + ": " + e.err.Error() }
func (e *lostError) Unwrap() []error { return []error{ErrLost, e.err} }

// userinfo finds what may be the user and password in front of a host. It reaches up to the last @
// before a blank or quote: passwords hold slashes and @ more often than messages hold two
// addresses.
var userinfo = regexp.MustCompile(`:[^\s"']*@`)

// redact returns the text of an error from a dial hook without passwords.
func redact(err error) string {
	// net/url takes what follows a slash in a password for the path and quotes the rest as a port.
	var parse *url.Error
	if errors.As(err, &parse) && parse.Op == "parse" {
		return "the address is no valid URL (not shown, since it may hold a password)"
	}
	return userinfo.ReplaceAllString(err.Error(), ":…@")
}

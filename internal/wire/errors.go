// SPDX-License-Identifier: Apache-2.0

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
	ErrClosed = errors.New("connection to Redis was closed by this client")

	// ErrTimeout: the server was silent for [Options.Timeout] after a command
	// was sent.
	ErrTimeout = errors.New("no answer from Redis in time")

	// ErrLost: the server or the network ended the connection.
	ErrLost = errors.New("connection to Redis lost")
)

// NotSentError says that certainly no part of the command reached the server.
type NotSentError struct {
	// Err is the reason: [ErrClosed], the cause with which the context ended,
	// or the error of the dial hook.
	Err error
}

func (e *NotSentError) Error() string { return "not sent: " + e.Err.Error() }
func (e *NotSentError) Unwrap() error { return e.Err }

// UnknownError says that the command was sent, perhaps in part, and that no
// reply came. The command may have been executed, may still be executed, or may
// be lost.
type UnknownError struct {
	// Err is why the wait ended: [ErrTimeout], [ErrLost], [ErrClosed], or the
	// cause with which the context ended.
	Err error

	// Pending delivers the reply if the connection still brings it. It is never
	// nil.
	Pending *Pending
}

func (e *UnknownError) Error() string { return "outcome unknown: " + e.Err.Error() }
func (e *UnknownError) Unwrap() error { return e.Err }

// MayBeSent reports whether a command that failed with err may have been
// executed, or may still be.
func MayBeSent(err error) (*UnknownError, bool) {
	var unknown *UnknownError
	return unknown, errors.As(err, &unknown)
}

// IsNotSent reports that certainly no part of the command was sent.
func IsNotSent(err error) bool {
	var e *NotSentError
	return errors.As(err, &e)
}

// silentError is ErrTimeout with the length of the wait.
type silentError struct{ timeout time.Duration }

func (e *silentError) Error() string { return fmt.Sprintf("%v (%v)", ErrTimeout, e.timeout) }
func (e *silentError) Unwrap() error { return ErrTimeout }

// lostError is ErrLost with the connection's error.
type lostError struct{ err error }

func (e *lostError) Error() string   { return ErrLost.Error() + ": " + e.err.Error() }
func (e *lostError) Unwrap() []error { return []error{ErrLost, e.err} }

// userinfo matches what may be the user and password before a host. It extends
// to the last @ before a blank or quote: a password with a slash or @ is more
// common than a message with two addresses.
var userinfo = regexp.MustCompile(`:[^\s"']*@`)

// redact returns the text of a dial hook's error without passwords.
func redact(err error) string {
	// If a password has a slash, net/url takes the text after it for the path
	// and quotes the rest as a port.
	var parse *url.Error
	if errors.As(err, &parse) && parse.Op == "parse" {
		return "the address is no valid URL (not shown, since it may hold a password)"
	}
	return userinfo.ReplaceAllString(err.Error(), ":…@")
}

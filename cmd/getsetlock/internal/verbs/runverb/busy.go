// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"errors"
	"strconv"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// busyFlag is --busy-exit: the exit code for a lock that another client held
// until the wait was over.
type busyFlag struct {
	code  out.OwnCode
	given bool
}

func (b *busyFlag) Type() string { return "code" }

func (b *busyFlag) String() string {
	if !b.given {
		return ""
	}
	return strconv.Itoa(int(b.code))
}

func (b *busyFlag) Set(text string) error {
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code > 255 {
		return errors.New("write an exit code from 0 to 255")
	}
	*b = busyFlag{out.OwnCode(code), true}
	return nil
}

// exit returns the error with which a verb ends that did not get the lock. With
// --busy-exit and quiet nothing is printed: the caller expects to lose.
func (b *busyFlag) exit(quiet bool, why error) error {
	switch {
	case !b.given:
		return &out.ExitError{Code: out.CodeRunHeld, Err: why}
	case quiet:
		why = nil
	}
	return &out.ExitError{Code: b.code, Err: why, Chosen: true}
}

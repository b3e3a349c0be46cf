// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// LostError describes how a grant was lost. It unwraps to backend.ErrLost.
type LostError struct {
	Key string

	// Mark is true when the grant's token is gone from M. Otherwise M had the
	// token, but another client deleted or overwrote the bytes on L.
	Mark bool

	// Seen is what both keys held instead.
	Seen Observation
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("%v: key %q ", backend.ErrLost, e.Key)
	o := e.Seen
	switch {
	case e.Mark:
		return text + "no longer has this holder's token: its lease has ended"
	case !o.Exists:
		return text + "was deleted by another client"
	case o.Type != "string":
		return text + "was replaced by a " + o.Type
	}
	if _, bytes, ok := o.Token(); ok && bytes == o.Value {
		return text + "still has this holder's value, but another client removed or changed its TTL"
	}
	looks := dialect.Identify(o.Value, o.now(), dialect.Hints{Prefer: o.Dialect.Name})
	return text + fmt.Sprintf("was overwritten by another client: %.80q, %s", o.Value, looks[0])
}

func (e *LostError) Unwrap() error { return backend.ErrLost }

// ErrUncertain is the reason why an attempt cannot be undone for certain: its
// command may still reach the server.
var ErrUncertain = errors.New(
	"the connection ended before the server said whether it took the key; it may still do so")

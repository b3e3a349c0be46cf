// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"fmt"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// ThrownError is returned where the old client leaves its acquire with an
// exception, mostly because the value on the key is not a number to it. It
// unwraps to backend.ErrNoRetry: the old client's caller sees the exception
// too.
type ThrownError struct {
	Key     string
	Dialect string
	Command string // the command with the unexpected reply
	Value   string
	Missing bool // the reply was nil

	looks []dialect.Match
}

func (e *ThrownError) Error() string {
	if e.Missing {
		return fmt.Sprintf("legacy: key %q: %s returned nil, on which a %s client fails", e.Key, e.Command,
			e.Dialect)
	}
	text := fmt.Sprintf("legacy: key %q: %s returned %.80q, on which a %s client throws an exception", e.Key,
		e.Command, e.Value, e.Dialect)
	if len(e.looks) > 0 {
		text += "; the value may be " + e.looks[0].String()
	}
	return text
}

func (e *ThrownError) Unwrap() error { return backend.ErrNoRetry }

func (t *turn) thrown(command string, reply dialect.Reply) error {
	t.v.Count.Foreign.Add(1)
	e := &ThrownError{Key: t.k.Name, Dialect: t.v.Settings.Dialect.Name, Command: command, Value: reply.Value,
		Missing: reply.Nil}
	if !reply.Nil {
		e.looks = dialect.Identify(reply.Value, t.now, dialect.Hints{})
	}
	return e
}

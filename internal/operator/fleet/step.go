// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/migrate"
)

// stored is a record as it was read.
type stored struct {
	migrate.Record
	bytes string // what a change is compared with; empty without a record
	err   error  // why bytes cannot be read
}

func (s stored) exists() bool { return s.bytes != "" }

// readable reports a record that is there and can be read.
func (s stored) readable() bool { return s.exists() && s.err == nil }

func readStored(value any, err error) (stored, error) {
	text, err := record.TextOf(value, err)
	if err != nil || text == "" {
		return stored{}, err
	}
	s := stored{bytes: text}
	s.Record, s.err = migrate.ParseRecord(text)
	return s, nil
}

// errRaced is returned where another client changed what was read before the
// write.
var errRaced = errors.New("migrate: the record changed meanwhile")

// errJoined is returned where a member with another target came before the
// write.
var errJoined = errors.New("migrate: a member with another target joined meanwhile")

// change replaces a record while it is still was. It returns errRaced where it
// is another one. Where no reply comes it reads the record: its epoch and time
// are unique, so the bytes say whether the change was made.
//
// The step to Clean with a target also needs that every member in the roster
// has that target. A member that joined after it was read acts by Modern, and
// without the target it would not see leases of Clean. At other steps the two
// phases exclude each other.
func change(ctx context.Context, mux *wire.Mux, namespace string, was stored, next migrate.Record) (stored,
	error) {
	text := next.String()
	var reply any
	var err error
	if next.Target != "" && was.Phase == migrate.Modern && next.Phase == migrate.Clean {
		reply, err = mux.Eval(ctx, record.StepTarget, record.Key(namespace), was.bytes, text,
			record.TargetWord(next.Target), record.RosterKey(namespace))
	} else {
		reply, err = mux.Eval(ctx, record.Step, record.Key(namespace), was.bytes, text)
	}
	var unknown *wire.UnknownError
	if errors.As(err, &unknown) {
		now, again := readStored(mux.Do(ctx, "GET", record.Key(namespace)))
		if again != nil || now.bytes != text {
			return now, fmt.Errorf("migrate: it is not known whether the step was taken; nothing is half done: look again with status: %w", err)
		}
		return now, nil
	}
	if err != nil {
		return was, err
	}
	switch done, _ := redis.Int(reply, nil); done {
	case 1:
		return stored{Record: next, bytes: text}, nil
	case -1:
		return was, errJoined
	}
	return was, errRaced
}

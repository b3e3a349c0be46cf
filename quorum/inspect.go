// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Info is the Detail of [lock.Client.Inspect].
type Info struct {
	Key   string
	Votes []Vote // in the order of the members
}

// Vote is what one member has on a key.
type Vote struct {
	Member string
	Info   backend.Info // what the member says of the key
	Err    error        // why the member said nothing
}

var errNoLook = errors.New("this member cannot be inspected")

// Describe asks every member what it has on key. Its Detail is an [Info]. Its
// Value is the one that most members have.
func (b *engine) Describe(ctx context.Context, key string) (backend.Info, error) {
	if key == "" {
		return backend.Info{}, errors.New("quorum: key is empty")
	}
	votes := make([]Vote, len(b.members))
	errs := b.each(func(m *member) error {
		v := &votes[m.index]
		if v.Member, v.Err = m.String(), errNoLook; m.looks != nil {
			v.Info, v.Err = m.looks.Describe(ctx, key)
		}
		return v.Err
	})
	silent := 0
	for _, err := range errs {
		if err != nil {
			silent++
		}
	}
	if silent > len(votes)-b.need {
		return backend.Info{}, fmt.Errorf(
			"quorum: could not look at key %q: %d of %d members did not answer: %w",
			key, silent, len(votes), errors.Join(errs...))
	}
	info := backend.Info{Key: key, Detail: Info{Key: key, Votes: votes}}
	info.Value, info.Held = b.seen(votes)
	return info, nil
}

// seen returns the value that most members have, and what an attempt would
// find: nil, or why the key is held.
func (b *engine) seen(votes []Vote) (value string, held error) {
	counts := map[string]int{}
	var lefts []time.Duration
	free, first := 0, error(nil)
	for _, v := range votes {
		switch {
		case v.Err != nil:
		case v.Info.Held == nil:
			free++
		default:
			if counts[v.Info.Value]++; counts[v.Info.Value] > counts[value] {
				value, first = v.Info.Value, v.Info.Held
			}
			if h := (*backend.HeldError)(nil); errors.As(v.Info.Held, &h) && h.Left > 0 {
				lefts = append(lefts, h.Left)
			}
		}
	}
	if free >= b.need || first == nil {
		return value, nil
	}
	var one *backend.HeldError
	if !errors.As(first, &one) {
		return value, first
	}
	e := *one
	e.Left = 0
	slices.Sort(lefts)
	if missing := b.need - free; missing <= len(lefts) {
		e.Left = lefts[missing-1]
	}
	if counts[value] < b.need {
		e.Protocol = fmt.Sprintf("%d of %d votes, and a lock needs %d", counts[value], len(votes), b.need)
	}
	return value, &e
}

// ForceRelease deletes key on every member on which its value is exactly value,
// also if a client holds it. It reports whether a member deleted it. The error
// names the members that did not answer.
func (b *engine) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	deleted := make([]bool, len(b.members))
	errs := b.each(func(m *member) (err error) {
		if m.looks == nil {
			return fmt.Errorf("%s: %w", m, errNoLook)
		}
		if deleted[m.index], err = m.looks.ForceRelease(ctx, key, value); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
		return nil
	})
	return slices.Contains(deleted, true), errors.Join(errs...)
}

var (
	_ backend.Store         = (*Backend)(nil)
	_ backend.Backend       = (*engine)(nil)
	_ backend.Queuer        = (*engine)(nil)
	_ backend.Place         = (*place)(nil)
	_ io.Closer             = (*engine)(nil)
	_ backend.BatchExtender = (*engine)(nil)
	_ backend.Waker         = (*engine)(nil)
	_ backend.Advisor       = (*engine)(nil)
	_ backend.Inspector     = (*engine)(nil)
	_ backend.Fenced        = (*grant)(nil)
	_ backend.Sharer        = (*grant)(nil)
)

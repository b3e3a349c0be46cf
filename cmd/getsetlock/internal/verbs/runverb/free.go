// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

const (
	// lookEvery is the time between two looks of wait where the server does not
	// report changes.
	lookEvery = 250 * time.Millisecond

	// seldom is the same where it does: a message can be missed.
	seldom = 2 * time.Second

	// firstAnswer is how long wait asks a server that has never answered, if
	// nothing bounds the wait: the address may be wrong.
	firstAnswer = 10 * time.Second
)

// awaitFree returns nil once the lock is free. It is a chain of looks; changes
// that the server reports only make the next look come sooner.
func (r *runner) awaitFree(ctx context.Context) error {
	for _, outer := range around(r.env) {
		if outer[0] != r.key {
			continue
		}
		if seen, err := r.keeper.look(ctx, r.key); err == nil && seen.token == outer[1] {
			return out.WrongUse("a getsetlock run around this process holds %q, so wait would wait for itself", r.key)
		}
	}
	r.askForSpellings(ctx)
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	began, answered := r.env.Clock.Now(), false
	for first := true; ; first = false {
		changed, disarm, every := r.armed(ctx, r.env.Clock.Now().Sub(began))
		seen, err := r.keeper.look(ctx, r.key)
		answered = answered || err == nil
		if err == nil && seen.free {
			disarm()
			r.warn()
			return nil
		}
		gone := r.env.Clock.Now().Sub(began)
		if end := r.waitOver(seen, err, answered, gone); end != nil {
			disarm()
			return end
		}
		if first {
			go r.remind(waiting, err)
		}
		if w := &r.flags.wait; !w.forever {
			every = min(every, max(w.d-gone, 0))
		}
		select {
		case <-changed:
		case <-r.env.Clock.After(every):
		case <-ctx.Done():
			disarm()
			return out.CouldNot(context.Cause(ctx), "waiting for %q", r.key)
		}
		disarm()
	}
}

// armed asks the server to report the next change of the key. It returns how
// long to wait for it. Another store is asked only within --wait, of which gone
// has passed: if it does not answer, the look that follows takes its time too.
func (r *runner) armed(ctx context.Context, gone time.Duration) (changed <-chan struct{}, disarm func(),
	every time.Duration) {
	if w := &r.flags.wait; r.keeper.session && !w.forever {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, w.d-gone)
		defer end()
		if ctx.Err() != nil {
			return nil, func() {}, lookEvery
		}
	}
	c := make(chan struct{}, 1)
	cancel, _, err := r.keeper.waker.Await(ctx, r.key, func() { c <- struct{}{} })
	if err != nil {
		return nil, func() {}, lookEvery
	}
	return c, cancel, seldom
}

// waitOver returns the error with which wait ends after a look that did not
// find the lock free, or nil where it looks again.
func (r *runner) waitOver(seen sight, err error, answered bool, gone time.Duration) error {
	w := &r.flags.wait
	over := !w.forever && gone >= w.d
	if err == nil {
		if !over {
			return nil
		}
		why := fmt.Errorf("key %q is not free yet", r.key)
		if seen.who != nil {
			why = seen.who
		}
		return r.flags.busy.exit(r.flags.server.Quiet, fmt.Errorf("not free within %v: %w", w, why))
	}
	if out.Passing(err) && !over && (answered || !w.forever || gone < firstAnswer) {
		return nil
	}
	return out.CouldNot(keyless{err, r.key}, "asking %s whether %q is free", r.keeper.where, r.key)
}

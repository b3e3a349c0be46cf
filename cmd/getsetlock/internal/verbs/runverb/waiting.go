// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

const (
	// firstWord is how long a verb waits before it says so. Most waits are
	// shorter, and then nothing is printed.
	firstWord = 3 * time.Second

	// nextWord is the time between two such messages.
	nextWord = time.Minute
)

// remind prints which client holds the lock, after firstWord and then every
// nextWord, until ctx ends. why is why the wait began. It has a goroutine of
// its own, for which nobody waits: its question may take as long as the wait.
func (r *runner) remind(ctx context.Context, why error) {
	if r.flags.server.Quiet {
		return
	}
	clock := r.env.Aside
	began, due := clock.Now(), clock.After(cmp.Or(r.env.Patience, firstWord))
	for {
		select {
		case <-due:
		case <-ctx.Done():
			return
		}
		text := r.whoHolds(ctx, why)
		if ctx.Err() != nil {
			return
		}
		due = clock.After(nextWord)
		r.env.Say(false, "waiting: %s; waited %s so far", text, out.Rounded(max(clock.Now().Sub(began), 0)))
	}
}

// whoHolds says in one clause who holds the lock now, or why that cannot be
// found out. With verbatim, which sends nothing that an old client does not
// send, it says why the wait began.
func (r *runner) whoHolds(ctx context.Context, why error) string {
	if r.keeper.verbatim {
		return why.Error()
	}
	now := r.env.Clock.Now
	seen, err := r.keeper.look(ctx, r.key)
	short := error(nil)
	if r.keeper.short != nil && err == nil {
		short = r.keeper.short(ctx)
	}
	switch {
	case err != nil:
		return out.CouldNot(keyless{err, r.key}, "asking %s which client holds %q", r.keeper.where,
			r.key).Error()
	case seen.who == nil && untilVotes(why, now()) != "":
		return untilVotes(why, now())
	case short != nil:
		return untilVotes(short, now())
	case seen.who == nil:
		return fmt.Sprintf("key %q was given back a moment ago", r.key)
	}
	return seen.who.Error()
}

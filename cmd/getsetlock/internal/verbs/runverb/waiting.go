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

// reminder prints which client holds the lock, after firstWord and then every
// nextWord. Its methods are called by one goroutine, the one that waits.
type reminder struct {
	r     *runner
	why   error // why the wait began
	began time.Time
	due   <-chan time.Time // nil while nothing is due
	found chan string      // what a look found
}

// begin starts the reminder when the verb has begun to wait. With --quiet it
// does nothing.
func (m *reminder) begin(r *runner, why error) {
	if r.flags.server.Quiet || m.r != nil {
		return
	}
	m.r, m.why, m.began, m.found = r, why, r.env.Aside.Now(), make(chan string, 1)
	m.due = r.env.Aside.After(cmp.Or(r.env.Patience, firstWord))
}

// look asks the server who holds the lock, on a goroutine of its own: the
// answer may take as long as the wait.
func (m *reminder) look(ctx context.Context) {
	m.due = nil
	go func() { m.found <- m.r.whoHolds(ctx, m.why) }()
}

// say prints what a look found, and plans the next look.
func (m *reminder) say(text string) {
	m.due = m.r.env.Aside.After(nextWord)
	waited := m.r.env.Aside.Now().Sub(m.began)
	m.r.env.Say(false, "waiting: %s; waited %s so far", text, out.Rounded(max(waited, 0)))
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

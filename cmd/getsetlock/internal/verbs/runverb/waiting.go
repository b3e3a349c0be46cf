package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
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
// found out. Where the protocol cannot look, it says why the wait began.
func (r *runner) whoHolds(ctx context.Context, why error) string {
	seen, err := r.keeper.look(ctx, r.key)
	switch {
	case errors.Is(err, errNoLook):
		return why.Error()
	case err != nil:
		return out.CouldNot(keyless{err, r.key}, "asking %s which client holds %q", r.keeper.where(),
			r.key).Error()
	case seen.who == nil && untilVotes(why, r.env.Clock.Now()) != "":
		return untilVotes(why, r.env.Clock.Now())
	case seen.short != nil:
		return untilVotes(seen.short, r.env.Clock.Now())
	case seen.who == nil:
		return fmt.Sprintf("key %q was given back a moment ago", r.key)
	}
	return seen.who.Error()
}

// errNoLook: this protocol cannot look at a key.
var errNoLook = errors.New("this protocol does not look at keys")

// sight is what one look at a lock showed.
type sight struct {
	who  *lock.HeldError // nil: nothing is stored that keeps a client out
	free bool            // a getsetlock client could take the lock

	short error // why too few servers of a quorum vote, nil if enough do
}

// looks are the looks of one process at the keys of old clients. A verb's own
// look and that of a waiting message may end together.
type looks struct {
	clock lock.Clock

	mu    sync.Mutex
	value string    // bytes that the last look saw
	since time.Time // first look that saw them
	at    time.Time // the server's clock at the last look
	seen  dialect.Seen
}

// sight judges a look. An old client's time that is past frees the key by the
// rules of a takeover: by more than Behind, or where that is unknown, when this
// process or another has seen the same bytes for long enough.
func (l *looks) sight(key string, o legacy.Observation, terms dialect.Terms) sight {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := time.Time{} // the value was written later, by the server's clock
	if o.Value != l.value || l.since.IsZero() {
		l.value, l.since, changed = o.Value, now, l.at
	}
	if at := o.ServerNow(); !at.Before(l.at) {
		l.at = at
		if o.OfOldClient() {
			l.seen.Add(o.Dialect, terms, o.Stamp, changed, at)
		}
	}
	o.Seen.Behind = max(o.Seen.Behind, l.seen.Behind)
	o.Seen.Greatest = max(o.Seen.Greatest, l.seen.Greatest)
	who := heldOf(key, o)
	if who != nil && !who.Stamp.IsZero() && o.OfOldClient() {
		who.Why = inFlags(o.Doubt(terms))
	}
	return sight{who: who, free: isFree(o, terms.Against(o.Seen), now.Sub(l.since))}
}

// heldOf describes the holder of a lock by the name that ls shows, from a look
// at the keys of old clients. It returns nil where no client holds the lock:
// nothing is stored, or a tombstone keeps old clients out.
func heldOf(key string, o legacy.Observation) *lock.HeldError {
	held := &lock.HeldError{Key: key}
	if token, _, ok := o.Token(); ok {
		held.Owner, held.Protocol, held.Left = token, "a getsetlock client's token", o.MarkPTTL
		return held
	}
	if token, note, ok := out.TokenLock(o); ok {
		held.Owner, held.Left = cmp.Or(note, token), o.PTTL
		return held
	}
	switch {
	case o.MarkExists: // left to old clients for a moment
		held.Vacant, held.Left = true, o.MarkPTTL
	case !o.Exists, isTombstone(o):
		return nil
	case o.Type != "string":
		held.Protocol = "a " + o.Type + ", not a lock"
	case o.Err == nil && o.Dialect.HasStamp():
		held.Owner, held.Stamp = o.Stamp.ID, o.Stamp.Expiry
		held.Protocol = "an old client's timestamp, " + o.Dialect.Name
	default:
		held.Owner = out.Shortened(o.Value, 40)
		if o.HasTTL {
			held.Left = o.PTTL
		}
	}
	return held
}

// isFree reports whether a getsetlock client could take the lock now: nothing
// is stored, or an old client's time is past for long enough. same is how long
// this process has seen the same bytes.
func isFree(o legacy.Observation, terms dialect.Terms, same time.Duration) bool {
	if o.MarkExists {
		return false
	}
	if heldOf("", o) == nil {
		return true
	}
	if o.Err != nil || !o.Dialect.HasStamp() || !o.OfOldClient() ||
		!o.Dialect.PastBy(o.Stamp, o.ServerNow(), terms.TakeoverMargin()) {
		return false
	}
	_, known := dialect.Claimed(terms.Behind)
	age, aged := terms.LookAge(o.Dialect)
	return known || aged && max(same, o.Looked) > age
}

func isTombstone(o legacy.Observation) bool {
	text, err := o.Dialect.DecodeValue(o.Value)
	return err == nil && text == o.Dialect.Tombstone()
}

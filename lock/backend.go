package lock

import (
	"context"
	"time"
)

// Backend makes single attempts at keys of one store. Waiting, renewal, the clock and every
// goroutine live in [Client]; a Backend only speaks to its store. All methods are safe for
// concurrent use.
//
// What package locktest checks of every Backend:
//
//   - Of any number of concurrent Try calls for one key at most one returns a Grant until that Grant
//     was released or its TTL has passed.
//   - Try never waits for a held key: it returns an error that wraps [ErrHeld], as a [*HeldError]
//     where the store told more.
//   - Try returns soon after ctx ended. When a command that could take the key was sent and its
//     outcome is not known, it returns an [*UnsureError], whatever the cause.
//   - Nothing is returned beside an error.
type Backend interface {
	// Try makes one attempt to take key for ttl. A ttl that the store cannot express, or an empty
	// key, is an error that names the bound.
	Try(ctx context.Context, key string, ttl time.Duration) (Grant, error)
}

// Grant is one acquisition of one key. Its methods are safe for concurrent use; the Client calls
// Extend from one goroutine at a time.
type Grant interface {
	// Token tells this grant from all others of its key, but for those it was shared with (see
	// [Sharer]). It is what the store compares.
	Token() string

	// Term is that of the acquisition. It is asked for once, before the first Extend.
	Term() Term

	// Extend asks the store to keep the key for another ttl, counted from when the store executes
	// it. The error wraps [ErrLost] when the store said that the key is no longer ours, and
	// [ErrNotRenewable] when grants of this kind cannot be extended. Any other error leaves open
	// whether the store extended.
	Extend(ctx context.Context, ttl time.Duration) (Term, error)

	// Release gives the key back if it is still ours. A nil error means that the key is certainly
	// not held by this grant and that no command of it is still under way. An error that wraps
	// [ErrLost] means that the store, when asked, did not hold the key for this grant. After any
	// other error the key may still be held; Release may be called again.
	Release(ctx context.Context) error
}

// Term is the time for which the store said a key is ours.
type Term struct {
	// Sent is the instant before the write that counts was sent, read by [Mark].
	Sent Instant

	// TTL is what the store granted, counted from when it executed that write; it may be less than
	// was asked for. Zero means as much as was asked for.
	TTL time.Duration
}

// UnsureError is what a Backend returns when it does not know whether it holds the key: the command
// was sent and no reply came, because of a timeout, a lost connection or an ended context. The
// Client releases Grant in the background until the store answers for certain or the TTL has passed,
// and never hands it on: a delayed release would free the next holder.
type UnsureError struct {
	Grant Grant
	Err   error
}

func (e *UnsureError) Error() string { return e.Err.Error() }
func (e *UnsureError) Unwrap() error { return e.Err }

// The interfaces below are optional. The Client finds them by type assertion, on the Backend where
// nothing else is said, and works without them.

// BatchExtender extends many grants with few messages. ExtendAll returns a Term and an error for
// each grant, in their order, each with the meaning it has in [Grant.Extend].
type BatchExtender interface {
	ExtendAll(ctx context.Context, grants []Grant, ttl time.Duration) ([]Term, []error)
}

// Passer releases a grant and takes its key again for the next waiter of the same process in one
// command. The new Grant has a token of its own. An error means what it means in [Backend.Try]; in
// particular [ErrLost] says that g was not ours to pass, [*UnsureError] that either may hold, and
// [ErrNotPassed] that nothing was tried: g is then released in the ordinary way.
type Passer interface {
	Pass(ctx context.Context, g Grant, ttl time.Duration) (Grant, error)
}

// Sharer is implemented by a Grant that may pass to the next waiter of the same process without a
// word to the store, which goes on holding the key under the same token.
type Sharer interface {
	// Share returns a grant for the next holder, with a fencing number of its own where there are
	// any, else perhaps itself; false when this cannot be done, such as when no number is left. It
	// does not block. The old grant is neither extended, guarded nor released any more.
	Share() (Grant, bool)
}

// Queuer keeps a queue of waiters on the store, so that a release wakes one process and not all of
// them. Whether processes are also served in the order they came is the Backend's to say.
type Queuer interface {
	// Enter prepares a place in key's queue for a waiter that found the key held. It takes no lock;
	// the place is taken by its first Try. claim is the TTL under which a release may give the key
	// to this place, for a Try that then asks nobody; zero: every Try asks.
	Enter(ctx context.Context, key string, claim time.Duration) (Place, error)
}

// Place is a place in a queue on the store.
type Place interface {
	// Try is [Backend.Try] from this place. A Place that got its Grant, or an [*UnsureError], is
	// used up; releasing that Grant leaves the queue as well. A place lapses when it is not tried
	// for some seconds. The Term of a Grant that was given to the place has the claim for its TTL,
	// and counts from before the last Try that was refused.
	Try(ctx context.Context, ttl time.Duration) (Grant, error)

	// Await is [Waker.Await] for this place: wake is called when its turn may have come.
	Await(ctx context.Context, wake func()) (cancel func(), free bool, err error)

	// Leave gives the place up wherever it stands in the queue. A nil error means that the store
	// will not grant the key to this place any more.
	Leave(ctx context.Context) error
}

// Pacer prescribes the pace of waiting instead of [Config.RetryEvery] and its jitter: a client that
// stands in for another one polls as that one does.
type Pacer interface {
	// Pace returns the time between two attempts and how many attempts a wait of that length
	// allows; attempts < 1 means no limit. The Client sleeps poll after every failed attempt, the
	// last one included, and keeps no other account of the time.
	Pace(wait time.Duration) (poll time.Duration, attempts int)
}

// Waker tells when a key changes in the store, whoever changes it. Both methods arm one call of a
// func, made at the next change by anybody else, or when the watch itself is lost; it is called on a
// goroutine of the Backend and does not block. cancel disarms; after it returned the func may still
// be running once, but will not be called again.
type Waker interface {
	// Await arms wake for a key that another holds. free reports that the key looked free when the
	// watch was armed, so that nothing need be waited for. An error that wraps [ErrNoWake] says that
	// this store cannot wake; the Client polls from then on.
	Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error)

	// Guard arms touched for the key of a grant. The grant's own Extend neither calls touched nor
	// disarms it: what another does to the key right behind a renewal is told as well. The error
	// wraps [ErrLost] when the key is already not ours any more, [ErrNoWake] as above.
	Guard(ctx context.Context, g Grant, touched func()) (cancel func(), err error)
}

// BatchWaker is a Waker that guards many grants with few messages, and with little memory for each.
type BatchWaker interface {
	// GuardAll is [Waker.Guard] for each grant and who holds it. The result has the length of gs. No
	// grant is guarded twice at a time.
	GuardAll(ctx context.Context, gs []Grant, holders []Holder) []error

	// Unguard disarms what GuardAll armed for g, if it is armed still. Touched may be running yet,
	// but will not be called again.
	Unguard(g Grant)
}

// Holder is who holds a guarded grant. Touched is what a [Waker] calls as touched.
type Holder interface {
	Touched()
}

// Polite is implemented by a Grant that knows whether anybody polls for its key. False means that there
// is nobody to be polite to: [Config.Politeness] does not apply when the grant is given back.
type Polite interface {
	Polite() bool
}

// Fenced is implemented by a Grant that carries a fencing number: strictly greater than that of any
// earlier grant of its key. Zero means that this grant has none.
type Fenced interface {
	Fence() int64
}

// Bounded lets a Backend refuse times that do not suit it, when a Client is made and at With.
// Fits names both fields and the bound in its error.
type Bounded interface {
	Fits(ttl, renewEvery, margin time.Duration) error
}

// Prompt is implemented by a Backend whose every Release and Pass returns within Timeout, whatever
// the store does, and within twice that where it has to connect anew, so that the Client need not
// bound them by a timer of its own.
type Prompt interface {
	Timeout() time.Duration
}

// Tuned lets a Backend fill in what the caller left at zero before the defaults of this package
// apply. Tune must not change a field that is set.
type Tuned interface {
	Tune(Config) Config
}

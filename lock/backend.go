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
	//
	// An error may have a method Passing() bool. If it returns true, such as for a lost
	// connection, an Acquire tries again until its wait ends, and if it returns false,
	// such as for a wrong password, the Acquire ends at once. A method Answered() bool
	// that returns true says that the error is the store's own answer.
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
// nothing else is said, and works without them. docs/modern.md lists who implements which, and what happens
// without.

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
	// does not block. The old grant is neither extended, watched nor released any more.
	Share() (Grant, bool)
}

// Queuer keeps a queue of waiters on the store, so that a release wakes one process and not all of
// them. Whether processes are also served in the order they came is the Backend's to say.
type Queuer interface {
	// Enter prepares a place in key's queue for a waiter that found the key held. It takes no lock;
	// the place is taken by its first Try.
	Enter(ctx context.Context, key string) (Place, error)
}

// Place is a place in a queue on the store.
type Place interface {
	// Try is [Backend.Try] from this place. A Place that got its Grant, or an [*UnsureError], is
	// used up; releasing that Grant leaves the queue as well. A place may lapse when it is not tried
	// for 15 s, and for 2 s where Await returned an error.
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

// Waker tells when a key changes in the store, whoever changes it. Await and Watch arm one call, made at
// the next change by anybody else, or when the watch itself is lost; it is made on a goroutine of the
// Backend and does not block. cancel disarms; after it returned the func may still be running once, but
// will not be called again.
type Waker interface {
	// Await arms wake for a key that another holds. free reports that the key looked free when the
	// watch was armed, so that nothing need be waited for. An error that wraps [ErrNoWake] says that
	// this store cannot wake; the Client polls from then on.
	Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error)

	// Watch has holders[i] told when the key of gs[i] is changed, once, with few messages where the store
	// can. The result has the length of gs. The grant's own Extend neither tells the holder nor disarms
	// the watch: what another does to the key right behind a renewal is told as well. An error wraps
	// [ErrLost] when the key is already not ours any more, [ErrNoWake] as above. No grant is watched
	// twice at a time.
	Watch(ctx context.Context, gs []Grant, holders []interface{ Touched() }) []error

	// Unwatch disarms what Watch armed for g, if it is armed still. Touched may still be running once, but
	// will not be called again.
	Unwatch(g Grant)
}

// Wake says whether a backend asks its server to report changes of keys, to waiters and to holders. It
// is a field of the backend's own Config; what the default is, is said there.
type Wake int

// The ways in which changes become known.
const (
	// WakeDefault is the backend's own choice.
	WakeDefault Wake = iota
	// WakeOn asks the server to report changes (CLIENT TRACKING: Redis 6 and Valkey). Where the server
	// cannot, waiters poll.
	WakeOn
	// WakeOff makes waiters poll.
	WakeOff
)

// Polite is implemented by a Grant whose key may be wanted by clients that only
// poll, and whose store can keep everybody else away from it for a while.
type Polite interface {
	// Owes returns for how long the key is to be left to those clients if it is
	// released now. Zero: not at all. wish is [Config.Politeness], zero where the
	// Backend decides; it is never negative.
	Owes(wish time.Duration) time.Duration

	// Leave is [Grant.Release], and for gap the store then grants the key to
	// nobody who asks by [Backend.Try]: an attempt gets a [*HeldError] with
	// Vacant set. The key is not left where it was lost. After an error the
	// grant is released in the ordinary way.
	Leave(ctx context.Context, gap time.Duration) error

	// Look looks whether somebody took the key that was left. It returns how
	// long to wait before the next look; zero: none is needed.
	Look(ctx context.Context) time.Duration
}

// Fenced is implemented by a Grant that carries a fencing number: strictly greater than that of any
// earlier grant of its key. Zero means that this grant has none.
type Fenced interface {
	Fence() int64
}

// Tuned lets a Backend say which times suit it, when a Client is made and at With.
type Tuned interface {
	// Tune fills in what the caller left at zero before the defaults of this package apply. It must not
	// change a field that is set.
	Tune(Config) Config

	// Fits refuses times that do not suit the Backend. Its error names both fields and the bound.
	Fits(ttl, renewEvery, margin time.Duration) error

	// Timeout is the time within which every Release and Pass returns, whatever the store does, and
	// within twice that where the Backend has to connect anew: the Client then need not bound them by a
	// timer of its own. Zero: there is no such time.
	Timeout() time.Duration
}

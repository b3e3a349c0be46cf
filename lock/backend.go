package lock

import (
	"context"
	"time"
)

// Backend makes single attempts at keys of one store. Waiting, renewal, the
// clock and every goroutine live in [Client]; a Backend only speaks to its
// store. All methods are safe for concurrent use.
//
// Package locktest checks of every Backend:
//
//   - Of any number of concurrent Try calls for one key, at most one returns a
//     Grant until that Grant was released or its TTL has passed.
//   - Try never waits for a held key. It returns an error that wraps [ErrHeld],
//     as a [*HeldError] if the store said more.
//   - Try returns soon after ctx ended. If a command that could take the key
//     was sent and its outcome is unknown, Try returns an [*UnsureError],
//     whatever the cause.
//   - Nothing is returned together with an error.
type Backend interface {
	// Try makes one attempt to take key for ttl. If the store cannot express
	// ttl, or key is empty, the error names the bound.
	//
	// An error may have a method Passing() bool. True means that the trouble
	// may pass, such as a lost connection: an Acquire tries again until its
	// wait ends. False means that it will not, such as a wrong password: the
	// Acquire ends at once. If an error has a method Answered() bool that
	// returns true, the error is the store's own answer.
	Try(ctx context.Context, key string, ttl time.Duration) (Grant, error)
}

// Grant is one acquisition of one key. Its methods are safe for concurrent use;
// the Client calls Extend from one goroutine at a time.
type Grant interface {
	// Token distinguishes this grant from all others of its key, except for
	// those it was shared with (see [Sharer]). The store compares it.
	Token() string

	// Term is the Term of the acquisition. The Client calls it once, before the
	// first Extend.
	Term() Term

	// Extend asks the store to keep the key for another ttl, counted from when
	// the store executes the command. The error wraps [ErrLost] if the store
	// said that this grant no longer holds the key. It wraps [ErrNotRenewable]
	// if grants of this kind cannot be extended. After any other error it is
	// unknown whether the store extended.
	Extend(ctx context.Context, ttl time.Duration) (Term, error)

	// Release gives the key back if this grant still holds it. It returns:
	//
	//   - nil: this grant certainly does not hold the key, and none of its
	//     commands is still under way.
	//   - An error that wraps [ErrLost]: the store, when asked, did not hold
	//     the key for this grant.
	//   - Any other error: the key may still be held. Release may be called
	//     again.
	Release(ctx context.Context) error
}

// Term is the time for which the store said that a grant holds its key.
type Term struct {
	// Sent is the instant before the write that counts was sent, as [Mark] read
	// it.
	Sent Instant

	// TTL is the time that the store granted, counted from when it executed
	// that write. It may be less than was asked for. Zero means as much as was
	// asked for.
	TTL time.Duration
}

// UnsureError is the error of a Backend that does not know whether it holds the
// key: it sent the command and got no reply, because of a timeout, a lost
// connection or an ended context. The Client releases Grant in the background
// until the store answers for certain or the TTL has passed. The Client never
// hands Grant on: a delayed release would free the next holder.
type UnsureError struct {
	Grant Grant
	Err   error
}

func (e *UnsureError) Error() string { return e.Err.Error() }
func (e *UnsureError) Unwrap() error { return e.Err }

// The interfaces below are optional. The Client finds them by type assertion,
// on the Backend unless the comment names another type, and works without them.
// docs/modern.md lists which Backend implements which, and what happens
// without.

// BatchExtender extends many grants with few messages. ExtendAll returns a Term
// and an error for each grant, in their order, each with the meaning it has in
// [Grant.Extend].
type BatchExtender interface {
	ExtendAll(ctx context.Context, grants []Grant, ttl time.Duration) ([]Term, []error)
}

// Passer releases a grant and takes its key again for the next waiter of the
// same process, in one command. The new Grant has a token of its own. An error
// means what it means in [Backend.Try], with these additions:
//
//   - [ErrLost]: g no longer held the key, so nothing was passed.
//   - [*UnsureError]: either grant may hold the key.
//   - [ErrNotPassed]: nothing was tried; the Client then releases g as usual.
type Passer interface {
	Pass(ctx context.Context, g Grant, ttl time.Duration) (Grant, error)
}

// Sharer is implemented by a Grant that may pass to the next waiter of the same
// process without a message to the store. The store still holds the key under
// the same token.
type Sharer interface {
	// Share returns a grant for the next holder. It has a fencing number of its
	// own if the Backend draws numbers; without numbers it may be the same
	// grant. Share returns false when this cannot be done, for example when no
	// number is left. It does not block. The old grant is neither extended,
	// watched nor released after that.
	Share() (Grant, bool)
}

// Queuer keeps a queue of waiters on the store, so that a release wakes one
// process and not all of them. The Backend decides whether processes are also
// served in the order in which they came.
type Queuer interface {
	// Enter prepares a place in key's queue for a waiter that found the key
	// held. It takes no lock. The first Try of the place puts it into the
	// queue. After an error the waiter waits without a place. If there is no
	// queue at present, the error wraps errors.ErrUnsupported.
	Enter(ctx context.Context, key string) (Place, error)
}

// Place is a place in a queue on the store. The package comment draws its
// states.
type Place interface {
	// Try is [Backend.Try] from this place. A Place that got its Grant, or an
	// [*UnsureError], is used up; releasing that Grant leaves the queue as
	// well. A place may lapse if it is not tried for 15 s, or for 2 s if Await
	// returned an error.
	Try(ctx context.Context, ttl time.Duration) (Grant, error)

	// Await is [Waker.Await] for this place: wake is called when its turn may
	// have come.
	Await(ctx context.Context, wake func()) (cancel func(), free bool, err error)

	// Leave gives up the place, wherever in the queue it is. A nil error means
	// that the store will not grant the key to this place any more.
	Leave(ctx context.Context) error
}

// Pacer prescribes the pace of waiting instead of [Config.RetryEvery] and its
// jitter, for a client that must poll as an old client does.
type Pacer interface {
	// Pace returns the time between two attempts and how many attempts a wait
	// of that length allows; attempts < 1 means no limit. The Client sleeps
	// poll after every failed attempt, the last one included, and does not
	// measure the wait in any other way.
	Pace(wait time.Duration) (poll time.Duration, attempts int)
}

// Waker reports when any client changes a key in the store. Await and Watch arm
// one call. The Backend makes it at the next change by another client, or when
// the watch itself is lost, on a goroutine of its own. The called func does not
// block. cancel disarms: after it returned, a call already under way may still
// run, but no new one begins.
type Waker interface {
	// Await arms wake for a key that another client holds. free reports that
	// the key looked free when the watch was armed, so the waiter can try at
	// once. If the error wraps [ErrNoWake], this store cannot wake waiters and
	// the Client polls from then on.
	Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error)

	// Watch arms one call of holders[i].Touched for when the key of gs[i]
	// changes. It needs few messages if the store supports that. The result has
	// the length of gs. The grant's own Extend neither calls Touched nor
	// disarms the watch; a change by another client right after a renewal still
	// calls it. An error wraps [ErrLost] if the grant no longer holds the key,
	// and [ErrNoWake] as above. No grant is watched twice at the same time.
	Watch(ctx context.Context, gs []Grant, holders []interface{ Touched() }) []error

	// Unwatch disarms what Watch armed for g, if it is still armed. A call of
	// Touched already under way may still run, but no new one begins.
	Unwatch(g Grant)
}

// Wake says whether a backend asks its server to report changes of keys, to
// waiters and to holders. It is a field of the backend's own Config, which
// documents the default.
type Wake int

// The values of Wake.
const (
	// WakeDefault is the backend's own choice.
	WakeDefault Wake = iota
	// WakeOn asks the server to report changes (CLIENT TRACKING: Redis 6 and
	// Valkey). If the server cannot, waiters poll.
	WakeOn
	// WakeOff makes waiters poll.
	WakeOff
)

// Polite is implemented by a Grant whose key may be wanted by clients that only
// poll. Its store can keep all other clients away from the key for a while.
type Polite interface {
	// Owes returns how long the key is to be left to those clients if it is
	// released now. Zero: not at all. wish is [Config.Politeness]; zero means
	// that the Backend decides, and it is never negative.
	Owes(wish time.Duration) time.Duration

	// Leave is [Grant.Release]. For gap after that, the store grants the key to
	// no caller of [Backend.Try]: an attempt gets a [*HeldError] with Vacant
	// set. If the key was lost, it is not left. After an error the Client
	// releases the grant as usual.
	Leave(ctx context.Context, gap time.Duration) error

	// Look checks whether another client took the key that was left. It returns
	// how long to wait before the next look; zero: none is needed.
	Look(ctx context.Context) time.Duration
}

// Fenced is implemented by a Grant that carries a fencing number: strictly
// greater than that of any earlier grant of its key. Zero means that this grant
// has no number.
type Fenced interface {
	Fence() int64
}

// Tuned lets a Backend say which times suit it. New and With call it.
type Tuned interface {
	// Tune fills in fields that the caller left at zero, before the defaults of
	// this package apply. It must not change a field that is set.
	Tune(Config) Config

	// Fits refuses times that do not suit the Backend. Its error names both
	// fields and the bound.
	Fits(ttl, renewEvery, margin time.Duration) error

	// Timeout is the longest time that a Release or Pass takes, whatever the
	// store does; if the Backend has to connect anew, twice that. The Client
	// then needs no timer of its own for them. Zero: there is no such bound.
	Timeout() time.Duration
}

// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"time"
)

// The interfaces below are optional. A lock.Client finds them by type
// assertion, on the Backend unless the comment names another type, and works
// without them. docs/guide/modern.md lists which Backend implements which, and
// what happens without.

// BatchExtender extends many grants with few messages. ExtendAll returns a Term
// and an error for each grant, in their order, each with the meaning it has in
// [Grant.Extend].
type BatchExtender interface {
	ExtendAll(ctx context.Context, grants []Grant, ttl time.Duration) ([]Term, []error)
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
// served in the order in which they came. A release may give the key to the
// first place in the queue: then the next Try of that place returns its Grant,
// whose Term counts from the last refused Try.
type Queuer interface {
	// First is [Backend.Try] for a caller that takes a place if the key is
	// held. So the error need not say who holds it.
	First(ctx context.Context, key string, ttl time.Duration) (Grant, error)

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

// Keeper is implemented by a Backend that can keep a key taken after its
// holder has released it.
type Keeper interface {
	// ReleaseIn is [Grant.Release] of g, except that the store keeps the key
	// taken for rest, counted from when it executes the command. After that the
	// key frees itself. It is handed to nobody, and waiters see how long it
	// stays taken. After an error ReleaseIn or Release may be called again.
	ReleaseIn(ctx context.Context, g Grant, rest time.Duration) error
}

// Pacer prescribes the pace of waiting instead of lock.Config.RetryEvery and
// its jitter, for a client that must poll as an old client does.
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

// Yielder is implemented by a Grant whose key may be wanted by clients that
// only poll. Its store can keep all other clients away from the key for a
// while.
type Yielder interface {
	// YieldFor returns how long the key is to be left to those clients if it is
	// released now. Zero: not at all. wish is lock.Config.Politeness; zero
	// means that the Backend decides, and it is never negative.
	YieldFor(wish time.Duration) time.Duration

	// ReleaseTo is [Grant.Release]. For gap after that, the store grants the
	// key to no caller of [Backend.Try]: an attempt gets a [*HeldError] with
	// Vacant set. If the key was lost, it is not left. After an error the
	// Client releases the grant as usual.
	ReleaseTo(ctx context.Context, gap time.Duration) error

	// Recheck checks whether another client took the key that was left. It
	// returns how long to wait before the next check; zero: none is needed.
	Recheck(ctx context.Context) time.Duration
}

// Sharded is implemented by a Grant of a Backend whose keys are on several
// servers. Grants whose Shard differs are never extended in one call, so that a
// server which does not answer delays no renewal of another's keys.
type Sharded interface {
	// Shard returns a comparable value for the server that has the key.
	Shard() any
}

// Fenced is implemented by a Grant that carries a fencing number: strictly
// greater than that of any earlier grant of its key. Zero means that this grant
// has no number.
type Fenced interface {
	Fence() int64
}

// Advisor lets a Backend say which times suit it. lock.New and
// lock.Client.With call it.
type Advisor interface {
	// Advise fills in fields that the caller left at zero, before the defaults
	// of package lock apply. It must not change a field that is set.
	Advise(Settings) Settings

	// Fits refuses times that do not suit the Backend. Its error names both
	// fields and the bound.
	Fits(ttl, renewEvery, margin time.Duration) error

	// Timeout is the longest time that a Release takes, whatever the store
	// does; if the Backend has to connect anew, twice that. The Client then
	// needs no timer of its own for it. Zero: there is no such bound.
	Timeout() time.Duration
}

// Settings are the fields of a lock.Config about which a Backend may have
// advice. Each has the meaning that it has there, and zero means that it was
// left out.
type Settings struct {
	TTL, RenewEvery, Margin, RetryEvery time.Duration
	LocalHandOvers                      int
}

// Inspector is implemented by a Backend that can look at a key, and free it by
// force, for lock.Client.Inspect and lock.Client.ForceRelease.
type Inspector interface {
	// Describe looks at a key and takes nothing.
	Describe(ctx context.Context, key string) (Info, error)

	// ForceRelease deletes the key if what is stored there is exactly value. It
	// reports whether it deleted.
	ForceRelease(ctx context.Context, key, value string) (bool, error)
}

// Info describes what is stored on a key.
type Info struct {
	Key string

	// Held is the error of an attempt that would find the key like this: a
	// [*HeldError] that names the holder, or an error that names another type
	// of value. Nil: the key is free.
	Held error

	// Value is what [Inspector] compares with the key.
	Value string

	// Detail is the Backend's own description: a modern.Info or a
	// legacy.Observation.
	Detail any
}

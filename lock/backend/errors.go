// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrHeld: another holder has the key. A [*HeldError] has the details.
	ErrHeld = errors.New("held by another")

	// ErrLost: the grant no longer holds the key.
	ErrLost = errors.New("lease lost")

	// ErrNotRenewable: grants of this kind end at their TTL and cannot be
	// extended.
	ErrNotRenewable = errors.New("lease cannot be renewed")

	// ErrNoRetry: waiting cannot help. A Backend wraps it, for example for a
	// value at which the old client that it stands in for gives up. It ends an
	// Acquire at once.
	ErrNoRetry = errors.New("waiting does not help")

	// ErrNoWake: this store cannot report that a key changed.
	ErrNoWake = errors.New("store cannot report changes")
)

// HeldError says who holds a key, as far as the store knows.
type HeldError struct {
	Key string

	// Owner is what the store knows of the holder: a token, an owner's id;
	// empty if nothing. It may contain any bytes; Error quotes it.
	Owner string

	// Protocol names how the key is held, such as the dialect of its value. If
	// the value is unreadable, it says why that counts as held.
	Protocol string

	// Left is how long until another client can acquire the key if its holder
	// does nothing more, by the store's clock. Zero if unknown.
	Left time.Duration

	// Until is the present end of the lease, by the clock of the machine that
	// asked. Its holder may renew the lease, unless Final is set. Zero if
	// unknown.
	Until time.Time

	// Final: no client renews the lease any more.
	Final bool

	// Stamp is the end that an old client wrote for its own lease, by the clock
	// of the machine that wrote it. Zero if it wrote none.
	Stamp time.Time

	// Passed says that by the store's clock the end that an old client wrote on
	// the key has passed. The Backend takes the key over when it has seen the
	// key unchanged for Left more.
	Passed bool

	// Vacant says that the key has no holder: for Left more, it is left to
	// clients that only poll.
	Vacant bool

	// Again is the longest time until a waiter should make its next attempt,
	// for backends that judge by what they see over time. Zero: no wish.
	Again time.Duration

	// Why is why the end of an old client's lease permits no takeover, and what
	// would. Empty: there is nothing to say.
	Why string
}

func (e *HeldError) Error() string {
	var b strings.Builder
	if e.Vacant {
		return fmt.Sprintf("key %q: nobody holds it; it is left to old clients for %d ms", e.Key,
			e.Left.Milliseconds())
	}
	fmt.Fprintf(&b, "key %q is held", e.Key)
	if e.Owner != "" {
		fmt.Fprintf(&b, " by %q", e.Owner)
	}
	if e.Protocol != "" {
		fmt.Fprintf(&b, " (%s)", e.Protocol)
	}
	b.WriteString(e.end())
	if e.Why != "" {
		b.WriteString("; " + e.Why)
	}
	return b.String()
}

// end describes what is known of the lease's end. It promises no end: a holder
// that renews keeps the key beyond any lease that can be seen.
func (e *HeldError) end() string {
	left := e.Left.Round(time.Millisecond)
	stamp := ", its stamp ends at " + e.Stamp.UTC().Format(stampText) + " by its writer's clock"
	switch {
	case !e.Stamp.IsZero() && e.Left > 0:
		return fmt.Sprintf("%s; if its holder does nothing more, the key can be taken in %v", stamp, left)
	case !e.Stamp.IsZero():
		return stamp
	case e.Left <= 0:
		return ""
	case e.Until.IsZero() && e.Final:
		return fmt.Sprintf(", its lease ends in %v and is not renewed", left)
	case e.Until.IsZero():
		return fmt.Sprintf(", its lease runs for another %v and may be renewed", left)
	case e.Final:
		return fmt.Sprintf(", its lease ends at %s (in %v) and is not renewed", e.clock(), left)
	}
	return fmt.Sprintf(", its lease runs until %s (in %v) and may be renewed", e.clock(), left)
}

// stampText shows the date too: a wrong clock may show another day.
const stampText = "2006-01-02 15:04:05Z"

// clock formats Until, with the date if the end is not near.
func (e *HeldError) clock() string {
	const near = 12 * time.Hour
	if e.Left < near {
		return e.Until.UTC().Format("15:04:05Z")
	}
	return e.Until.UTC().Format(stampText)
}

func (e *HeldError) Unwrap() error { return ErrHeld }

// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/lock/backend"
)

var (
	// ErrHeld: another holder has the key. A [*HeldError] has the details.
	ErrHeld = backend.ErrHeld

	// ErrWaitEnded: Config.Wait passed before the key was acquired. It comes
	// with [ErrHeld] if the last answer of the store was "held", else with the
	// last trouble of the store.
	ErrWaitEnded = errors.New("wait ended")

	// ErrTooLate: when the store granted the key, trust in that grant had ended
	// already. The Client undoes the grant and asks for the key again, a few
	// times.
	ErrTooLate = errors.New("granted too late to be trusted")

	// ErrLost: the lease no longer holds the key, or can no longer be trusted
	// to. A [*LostError] has the details.
	ErrLost = backend.ErrLost

	// ErrReleased: the lease was released by its holder.
	ErrReleased = errors.New("lease released")

	// ErrNotRenewable: leases of this kind end at their TTL and cannot be
	// extended. [Lease.Renew] returns it.
	ErrNotRenewable = backend.ErrNotRenewable

	// ErrNested: the context already carries a lease on this key, so waiting
	// for the key would never end. [Client.Do] joins such a lease.
	ErrNested = errors.New("key is already held through this context")

	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("lock client closed")
)

// passing reports whether trouble may pass. known is true if an error in err's
// tree has a method Passing, which then decides.
func passing(err error) (passes, known bool) {
	var p interface{ Passing() bool }
	if errors.As(err, &p) {
		return p.Passing(), true
	}
	return false, false
}

// answered reports whether err is the store's own answer: an error in its tree
// has a method Answered that returns true.
func answered(err error) bool {
	var a interface{ Answered() bool }
	return errors.As(err, &a) && a.Answered()
}

// HeldError says who holds a key, as far as the store knows. Package
// lock/backend documents its fields.
type HeldError = backend.HeldError

// LostError says why a lease ended before its holder released it.
type LostError struct {
	Key string

	// Reason is a clause such as "not renewed in time"; empty if Err says
	// enough.
	Reason string

	// Err is the last error of the store or the network, nil if there was none.
	Err error
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("lease on %q lost", e.Key)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + strings.TrimPrefix(e.Err.Error(), ErrLost.Error()+": ")
	}
	return s
}

// Unwrap makes errors.Is find both [ErrLost] and the cause.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Err}
}

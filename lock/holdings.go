// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Holding is one key that this process holds.
type Holding struct {
	Key   string
	Token string
	Since time.Time // when the lease began, by the Client's wall clock
	Until time.Time // end of trust if the lease is not renewed
}

// Stats summarises what this process holds.
type Stats struct {
	Leases int       // number of leases that can be trusted now
	Oldest time.Time // begin of the longest hold, zero if there is none
}

// Leases returns what this process holds, the oldest first: leases of c and of
// all Clients that share its Backend by [Client.With]. A lease that was lost is
// not included, whether released or not.
func (c *Client) Leases() []Holding {
	all := c.core.holdings()
	slices.SortFunc(all, func(a, b Holding) int { return a.Since.Compare(b.Since) })
	return all
}

// Stats summarises [Client.Leases].
func (c *Client) Stats() Stats {
	all := c.core.holdings()
	s := Stats{Leases: len(all)}
	for _, h := range all {
		if s.Oldest.IsZero() || h.Since.Before(s.Oldest) {
			s.Oldest = h.Since
		}
	}
	return s
}

func (k *core) holdings() []Holding {
	now := k.keeper.now()
	at := k.keeper.reading(now)
	k.sched.mu.Lock()
	leases := slices.Clone(k.sched.leases)
	k.sched.mu.Unlock()
	all := make([]Holding, 0, len(leases))
	for _, l := range leases {
		l.mu.Lock()
		if l.cause == nil && l.trust.holds(at) {
			all = append(all, Holding{
				Key: l.Key(), Token: l.grant.Token(),
				Since: now.Wall.Add(l.granted - now.Elapsed), Until: l.until(),
			})
		}
		l.mu.Unlock()
	}
	return all
}

var (
	errNoBackend = errors.New("lock: New: the backend is nil; make one first, for example by modern.New or legacy.New, and check its error")

	errOwned = errors.New("lock: New: this backend belongs to another Client already. Share that Client, which is safe for concurrent use; " +
		"give it other times by Client.With; or make a second backend")
)

// owned are the backends of Clients that were not closed yet. Two Clients on
// one backend would each take the other's goroutines for another process. The
// first Close would close the backend while the second Client uses it.
var owned sync.Map // Backend → nothing

// own returns the Backend behind s, and records that it belongs to a Client. A
// Backend that is no pointer cannot be distinguished from its equals, so own
// accepts it.
func own(s backend.Store) (backend.Backend, error) {
	if isNil(s) || isNil(s.Contract()) {
		return nil, errNoBackend
	}
	b := s.Contract()
	if t := reflect.TypeOf(b); t.Kind() != reflect.Pointer || t.Elem().Size() == 0 {
		return b, nil
	}
	if _, taken := owned.LoadOrStore(b, nil); taken {
		return nil, errOwned
	}
	return b, nil
}

func isNil(a any) bool {
	v := reflect.ValueOf(a)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// disown records that the Client of b was closed.
func disown(b backend.Backend) {
	if reflect.TypeOf(b).Kind() == reflect.Pointer {
		owned.Delete(b)
	}
}

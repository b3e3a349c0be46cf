// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Keys are the names of one lock.
type Keys struct {
	Name string // the caller's name for the lock
	L    string // the old clients' key on the server

	ArgL, ArgM any // names of L and, if it is used, M, boxed once for all commands
	argLook    any // name of the key that remembers looks at L, if M is used
}

func newKeys(name, l string, both bool) Keys {
	k := Keys{Name: name, L: l, ArgL: l}
	if both {
		m := MarkKey(l)
		k.ArgM, k.argLook = m, look.Key(m)
	}
	return k
}

// M returns M's name. Where L alone is used it is made only on demand.
func (k Keys) M() string {
	if m, ok := k.ArgM.(string); ok {
		return m
	}
	return MarkKey(k.L)
}

// Keys encodes a caller's key. It refuses the empty key and names that
// getsetlock uses for itself.
func (s *Server) Keys(name string) (Keys, error) {
	pkg := s.Settings.Package
	if name == "" {
		return Keys{}, fmt.Errorf("%s: the key is empty", pkg)
	}
	l, err := s.Settings.Dialect.EncodeKey(name)
	if err != nil {
		return Keys{}, fmt.Errorf("%s: key %q: %w", pkg, name, err)
	}
	if err := names.OwnNoProbe(l); err != nil {
		return Keys{}, fmt.Errorf("%s: %w", pkg, err)
	}
	return newKeys(name, l, !s.Settings.Bare), nil
}

// counter returns the key of the fencing numbers of a lock. It is the counter
// of a token lock on M, whose numbers go on from there.
func (s *Server) counter(k Keys) string { return names.OfSlot(s.Settings.Counters, k.M()) }

// MarkKey returns M, the getsetlock client's key alongside the legacy key L, in
// the same slot of a cluster. It is the same for every process, and the wire
// format pins it. A cluster hashes L, so M contains L as its hash tag, or keeps
// the tag that L has.
//
// HAZARD: if L contains a "}" but no hash tag, no second name falls into its
// slot. On a single server that does no harm. A cluster refuses the scripts,
// and the error says so.
func MarkKey(l string) string {
	return scope.Mark(l)
}

// splitSlots reports whether L and M cannot share a slot.
func splitSlots(l string) bool { return strings.Contains(l, "}") && !scope.HasTag(l) }

// TypeError reports a key whose type no old client's lock can have.
type TypeError struct {
	Key  string
	Type string // as the Redis command TYPE names it; empty if unknown
}

func (e *TypeError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("legacy: key %q does not hold a string: an old client's lock is a string", e.Key)
	}
	return fmt.Sprintf("legacy: key %q holds a %s, not a string: an old client's lock is a string", e.Key,
		e.Type)
}

// Unwrap returns backend.ErrNoRetry: no release ever frees such a key.
func (e *TypeError) Unwrap() error { return backend.ErrNoRetry }

// Trouble adds to a server or network error what was tried. It wraps the cause,
// so that errors.Is and errors.As find an ended context and whether the command
// was sent.
func (s *Server) Trouble(k Keys, what string, err error) error {
	err = wire.Judged(err)
	pkg := s.Settings.Package
	switch {
	case wire.IsWrongType(err):
		return &TypeError{Key: k.Name}
	case wire.IsCluster(err) && splitSlots(k.L):
		return fmt.Errorf("%s: %s key %q: the name contains a \"}\" but no hash tag, so the second key %q lies in another slot; in a cluster, choose another name or use legacy.Verbatim: %w",
			pkg, what, k.Name, k.M(), err)
	}
	var said redis.Error
	switch {
	case wire.IsNoPerm(err) && k.ArgM != nil || refusesRight(err):
		numbers := ""
		if s.Settings.Counters != "" {
			numbers = fmt.Sprintf(", on %q", s.counter(k))
		}
		return fmt.Errorf("%s: %s key %q: the server refuses; the user needs rights on the keys %q and %q*%s, and EVAL, EVALSHA and what the scripts call (TIME, TYPE, EXISTS, GET, GETRANGE, STRLEN, SET, DEL, PTTL, PEXPIRE): %w",
			pkg, what, k.Name, k.L, k.M(), numbers, err)
	case errors.As(err, &said):
		return fmt.Errorf("%s: %s key %q: the server answered: %w", pkg, what, k.Name, err)
	}
	return fmt.Errorf("%s: %s key %q: %w", pkg, what, k.Name, err)
}

// refusesRight recognises what newer servers answer when a command inside a
// script is not allowed.
func refusesRight(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "ACL failure in script")
}

package legacy

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

var errEmptyKey = errors.New("legacy: the key is empty")

// keys are the names of one lock.
type keys struct {
	name string // the caller's name for the lock
	l    string // L, the old clients' key on the server
	both bool   // M is used too

	argL, argM any // names of L and, if it is used, M, boxed once for all commands
	argLook    any // name of the key that remembers looks at L, if M is used
}

func newKeys(name, l string, both bool) keys {
	k := keys{name: name, l: l, both: both, argL: l}
	if both {
		m := MarkKey(l)
		k.argM, k.argLook = m, look.Key(m)
	}
	return k
}

// m returns M's name. In Verbatim it is made only on demand, since old clients
// do not use M.
func (k keys) m() string {
	if m, ok := k.argM.(string); ok {
		return m
	}
	return MarkKey(k.l)
}

// keys encodes a caller's key. It refuses the empty key and names that
// getsetlock uses for itself.
func (s *server) keys(name string) (keys, error) {
	if name == "" {
		return keys{}, errEmptyKey
	}
	l, err := s.dialect.EncodeKey(name)
	if err != nil {
		return keys{}, fmt.Errorf("legacy: key %q: %w", name, err)
	}
	if err := names.OwnNoProbe(l); err != nil {
		return keys{}, fmt.Errorf("legacy: %w", err)
	}
	return newKeys(name, l, s.cfg.Mode == Hardened), nil
}

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

// trouble adds to a server or network error what was tried. It wraps the cause,
// so that errors.Is and errors.As find an ended context and whether the command
// was sent.
func trouble(k keys, what string, err error) error {
	err = wire.Judged(err)
	switch {
	case wire.IsWrongType(err):
		return &TypeError{Key: k.name}
	case wire.IsCluster(err) && splitSlots(k.l):
		return fmt.Errorf("legacy: key %q contains a \"}\" but no hash tag, so Hardened cannot have its second key in the same slot; in a cluster, choose another key or use Verbatim: %w", k.name, err)
	}
	var said redis.Error
	switch {
	case wire.IsNoPerm(err) && k.both || refusesRight(err):
		return fmt.Errorf("legacy: %s key %q: the server refuses; the user needs rights on the keys %q and %q*, and EVAL, EVALSHA and what the scripts call (TIME, TYPE, GET, SET, DEL, PTTL …): %w",
			what, k.name, k.l, k.m(), err)
	case errors.As(err, &said):
		return fmt.Errorf("legacy: %s key %q: the server answered: %w", what, k.name, err)
	}
	return fmt.Errorf("legacy: %s key %q: %w", what, k.name, err)
}

// refusesRight recognises what newer servers answer when a command inside a
// script is not allowed.
func refusesRight(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "ACL failure in script")
}

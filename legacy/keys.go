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
	"github.com/getsetlock/getsetlock/lock"
)

var errEmptyKey = errors.New("legacy: the key is empty")

// keys are the names of one lock on the server.
type keys struct {
	name string // as the caller says it
	l    string // as the server has it
	both bool   // M is used too

	argL, argM any // l and, if it is used, M: boxed once for all commands
	argLook    any // where looks at l are remembered, if M is used
}

func newKeys(name, l string, both bool) keys {
	k := keys{name: name, l: l, both: both, argL: l}
	if both {
		m := MarkKey(l)
		k.argM, k.argLook = m, look.Key(m)
	}
	return k
}

// m is M's name, which is made only where it is needed: the old client knows of none.
func (k keys) m() string {
	if m, ok := k.argM.(string); ok {
		return m
	}
	return MarkKey(k.l)
}

// keys encodes a caller's key.
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

// MarkKey returns M, the key of ours that stands beside the legacy key L in the same slot of a
// cluster. It is the same for every process and pinned: L is the part that is hashed, so M names L
// as its hash tag, or keeps the tag that L has.
//
// HAZARD: where L holds a "}" and no tag of its own, no second name falls into its slot. On a single
// server that does no harm; a cluster refuses the scripts, and the error says so.
func MarkKey(l string) string {
	return scope.Mark(l)
}

// splitSlots reports that L and M cannot share a slot.
func splitSlots(l string) bool { return strings.Contains(l, "}") && !scope.HasTag(l) }

// TypeError says that a key holds what no lock of this kind can be.
type TypeError struct {
	Key  string
	Type string // Redis' own word; empty if it did not say
}

func (e *TypeError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("legacy: key %q does not hold a string: it is no lock of an old client", e.Key)
	}
	return fmt.Sprintf("legacy: key %q holds a %s, not a string: it is no lock of an old client", e.Key, e.Type)
}

// Unwrap returns lock.ErrNoRetry: no lock is ever released from such a key.
func (e *TypeError) Unwrap() error { return lock.ErrNoRetry }

// trouble names what was tried when the server or the network failed. The cause stays visible, so
// that an ended context and the wire's certainty are found by errors.Is and errors.As.
func trouble(k keys, what string, err error) error {
	err = wire.Judged(err)
	switch {
	case wire.IsWrongType(err):
		return &TypeError{Key: k.name}
	case wire.IsCluster(err) && splitSlots(k.l):
		return fmt.Errorf("legacy: key %q holds a \"}\" and no hash tag, so no second key of ours can stand in its slot; in a cluster such a key cannot be hardened: %w", k.name, err)
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

// refusesRight recognises what newer servers answer where a command inside a script lacks the right.
func refusesRight(err error) bool {
	var said redis.Error
	return errors.As(err, &said) && strings.Contains(string(said), "ACL failure in script")
}

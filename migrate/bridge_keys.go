package migrate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

var (
	errEmptyKey = errors.New("migrate: the key is empty")
	errOddReply = errors.New("the server's reply has another form than the script's")
)

// ErrOutside says that a key is not in the member's namespace, so that no phase
// holds for it.
var ErrOutside = errors.New("migrate: the namespace does not own the key")

// bridgeKeys are the names of one lock on the server, boxed once for all
// commands.
type bridgeKeys struct {
	name       string // the caller's name
	l, m       string
	argL, argM any
	argLook    any // key that remembers a look at a past stamp
}

func (b *bridgeEngine) keys(name string) (bridgeKeys, error) {
	if name == "" {
		return bridgeKeys{}, errEmptyKey
	}
	l, err := b.dialect.EncodeKey(name)
	if err != nil {
		return bridgeKeys{}, fmt.Errorf("migrate: key %q: %w", name, err)
	}
	if err := names.OwnNoProbe(l); err != nil {
		return bridgeKeys{}, fmt.Errorf("migrate: %w", err)
	}
	return rawKeys(name, l), nil
}

func rawKeys(name, l string) bridgeKeys {
	m := legacy.MarkKey(l)
	return bridgeKeys{name: name, l: l, m: m, argL: l, argM: m, argLook: look.Key(m)}
}

// bridgeTrouble says what was tried when the server or the network failed.
func bridgeTrouble(k bridgeKeys, what string, err error) error {
	err = wire.Judged(err)
	var said redis.Error
	switch {
	case wire.IsCluster(err) && strings.Contains(k.l, "}"):
		return fmt.Errorf("migrate: %s key %q: the server answered that %q lies in another slot; in a cluster a lock needs a name without \"}\", or one with a hash tag: %w",
			what, k.name, k.argM, err)
	case wire.IsNoPerm(err), errors.As(err, &said) && strings.Contains(string(said), "ACL failure in script"):
		return fmt.Errorf("migrate: %s key %q: the server refuses; the user needs rights on the keys %q, %q, %q and gsl:fence:*, and EVAL, EVALSHA and what the scripts call (TIME, TYPE, EXISTS, GET, GETRANGE, STRLEN, SET, DEL, PTTL, PEXPIRE): %w",
			what, k.name, k.l, k.argM, k.argLook, err)
	case errors.As(err, &said):
		return fmt.Errorf("migrate: %s key %q: the server answered: %w", what, k.name, err)
	}
	return fmt.Errorf("migrate: %s key %q: %w", what, k.name, err)
}

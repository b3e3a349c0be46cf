// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// opening is the store of one command line, opened for its protocol, and all
// that differs between protocols. The functions openModern, openLegacy,
// openDual, openQuorum and openTarget make one; a [keeper] uses it.
type opening struct {
	store backend.Store // takes the lock; the keeper's client closes it
	where string        // address without its password, for messages

	// look looks at a key and takes nothing.
	look func(ctx context.Context, key string) (sight, error)

	// All that follows may be missing.

	// stored reports whether the server has a key of exactly that name. nil:
	// the key has no other spelling, or the servers are not asked for one.
	// encoding is how this store spells names.
	stored   func(ctx context.Context, raw string) (bool, error)
	encoding dialect.Encoding

	// refuse returns why a key must not be taken.
	refuse func(ctx context.Context, key string) error

	// explain rewords why an attempt failed, in terms of the command line.
	explain func(error) error

	// name returns a better description of the holder, or nil.
	name func(ctx context.Context, who *lock.HeldError) *lock.HeldError

	// short returns why too few servers of a quorum vote, nil if enough do.
	short func(ctx context.Context) error

	// warnings returns what the user should know, as far as it is known when
	// the command starts, and again when it has ended. It asks no server: the
	// lock is held by then.
	warnings func() []string

	// leave ends what was opened besides the store, when the client is closed.
	// ttl is the lock's; wait bounds the work.
	leave func(wait, ttl time.Duration)

	verbatim bool          // only an old client's commands may be sent, and the value is the token
	session  bool          // the lock ends with this process, so --keep lets the process stay
	granted  time.Duration // the TTL that the store grants; 0: what was asked for
	late     time.Duration // the part of --wait that passed while the store was opened
}

// sight is what one look at a lock showed.
type sight struct {
	who   *lock.HeldError // nil: nothing is stored that keeps a client out
	free  bool            // a getsetlock client could take the lock
	token string          // of the client that holds the lock, without its note; empty: there is none
}

// open opens the store that the flags name, for their protocol.
func (f *runFlags) open(e *out.Env, ctx context.Context, command []string) (*opening, error) {
	switch {
	case f.target != nil:
		return f.openTarget(e, ctx, command)
	case f.server.Quorum:
		return f.openQuorum(e, command)
	case f.moves():
		return f.openDual(e, ctx, command)
	case f.protocol == out.ProtocolModern:
		return f.openModern(e, command)
	}
	return f.openLegacy(e)
}

// defaultTTL is that of package lock.
const defaultTTL = 30 * time.Second

// advisedTTL returns the TTL that a lock in a store gets, unless the store
// grants less.
func (f *runFlags) advisedTTL(store backend.Store) time.Duration {
	asked := backend.Settings{TTL: f.ttl}
	if a, ok := store.Contract().(backend.Advisor); ok {
		asked = a.Advise(asked)
	}
	return cmp.Or(asked.TTL, defaultTTL)
}

// longestNote is the longest note that modern.Config.Note allows, in bytes.
const longestNote = 200

// noteOf returns the note that people see next to the token: the host and the
// command's name.
func noteOf(e *out.Env, command []string) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, e.Host()+" "+filepath.Base(command[0]))
	return cutNote(text)
}

// cutNote cuts a text to the length of a note, without half a rune at its end.
func cutNote(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longestNote)], "")
}

// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// openModern opens a server, or a cluster, on which the lock is a token.
// Nothing is sent.
func (f *runFlags) openModern(e *out.Env, command []string) (*opening, error) {
	b, address, err := f.server.Tokens(e, modern.Config{
		Fence: true, Namespace: f.namespace, Replicas: f.replicas, Note: noteOf(e, command),
		Timeout: e.Timeout,
	})
	if err != nil {
		return nil, err
	}
	return &opening{
		store: b, where: address, encoding: dialect.Plain,
		explain: func(err error) error { return besideStamps(err, e.Clock.Now()) },
		look: func(ctx context.Context, key string) (sight, error) {
			info, err := b.Inspect(ctx, key)
			if err != nil || !info.Exists {
				return sight{free: err == nil}, err
			}
			return sight{who: holderOf(key, info), token: info.Token}, nil
		},
		stored: func(ctx context.Context, raw string) (bool, error) {
			info, err := b.Inspect(ctx, raw)
			return info.Exists, err
		},
	}, nil
}

// holderOf names the holder of a token lock by its note, as ls does.
func holderOf(key string, info modern.Info) *lock.HeldError {
	held := &lock.HeldError{Key: key, Owner: cmp.Or(info.Note, info.Token), Left: info.Left,
		Protocol: info.Looks}
	if info.Looks != "" {
		held.Owner = out.Shortened(info.Value, 40)
	}
	return held
}

// besideStamps rewords the error for a key that holds an old client's
// timestamp, so that it names the flags that help. By the rules of token locks
// such a key is held for ever.
func besideStamps(err error, now time.Time) error {
	var e *lock.HeldError
	if !errors.As(err, &e) {
		return err
	}
	said, flag := *e, "--dialect"
	switch m := dialect.Identify(e.Owner, now, dialect.Hints{Prefer: dialect.Jedis().Name})[0]; {
	case m.Look == dialect.LookStamp && len(m.Dialects) > 1:
		said.Protocol = fmt.Sprintf("an old client's timestamp, %s or compatible", m.Dialects[0])
		flag += " " + dialect.Fold(m.Dialects[0])
	case m.Look == dialect.LookStamp:
		said.Protocol = "an old client's timestamp, " + strings.Join(m.Dialects, "")
		flag += " " + strings.Join(m.Dialects, "")
	case strings.HasPrefix(e.Protocol, "a timestamp"):
		said.Protocol = "an old client's timestamp, of no plausible time"
	default:
		return err
	}
	said.Protocol += "; use " + flag + " to share this lock, or getsetlock migrate to move off it"
	return &said
}

// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// The methods of this file make an engine a voter of package quorum. Its Config
// can have Fence, and neither Fair nor Replicas; Note and Token are the
// quorum's business.

// Admit lets check ask who answers on each new connection, before anything else
// is sent over it. If check returns an error, the connection is not used. Admit
// is called once, before the first call of another method.
func (b *engine) Admit(check func(redis.Conn) error) error {
	if b.cfg.Fair || b.cfg.Replicas > 0 {
		return errors.New("modern: a member of a quorum must have neither Config.Fair nor Config.Replicas")
	}
	b.admit = check
	return nil
}

// admitted is the Setup of every connection that carries commands.
func (b *engine) admitted(c redis.Conn) error {
	if b.admit == nil {
		return nil
	}
	return b.admit(c)
}

// Do sends one command over the connection that attempts use.
func (b *engine) Do(ctx context.Context, name string, args ...any) (any, error) {
	return b.user.Do(ctx, name, args...)
}

// TryAs is Try with this token, which becomes the key's whole value. It draws
// one number: leases of a quorum are not shared with numbers. Its HeldError
// does not say who has the key.
func (b *engine) TryAs(ctx context.Context, key, token string, ttl time.Duration) (backend.Grant, error) {
	if err := b.validAs(key, token, ttl); err != nil {
		return nil, err
	}
	g := &grant{b: b, key: key, token: token}
	g.written(backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl})
	var reply any
	var err error
	taken := false
	if b.cfg.Fence {
		reply, err = b.drawn(ctx, acquireScript, g.key, b.counter(g.key), g.token, millis(ttl), 1)
		g.fence, _ = reply.(int64)
		taken = g.fence > 0
	} else {
		reply, err = b.user.Do(ctx, "SET", g.key, g.token, "NX", "PX", millis(ttl))
		taken = reply != nil
	}
	switch {
	case err != nil:
		return nil, b.attempted(g, err)
	case !taken:
		return nil, &backend.HeldError{Key: key}
	}
	return g, nil
}

func (b *engine) validAs(key, token string, ttl time.Duration) error {
	own, note, _ := strings.Cut(token, " ")
	if len(own) < shortestToken {
		return fmt.Errorf("modern: token %q has less than %d bytes", own, shortestToken)
	}
	if err := validNote(note); err != nil {
		return err
	}
	return valid(key, ttl)
}

// Raise makes the next number of the namespace greater than number, if the key
// of the grant still carries its token.
func (b *engine) Raise(ctx context.Context, granted backend.Grant, number int64) error {
	g, ok := granted.(*grant)
	if !ok {
		return errForeignGrant
	}
	reply, err := b.user.Eval(ctx, raiseScript, g.key, b.counter(g.key), g.token, number)
	if err != nil {
		return trouble("write the number of", g.key, err)
	}
	if done, _ := reply.(int64); done == notOurs {
		return g.gone(ctx)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Extend renews the grant by the settings' Extender.
func (g *Grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.e.Settings.Extender.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews grants in one batch of messages.
func (e *Engine) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	own, errs := make([]*Grant, len(grants)), make([]error, len(grants))
	ttls := make([]time.Duration, len(grants))
	for i := range grants {
		own[i], errs[i] = e.Own(grants[i])
		ttls[i] = ttl
	}
	return e.Renew(ctx, own, ttls, errs), errs
}

// Own returns a grant of this Engine as such.
func (e *Engine) Own(g backend.Grant) (*Grant, error) {
	if own, ok := g.(*Grant); ok && own.e == e {
		return own, nil
	}
	return nil, fmt.Errorf("%s: the grant belongs to another backend (%T)", e.Settings.Package, g)
}

// Renew renews those grants that have no error yet, each for its TTL, in one
// batch of messages. It returns the new terms and adds to errs.
func (e *Engine) Renew(ctx context.Context, grants []*Grant, ttls []time.Duration, errs []error,
) []backend.Term {
	terms := make([]backend.Term, len(grants))
	live := make([]int, 0, len(grants))
	for i, g := range grants {
		if errs[i] == nil {
			errs[i] = g.Gone()
		}
		if errs[i] == nil {
			live = append(live, i)
		}
	}
	if len(live) > 0 {
		e.renew(ctx, grants, live, ttls, terms, errs)
	}
	return terms
}

// renew sends the renewals of the grants at the indices live. It repeats those
// that an old server refused because their script calls TIME.
func (e *Engine) renew(ctx context.Context, grants []*Grant, live []int, ttls []time.Duration,
	terms []backend.Term, errs []error) {
	sentAt, took := backend.ReadClock(ctx), e.Clock.begin()
	sec, usec := argNone, argNone
	old := e.oldServer.Load() && stamped(grants, live)
	if old {
		var err error
		if sec, usec, err = e.time(ctx); err != nil {
			for _, i := range live {
				errs[i] = e.Trouble(grants[i].k, "renew", err)
			}
			return
		}
	}
	cmds, sent := make([]wire.Command, 0, len(live)), make([]int, 0, len(live))
	for _, i := range live {
		g := grants[i]
		g.account.Sending(ttls[i])
		cmd, err := g.renewal(ttls[i], sec, usec)
		if err != nil {
			errs[i] = fmt.Errorf("%s: key %q: %w", e.Settings.Package, g.k.Name, err)
			continue
		}
		// The script's own writes end the server's tracking of these keys. Its
		// reads after the writes, sent with tracking, begin it anew.
		cmd.Track = g.watched.Load() > 0
		cmds, sent = append(cmds, cmd), append(sent, i)
	}
	var refused []int
	replies := e.Mux.Batch(ctx, cmds)
	took = e.Clock.end(took)
	for n, r := range replies {
		i := sent[n]
		if !old && grants[i].strategy == Stamp && wire.RefusesTime(r.Err) {
			refused = append(refused, i)
			continue
		}
		terms[i], errs[i] = grants[i].renewed(r, sentAt, took)
	}
	if len(refused) > 0 {
		e.oldServer.Store(true)
		e.renew(ctx, grants, refused, ttls, terms, errs)
	}
}

// renewal is a renewal for ttl. sec and usec are the server's clock where no
// script may read it, otherwise empty.
func (g *Grant) renewal(ttl time.Duration, sec, usec any) (wire.Command, error) {
	if g.stamp != nil {
		return g.stamp.renewal(g, ttl, sec, usec)
	}
	return guardRenew.Cmd(g.k.ArgL, g.k.ArgM, g.token, g.e.px(ttl), g.e.tomb, argTombPX), nil
}

// stamped reports whether one of the grants writes the server's clock.
func stamped(grants []*Grant, live []int) bool {
	for _, i := range live {
		if grants[i].strategy == Stamp {
			return true
		}
	}
	return false
}

// renewed reads a renewal's reply, which was under way during took: the PTTLs
// of L and M before, those after, and for a stamp the server's clock.
func (g *Grant) renewed(r wire.Reply, at backend.Instant, took roundTrip) (backend.Term, error) {
	if r.Err != nil {
		return backend.Term{}, g.e.Trouble(g.k, "renew", r.Err)
	}
	whole := 5
	if g.strategy == Stamp {
		whole = 7
	}
	f, _ := r.Value.([]any)
	switch {
	case len(f) == 2:
		return backend.Term{}, g.lose(f)
	case len(f) != whole:
		return backend.Term{}, g.e.Trouble(g.k, "renew", errOddReply)
	}
	g.cut(f[1], f[2])
	if g.strategy == Stamp {
		g.e.sawClock(took, Number(f[5])*1e6+Number(f[6]))
	}
	return backend.Term{Sent: at, TTL: g.lesser(f[3], f[4])}, nil
}

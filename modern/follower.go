// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// follower is a grant in a cluster. Its part is the grant at one primary, and
// is replaced by one at the present primary when the slot has moved. All parts
// have the same token, so it makes no difference to a holder which node has the
// key.
type follower struct {
	c *fleet

	mu   sync.Mutex
	part *grant
}

// following returns a grant of an engine as one that follows its slot.
func (c *fleet) following(g backend.Grant) *follower { return &follower{c: c, part: g.(*grant)} }

// now returns the present part.
func (f *follower) now() *grant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.part
}

// at returns the part at e, which becomes the present one.
func (f *follower) at(e *engine) *grant {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.part.b != e {
		f.part.unwatch()
		f.part = f.part.at(e)
	}
	return f.part
}

// at returns a copy of g for the server of another engine.
func (g *grant) at(e *engine) *grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &grant{b: e, key: g.key, token: g.token, fence: g.fence, doubt: g.doubt, sent: g.sent,
		wall: g.wall, ttl: g.ttl, spare: g.spare, given: g.given, queued: g.queued, asked: g.asked,
		over: g.over, leaves: g.leaves}
}

func (f *follower) Token() string      { return f.now().token }
func (f *follower) Fence() int64       { return f.now().fence }
func (f *follower) Term() backend.Term { return f.now().Term() }
func (f *follower) Shard() any         { return f.now().b }

// Share is that of the grant.
func (f *follower) Share() (backend.Grant, bool) {
	part := f.now()
	next, ok := part.Share()
	switch {
	case !ok:
		return nil, false
	case next == backend.Grant(part):
		return f, true
	}
	return f.c.following(next), true
}

// Extend is that of the grant.
func (f *follower) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := f.c.ExtendAll(ctx, []backend.Grant{f}, ttl)
	return terms[0], errs[0]
}

// Release is that of the grant, at the present primary.
//
// An attempt of unknown outcome is undone for certain all the same. The undo
// first follows the attempt on its connection, to the primary of then. If that
// answers with a redirection, it has executed or redirected the attempt before,
// and takes none for this slot any more. If the attempt had written the key,
// that has moved with its slot, or was moved before: a node redirects only what
// it does not have. So the answer of the node that executes the undo counts. If
// the connection has ended, the answer "not held" is not certain, and the
// caller asks again until the TTL has passed.
func (f *follower) Release(ctx context.Context) error { return f.release(ctx, 0) }

// ReleaseIn is that of the engine, at the present primary.
func (c *fleet) ReleaseIn(ctx context.Context, g backend.Grant, rest time.Duration) error {
	f, ok := g.(*follower)
	if !ok {
		return errForeignGrant
	}
	return f.release(ctx, rest)
}

// release is Release, or ReleaseIn if rest is not 0.
func (f *follower) release(ctx context.Context, rest time.Duration) error {
	return f.c.follow(ctx, f.now().key, func(e *engine, on sender, ask bool) error {
		if ask { // the slot is still that of the node before
			return f.now().release(ctx, on, rest)
		}
		return f.at(e).release(ctx, on, rest)
	})
}

// ExtendAll renews grants at the primaries of their slots, which are asked at
// the same time.
func (c *fleet) ExtendAll(ctx context.Context, grants []backend.Grant,
	ttl time.Duration) ([]backend.Term, []error) {
	terms := make([]backend.Term, len(grants))
	errs := c.spread(ctx, grants, func(e *engine, parts []backend.Grant, at []int) []error {
		found, errs := e.ExtendAll(ctx, parts, ttl)
		for i, n := range at {
			terms[n] = found[i]
		}
		return errs
	})
	for i, err := range errs {
		if r, ok := wire.RedirectOf(err); ok && r.Ask {
			terms[i], errs[i] = c.extendMoving(ctx, grants[i].(*follower), ttl)
		}
	}
	return terms, errs
}

// extendMoving renews a grant whose slot is moving.
func (c *fleet) extendMoving(ctx context.Context, f *follower, ttl time.Duration) (t backend.Term,
	err error) {
	err = c.follow(ctx, f.now().key, func(e *engine, on sender, ask bool) (err error) {
		if ask {
			t, err = f.now().extendOn(ctx, on, ttl)
		} else {
			t, err = f.at(e).Extend(ctx, ttl)
		}
		return err
	})
	return t, err
}

// extendOn is Extend over the given connection, without a watch.
func (g *grant) extendOn(ctx context.Context, on sender, ttl time.Duration) (backend.Term, error) {
	t := backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl}
	reply, err := on.Eval(ctx, renewScripts.of(1), g.key, millis(ttl), g.token)
	found, err := replies(wire.Reply{Value: reply, Err: err}, 1)
	switch {
	case err != nil:
		return backend.Term{}, trouble("renew", g.key, err)
	case !g.renewed(found[0], t, backend.ReadClock(ctx)):
		return backend.Term{}, g.lost(ctx)
	}
	return t, nil
}

// Watch is that of the engines.
func (c *fleet) Watch(ctx context.Context, grants []backend.Grant,
	holders []interface{ Touched() }) []error {
	return c.spread(ctx, grants, func(e *engine, parts []backend.Grant, at []int) []error {
		some := make([]interface{ Touched() }, len(at))
		for i, n := range at {
			some[i] = holders[n]
		}
		return e.Watch(ctx, parts, some)
	})
}

// Unwatch is that of the engine.
func (c *fleet) Unwatch(g backend.Grant) {
	if f, ok := g.(*follower); ok {
		f.now().unwatch()
	}
}

// spread calls send for the grants of each primary, for all primaries at the
// same time, and again for grants whose slot has moved. at has their indexes in
// grants. It returns an error for each grant; a redirection by ASK is one.
func (c *fleet) spread(ctx context.Context, grants []backend.Grant,
	send func(e *engine, parts []backend.Grant, at []int) []error) []error {
	errs := make([]error, len(grants))
	todo := make([]int, len(grants))
	for i := range todo {
		todo[i] = i
	}
	for range mostRedirects {
		groups := c.grouped(ctx, grants, todo, errs)
		var sent sync.WaitGroup
		for addr, at := range groups {
			sent.Go(func() { c.sendTo(addr, grants, at, errs, send) })
		}
		sent.Wait()
		if todo = c.elsewhere(ctx, groups, grants, errs); len(todo) == 0 {
			return errs
		}
	}
	for _, i := range todo {
		errs[i] = &movingError{errs[i]}
	}
	return errs
}

// grouped returns the grants of todo by their primaries. It sets the errors of
// those that have none.
func (c *fleet) grouped(ctx context.Context, grants []backend.Grant, todo []int,
	errs []error) map[string][]int {
	groups := make(map[string][]int)
	for _, i := range todo {
		f, ok := grants[i].(*follower)
		if !ok || f.c != c {
			errs[i] = errForeignGrant
			continue
		}
		key := f.now().key
		addr, err := c.table.Owner(ctx, names.Slot(key))
		if err != nil {
			errs[i] = trouble("find the primary of", key, err)
			continue
		}
		groups[addr] = append(groups[addr], i)
	}
	return groups
}

// elsewhere returns the grants that another node has than the one that was
// asked.
func (c *fleet) elsewhere(ctx context.Context, groups map[string][]int, grants []backend.Grant,
	errs []error) (todo []int) {
	refresh := sync.OnceValue(func() error { return c.table.Refresh(ctx) }) // one for all grants
	for addr, at := range groups {
		for _, i := range at {
			r, ok := wire.RedirectOf(errs[i])
			switch {
			case ok && !r.Ask:
				c.table.Redirected(addr, r)
				todo = append(todo, i)
			case !ok && c.promoted(ctx, addr, grants[i].(*follower).now().key, errs[i], refresh):
				todo = append(todo, i)
			}
		}
	}
	return todo
}

// sendTo calls send for the grants whose primary is at addr.
func (c *fleet) sendTo(addr string, grants []backend.Grant, at []int, errs []error,
	send func(e *engine, parts []backend.Grant, at []int) []error) {
	e, err := c.engine(addr)
	if err != nil {
		for _, i := range at {
			errs[i] = err
		}
		return
	}
	parts := make([]backend.Grant, len(at))
	for i, n := range at {
		parts[i] = grants[n].(*follower).at(e)
	}
	for i, err := range send(e, parts, at) {
		errs[at[i]] = c.learned(err)
	}
}

// moving is a place in a cluster. When the slot has moved, it takes a new place
// at the present primary: a node tells only its own subscribers that they have
// a key, and the trust in a gift counts from a try at the node that gave it.
type moving struct {
	c *fleet
	*place
}

// Try is that of the place.
func (m *moving) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	return m.c.attempt(ctx, m.g.key, func(e *engine) (backend.Grant, error) {
		if m.b != e {
			if err := m.place.at(e); err != nil {
				return nil, err
			}
		}
		return m.place.Try(ctx, ttl)
	})
}

// at moves the place to another server. If the key was given to it, it keeps
// its token, which may be on the key.
func (p *place) at(e *engine) error {
	given := p.b.waits.given(p) > 0
	switch {
	case given && p.refused.TTL > 0 || p.done:
		return nil // Try has its answer
	case given, p.alone:
		p.b, p.g = e, p.g.at(e)
		return nil
	}
	p.b.waits.drop(p.g.token)
	p.b = e
	return p.anew()
}

// Await is that of the place.
func (m *moving) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	m.c.table.Attend(m.c.waits.any)
	return m.place.Await(ctx, wake)
}

// Leave is that of the place.
func (m *moving) Leave(ctx context.Context) error {
	if m.alone || m.member == "" {
		return nil
	}
	m.end()
	return m.c.follow(ctx, m.g.key, func(e *engine, on sender, _ bool) error {
		if _, err := e.leaveLine(ctx, on, m.g.key, m.member); err != nil {
			return trouble("leave the line for", m.g.key, err)
		}
		return nil
	})
}

// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// place is a waiter's node in ZooKeeper's queue: the order of sequence numbers.
// It waits for the node before its own to be deleted, and asks for all of the
// lock's children only then. The holder is the place without a node before it.
type place struct {
	b      *engine
	name   string
	used   bool   // got its grant, or was left; only the caller's goroutine uses it
	g      *grant // nil: no node yet
	before string // name of the node before; empty: unknown
	second bool   // that node holds the lock
}

// First is Try.
func (b *engine) First(ctx context.Context, name string, ttl time.Duration) (backend.Grant, error) {
	return b.Try(ctx, name, ttl)
}

// Enter prepares a place in the queue.
func (b *engine) Enter(_ context.Context, name string) (backend.Place, error) {
	if err := valid(name, LeastTTL); err != nil {
		return nil, err
	}
	return &place{b: b, name: name}, nil
}

// Try takes the lock if no node stands before this place's. The first Try
// creates the place's node; the others only read.
func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	if err := valid(p.name, ttl); err != nil {
		return nil, err
	}
	switch {
	case p.used:
		return nil, errors.New("zookeeper: this place in the queue is used up")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return sessions.Retried(tooShort, func() (backend.Grant, error) {
		if p.g == nil {
			if err := p.stand(ctx, ttl); err != nil {
				return nil, err
			}
		}
		return p.ask(ctx, ttl)
	})
}

// stand creates the node of the place, at the end of the queue.
func (p *place) stand(ctx context.Context, ttl time.Duration) error {
	s, err := p.b.session(ctx, ttl)
	if err == nil {
		err = p.b.suits(s, ttl)
	}
	if err != nil {
		return p.b.trouble("queue for", p.name, err)
	}
	g := s.newGrant(p.name)
	if err := s.create(ctx, g); err != nil {
		var unsure *backend.UnsureError
		p.used = errors.As(err, &unsure)
		return err
	}
	s.Wait(g)
	p.g = g
	return nil
}

// ask looks whether a node stands before the place's own.
func (p *place) ask(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	g, s := p.g, p.g.s
	if held, err := p.behind(ctx); held {
		return nil, err
	}
	var queue []contender
	var err error
	if g.Fence() == 0 {
		queue, err = s.stand(ctx, g)
	} else {
		queue, err = s.look(ctx, p.name)
	}
	switch {
	case errors.Is(err, sessions.ErrOver), errors.Is(err, zk.ErrNoNode):
		return nil, p.lapse()
	case err != nil:
		return nil, p.b.trouble("queue for", p.name, err)
	}
	own := s.b.path(p.name) + "/"
	at := slices.IndexFunc(queue, func(c contender) bool { return own+c.name == g.path })
	switch {
	case at < 0:
		return nil, p.lapse()
	case at > 0:
		p.before, p.second = queue[at-1].name, at == 1
		return nil, held(p.name, queue[0].name)
	}
	if s.stale() {
		// No sign of life counted for long. The keeper is about to change that;
		// meanwhile the node stays, and keeps the lock for this waiter.
		return nil, &sessions.Trouble{
			Text: fmt.Sprintf("zookeeper: %q is free for this waiter, whose session cannot be trusted yet",
				p.name),
			Err:    errors.New("the servers did not answer for a part of Config.TTL"),
			Passes: true, Replied: true,
		}
	}
	if err := s.granted(g, ttl); err != nil { // the session is over, or Close gave the place up
		p.g, p.before = nil, ""
		return nil, err
	}
	p.used = true
	return g, nil
}

// behind reports whether the place still stands behind the node that it waits
// for, and what Try returns then. To list the children would cost the server a
// message that grows with the number of waiters, and each of them asks.
func (p *place) behind(ctx context.Context) (bool, error) {
	if p.before == "" {
		return false, nil
	}
	s := p.g.s
	there, err := s.there(ctx, p.b.path(p.name)+"/"+p.before)
	s.Lock()
	own := !p.g.deleted && !p.g.blind
	s.Unlock()
	switch {
	case err != nil && !errors.Is(err, sessions.ErrOver):
		return true, p.b.trouble("queue for", p.name, err)
	case err == nil && there && own:
		owner := ""
		if p.second {
			owner = p.before
		}
		return true, held(p.name, owner)
	}
	p.before = ""
	return false, nil
}

// lapse records that the place's node is gone. The next try begins anew, at the
// end of the queue.
func (p *place) lapse() error {
	p.g.s.Free(p.g)
	p.g, p.before = nil, ""
	return sessions.ErrOver
}

// Await watches the node before this place's.
func (p *place) Await(ctx context.Context, wake func()) (func(), bool, error) {
	if p.g == nil || p.before == "" {
		return nil, false, errors.New("zookeeper: this place in the queue has no node yet")
	}
	cancel, _, err := p.g.s.watch(ctx, p.b.path(p.name)+"/"+p.before, func(bool) { wake() })
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, sessions.ErrOver):
		return func() {}, true, nil
	case err != nil:
		return nil, false, p.b.trouble("watch", p.name, err)
	}
	return cancel, false, nil
}

// Leave deletes the node of the place. If ZooKeeper does not answer, the
// session goes on with that by itself.
func (p *place) Leave(ctx context.Context) error {
	g := p.g
	if p.used || g == nil {
		return nil
	}
	p.used = true
	if _, err := g.s.remove(ctx, g); err != nil && !errors.Is(err, sessions.ErrOver) {
		g.s.Stray(g)
		return p.b.trouble("leave the queue of", p.name, err)
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// watch is one watch of a session on one path. All who watch the path share it.
// A ZooKeeper watch reports one change and then ends.
type watch struct {
	armed bool
	calls map[*call]bool
}

// call is one func that a watch calls once. deleted is false if the node's data
// changed, or the watch ended.
type call struct{ fn func(deleted bool) }

// watch calls fn at the next change of a node. It reads the node's data, and
// never asks whether a node exists: such a watch would stay on the server for a
// node that is never created again. stat is nil where the watch was armed
// before. The error is [zk.ErrNoNode] if there is no such node.
func (s *session) watch(ctx context.Context, path string, fn func(deleted bool)) (cancel func(),
	stat *zk.Stat, err error) {
	c := &call{fn}
	s.Lock()
	if s.Over() {
		s.Unlock()
		return nil, nil, sessions.ErrOver
	}
	w := s.watches[path]
	if w == nil {
		w = &watch{calls: map[*call]bool{}}
		s.watches[path] = w
	}
	w.calls[c] = true
	armed := w.armed
	s.Unlock()
	cancel = func() {
		s.Lock()
		delete(w.calls, c)
		if len(w.calls) == 0 && !w.armed && s.watches[path] == w {
			delete(s.watches, path)
		}
		s.Unlock()
	}
	if armed {
		return cancel, nil, nil
	}
	stat, err = ask(ctx, s, func() (*zk.Stat, error) {
		_, stat, _, err := s.conn.GetW(path)
		if err == nil {
			s.Lock()
			w.armed = true
			s.Unlock()
		}
		return stat, err
	})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return cancel, stat, nil
}

// happened is called by the library for every event, one after the other. It
// must not block.
func (s *session) happened(e zk.Event) {
	switch {
	case e.Type == zk.EventSession && e.State == zk.StateExpired:
		s.end()
	case e.Type == zk.EventSession && e.State == zk.StateHasSession:
		s.hasSession()
	case e.Type == zk.EventNodeDeleted, e.Type == zk.EventNodeDataChanged, e.Type == zk.EventNotWatching:
		s.Lock()
		w := s.watches[e.Path]
		delete(s.watches, e.Path)
		var calls []*call
		if w != nil {
			for c := range w.calls {
				calls = append(calls, c)
			}
			clear(w.calls)
		}
		s.Unlock()
		for _, c := range calls {
			c.fn(e.Type == zk.EventNodeDeleted)
		}
	}
}

// Await watches the holder's node. Waiters with a place in the queue do not
// need it.
func (b *engine) Await(ctx context.Context, name string, wake func()) (func(), bool, error) {
	s, err := b.session(ctx, b.someTTL())
	if err != nil {
		return nil, false, b.trouble("watch", name, err)
	}
	queue, err := s.look(ctx, name)
	if err != nil {
		return nil, false, b.trouble("watch", name, err)
	}
	if len(queue) == 0 {
		return func() {}, true, nil
	}
	cancel, _, err := s.watch(ctx, b.path(name)+"/"+queue[0].name, func(bool) { wake() })
	if errors.Is(err, zk.ErrNoNode) {
		return func() {}, true, nil
	}
	if err != nil {
		return nil, false, b.trouble("watch", name, err)
	}
	return cancel, false, nil
}

// Watch reports the deletion of held locks' nodes, and the end of their
// session. The nodes are watched since they were created, so it costs one read
// for each session.
func (b *engine) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	asked := map[*session]error{}
	for i, one := range gs {
		g := one.(*grant)
		err, done := asked[g.s]
		if !done {
			err = g.s.flush(ctx, g)
			asked[g.s] = err
		}
		if errs[i] = g.gone(); errs[i] == nil && err != nil {
			errs[i] = b.trouble("watch", g.name, err)
		}
		if errs[i] == nil {
			errs[i] = g.watch(ctx, holders[i].Touched)
		}
	}
	return errs
}

// watch arms touched for g's node.
func (g *grant) watch(ctx context.Context, touched func()) error {
	cancel, stat, err := g.s.watch(ctx, g.path, func(bool) { touched() })
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, sessions.ErrOver):
		return lost(g.name, "its node is gone")
	case err != nil:
		return g.s.b.trouble("watch", g.name, err)
	}
	if stat != nil { // the data changed, and the node was not watched
		g.guard(ctx)
	}
	g.s.Lock()
	g.unwatch = cancel
	over := g.Gone() || g.deleted
	g.s.Unlock()
	if over {
		g.s.b.Unwatch(g)
		return lost(g.name, "its node is gone, or its session is over")
	}
	return nil
}

// Unwatch ends what Watch armed.
func (b *engine) Unwatch(one backend.Grant) {
	g := one.(*grant)
	g.s.Lock()
	cancel := g.unwatch
	g.unwatch = nil
	g.s.Unlock()
	if cancel != nil {
		cancel()
	}
}

// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one node of a session: one acquisition of a lock, or a waiter's
// place in the queue.
type grant struct {
	sessions.Key

	s    *session
	name string
	id   string // 32 characters that no other node has
	term backend.Term

	alone bool // no other node stood there when it was granted; set before the grant is shared

	// Guarded by the session's mutex.
	path    string // path of the node; empty: unknown whether it exists
	fence   int64  // zxid of its creation
	pending bool   // the request that creates the node may still be on its way
	never   bool   // the node was never created
	deleted bool   // the node is gone
	blind   bool   // the watch of the node has ended
	unwatch func() // ends what Watch armed
}

// Token is the id of the session, in hexadecimal as in ZooKeeper's own output,
// and that of the node.
func (g *grant) Token() string      { return fmt.Sprintf("0x%x/%s", g.s.id, g.id) }
func (g *grant) Term() backend.Term { return g.term }

// Fence is the zxid with which the node was created.
func (g *grant) Fence() int64 {
	g.s.Lock()
	defer g.s.Unlock()
	return g.fence
}

// gone returns the error of a grant that certainly holds nothing.
func (g *grant) gone() error {
	g.s.Lock()
	defer g.s.Unlock()
	switch {
	case g.s.Over():
		return lost(g.name, "its session expired: the servers heard nothing of this process for its timeout")
	case g.deleted:
		return lost(g.name, "its node is gone: another client deleted it")
	case g.Gone() || g.Asked():
		return lost(g.name, "the lock was released, or was not renewed for its whole TTL")
	}
	return nil
}

func (s *session) newGrant(name string) *grant {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	g := &grant{s: s, name: name, id: fmt.Sprintf("%x", id)}
	s.Add(g)
	return g
}

// prefix is the beginning of the node's name, as Curator and go-zookeeper
// protect it.
func (g *grant) prefix() string { return "_c_" + g.id + "-lock-" }

// create makes g's node, and its parents where they are missing. After an
// UnsureError the node may exist; after other errors it does not.
func (s *session) create(ctx context.Context, g *grant) error {
	dir := s.b.path(g.name)
	for again := 0; ; again++ {
		s.Lock()
		g.pending = true
		s.Unlock()
		_, err := ask(ctx, s, func() (string, error) {
			path, err := s.conn.Create(dir+"/"+g.prefix(), []byte(s.b.cfg.Note), zk.FlagEphemeralSequential,
				s.b.acl())
			s.Lock()
			defer s.Unlock()
			g.pending = false
			if err == nil {
				g.path = path
			}
			return path, err
		})
		switch {
		case err == nil:
			return s.counted(ctx, g)
		case errors.Is(err, zk.ErrNoNode) && again < mostParents:
			if err := s.parents(ctx, dir); err != nil {
				s.Free(g) // nothing was created
				return s.b.trouble("take", g.name, err)
			}
		case errors.Is(err, sessions.ErrOver), isRefusal(err):
			s.Free(g)
			return s.b.trouble("take", g.name, err)
		case errors.Is(err, zk.ErrConnectionClosed) && ctx.Err() == nil && s.found(ctx, g):
			return s.counted(ctx, g)
		default:
			s.Stray(g)
			return &backend.UnsureError{Grant: g, Err: s.b.trouble("take", g.name, err)}
		}
	}
}

// counted deletes g's new node if its number may be another node's too.
func (s *session) counted(ctx context.Context, g *grant) error {
	s.Lock()
	number, _ := sequence(g.path)
	s.Unlock()
	if !usedUp(number) {
		return nil
	}
	if _, err := s.remove(ctx, g); err != nil {
		s.Stray(g)
	}
	return &sessions.Trouble{Text: fmt.Sprintf(
		"zookeeper: could not take %q (the server numbers at most 2³¹ nodes below one parent: delete the node %s while nobody uses the lock)",
		g.name, s.b.path(g.name)), Err: fmt.Errorf("its number is %d", number), Replied: true}
}

// mostParents is how often parents are made anew: the server deletes an empty
// container once a minute.
const mostParents = 5

// found reports whether g's node exists. The connection ended before the reply
// came, and the next one is of the same session.
func (s *session) found(ctx context.Context, g *grant) bool {
	if err := s.find(ctx, g); err != nil {
		return false
	}
	s.Lock()
	defer s.Unlock()
	return g.path != ""
}

// errPending: the request that creates the node may still be on its way.
var errPending = errors.New("the request that creates the node may still be on its way")

// find looks for g's node by its protected name. The sign of life before it
// makes the server catch up with all that this session sent before. If the node
// was never created, it sets g.never.
func (s *session) find(ctx context.Context, g *grant) error {
	s.Lock()
	pending := g.pending
	s.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	dir := s.b.path(g.name)
	children, err := s.children(ctx, dir)
	if err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	for _, child := range children {
		if strings.HasPrefix(child, g.prefix()) {
			g.path = dir + "/" + child
			return nil
		}
	}
	if pending {
		return errPending
	}
	g.never = g.path == ""
	return nil
}

// children returns the names of a node's children, none if there is no node.
func (s *session) children(ctx context.Context, path string) ([]string, error) {
	children, err := ask(ctx, s, func() ([]string, error) {
		children, _, err := s.conn.Children(path)
		return children, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, err
}

// look returns the clients that contend for a lock.
func (s *session) look(ctx context.Context, name string) ([]contender, error) {
	children, err := s.children(ctx, s.b.path(name))
	queue, others := contenders(children)
	s.b.notice(name, queue, others)
	return queue, err
}

// guard watches g's node for as long as it is held.
func (g *grant) guard(ctx context.Context) (*zk.Stat, error) {
	s := g.s
	s.Lock()
	g.blind = false
	s.Unlock()
	_, stat, err := s.watch(ctx, g.path, func(deleted bool) {
		s.Lock()
		g.deleted = g.deleted || deleted
		g.blind = true
		s.Unlock()
	})
	return stat, err
}

// stand reads g's own node and the queue at once, after the node was created.
// The server has applied that, and everything before it.
func (s *session) stand(ctx context.Context, g *grant) ([]contender, error) {
	type own struct {
		stat *zk.Stat
		err  error
	}
	done := make(chan own, 1)
	go func() {
		stat, err := g.guard(ctx)
		done <- own{stat, err}
	}()
	queue, err := s.look(ctx, g.name)
	mine := <-done
	if mine.stat != nil { // also if the look failed: a later guard is armed already, and reads none
		s.Lock()
		g.fence = mine.stat.Czxid
		s.Unlock()
	}
	return queue, cmp.Or(err, mine.err)
}

// granted records that g holds its lock.
func (s *session) granted(g *grant, ttl time.Duration) error {
	g.term = s.term(ttl)
	if !s.Hold(g, ttl) {
		return sessions.ErrOver
	}
	return nil
}

// Extend sends a sign of life of the session if one is due, and finds out
// whether the node is still there.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	if err := fits(ttl); err != nil {
		return backend.Term{}, err
	}
	terms, errs := g.s.extend(ctx, []*grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll sends one message for each session.
func (b *engine) ExtendAll(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	return sessions.ExtendAll(gs, func(g *grant) *session { return g.s },
		func(s *session, some []*grant) ([]backend.Term, []error) { return s.extend(ctx, some, ttl) })
}

func (s *session) extend(ctx context.Context, gs []*grant, ttl time.Duration) ([]backend.Term, []error) {
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	trouble := s.renew(ctx, gs[0])
	term := s.term(ttl)
	for i, g := range gs {
		s.Lock()
		blind := g.blind && !g.deleted
		s.Unlock()
		err := trouble
		if err == nil && blind {
			err = s.flush(ctx, g)
		}
		if errs[i] = g.gone(); errs[i] == nil && err != nil {
			errs[i] = s.b.trouble("renew", g.name, err)
		}
		if errs[i] == nil {
			s.Lock()
			s.Keep(g, ttl)
			s.Unlock()
			terms[i] = term
		} else if errors.Is(errs[i], backend.ErrLost) && g.isDeleted() {
			s.Free(g)
		}
	}
	return terms, errs
}

func (g *grant) isDeleted() bool {
	g.s.Lock()
	defer g.s.Unlock()
	return g.deleted
}

// Release deletes the node. If ZooKeeper does not answer, the session goes on
// with that by itself.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	s.b.Unwatch(g)
	s.Lock()
	over, asked := g.Gone(), g.Asked() && !g.Late()
	s.Unlock()
	switch {
	case over && asked: // the session has deleted it meanwhile
		return nil
	case over:
		return lost(g.name, "the lock was released, or its session is over")
	}
	found, err := s.remove(ctx, g)
	switch {
	case errors.Is(err, sessions.ErrOver):
		return lost(g.name, "its session is over")
	case err != nil:
		s.Stray(g)
		return s.b.trouble("release", g.name, err)
	case found || asked:
		s.b.calm.Set(g.name, g.alone)
		return nil
	}
	return lost(g.name, "its node is gone: another client deleted it")
}

// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one key of a session: one acquisition of a lock, or a waiter's place
// in the queue.
type grant struct {
	sessions.Key

	s     *session
	name  string
	key   string
	value string // begins with a nonce of its own
	term  backend.Term

	// Guarded by the session's mutex.
	rev   int64         // create revision; 0: unknown whether the key exists
	seen  time.Duration // elapsed time of the sign of life that the Client knows
	watch *watch        // armed by Watch
	place *place        // that waits with this key; nil: none

	answered chan struct{} // closed when the attempt has its reply, or an error
	nothing  bool          // the attempt certainly took nothing; read it after answered
}

func (g *grant) Token() string      { return g.value }
func (g *grant) Term() backend.Term { return g.term }

// Fence is the create revision of the key.
func (g *grant) Fence() int64 {
	g.s.Lock()
	defer g.s.Unlock()
	return g.rev
}

// newGrant reserves a key under name that this process does not use.
func (s *session) newGrant(name string) *grant {
	g := &grant{s: s, name: name, key: s.reserve(name), value: rand.Text(),
		answered: make(chan struct{})}
	s.Add(g)
	if note := s.b.cfg.Note; note != "" {
		g.value += " " + note
	}
	return g
}

// take makes one attempt at a free name.
func (s *session) take(ctx context.Context, name string, ttl time.Duration) (backend.Grant, error) {
	g := s.newGrant(name)
	term := s.term(ttl)
	prefix := name + "/"
	done, err := s.attempt(ctx, g, func(call context.Context) (*clientv3.TxnResponse, error) {
		return s.b.client.Txn(call).
			If(clientv3.Compare(clientv3.CreateRevision(prefix), "=", 0).WithPrefix()).
			Then(clientv3.OpPut(g.key, g.value, clientv3.WithLease(s.id))).
			Else(clientv3.OpGet(prefix, append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())...)).
			Commit()
	})
	switch {
	case err != nil:
		return nil, s.failed(ctx, g, err)
	case !done.Succeeded:
		s.free(g)
		s.b.refused.Set(name, true)
		first := string(done.Responses[0].GetResponseRange().Kvs[0].Key)
		return nil, held(name, first, first)
	}
	s.b.refused.Set(name, false)
	return s.granted(g, done.Header.Revision, term, ttl)
}

// attempt sends the command that may write g's key. If ctx ends first, the
// command goes on without the caller, so that its outcome becomes known:
// Release waits for it.
func (s *session) attempt(ctx context.Context, g *grant,
	send func(context.Context) (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	s.b.Lock()
	if s.b.Closed {
		s.b.Unlock()
		return nil, errClosed
	}
	if ctx.Done() == nil { // the caller waits in any case
		s.b.Unlock()
		defer close(g.answered)
		call, cancel := s.b.call(ctx)
		defer cancel()
		return send(call)
	}
	var left bool // the caller is gone; this and what follows under the mutex of s
	var done *clientv3.TxnResponse
	var err error
	s.b.start(func() {
		defer close(g.answered)
		call, cancel := s.b.call(context.WithoutCancel(ctx))
		defer cancel()
		reply, failed := send(call)
		s.Lock()
		done, err = reply, failed
		alone := left
		s.Unlock()
		if alone {
			s.arrived(g, reply, failed)
		}
	})
	s.b.Unlock()
	select {
	case <-g.answered:
		return done, err
	case <-ctx.Done():
	}
	s.Lock()
	if done != nil || err != nil { // both ended at once
		defer s.Unlock()
		return done, err
	}
	left = true
	s.Unlock()
	return nil, context.Cause(ctx)
}

// arrived sorts out a reply for which no caller waits any more.
func (s *session) arrived(g *grant, done *clientv3.TxnResponse, err error) {
	switch {
	case err == nil && done.Succeeded:
		s.Lock()
		g.rev = done.Header.Revision
		s.Unlock()
	case err == nil, refusedByEtcd(err):
		g.nothing = true
		s.free(g)
	}
}

// failed sorts out the error of a command that may have written g's key.
func (s *session) failed(ctx context.Context, g *grant, err error) error {
	full := errors.Is(err, rpctypes.ErrNoSpace)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.free(g)
		s.end()
		return sessions.ErrOver
	case refusedByEtcd(err), errors.Is(err, errClosed), full && s.undone(ctx, g):
		s.free(g)
		s.b.setFull(full)
		return trouble("take", g.name, err)
	}
	s.Stray(g)
	return &backend.UnsureError{Grant: g, Err: trouble("take", g.name, err)}
}

// undone deletes the key of a command that found the database full, and reports
// whether that is certain. etcd carries out the write that fills its database,
// and says all the same that there is no space.
func (s *session) undone(ctx context.Context, g *grant) bool {
	call, cancel := s.b.call(ctx)
	defer cancel()
	return s.settleOne(call, g) == nil
}

func (b *engine) setFull(full bool) {
	b.Lock()
	b.full = full
	b.Unlock()
}

// granted makes g a grant.
func (s *session) granted(g *grant, rev int64, term backend.Term, ttl time.Duration) (backend.Grant, error) {
	s.b.setFull(false)
	s.Lock()
	g.rev, g.term, g.seen = rev, term, term.Sent.Elapsed
	s.Unlock()
	if !s.Hold(g, ttl) {
		return nil, sessions.ErrOver
	}
	return g, nil
}

// Extend renews the session if no other grant has done so, and looks at the
// key.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	if err := fits(ttl); err != nil {
		return backend.Term{}, err
	}
	terms, errs := g.s.extend(ctx, []*grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews each session once, and looks at the keys in reads of a
// hundred.
func (b *engine) ExtendAll(ctx context.Context, gs []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	return sessions.ExtendAll(gs, func(g *grant) *session { return g.s },
		func(s *session, some []*grant) ([]backend.Term, []error) { return s.extend(ctx, some, ttl) })
}

// Release deletes the key if it is this grant's. If etcd does not answer, the
// session goes on with that by itself.
func (g *grant) Release(ctx context.Context) error {
	s := g.s
	select {
	case <-g.answered:
	case <-ctx.Done():
		return trouble("release", g.name, context.Cause(ctx))
	}
	s.Lock()
	over, asked := g.Gone(), g.Asked() && !g.Late()
	s.Unlock()
	switch {
	case g.nothing, over && asked: // the latter: the session has deleted it
		return nil
	case over:
		return lost(g.name, "the lock was released, or its lease is over")
	}
	s.b.Unwatch(g)
	found, err := s.remove(ctx, g)
	switch {
	case err != nil:
		s.Stray(g)
		return trouble("release", g.name, err)
	case found, asked && g.exists():
		s.free(g)
		return nil
	case g.exists():
		s.free(g)
		return lost(g.name, "its key is gone: another client deleted it, or the lease expired")
	}
	return lost(g.name, "the attempt has not arrived")
}

// exists reports whether the key is known to have existed.
func (g *grant) exists() bool { return g.Fence() != 0 }

// remove deletes g's key, by its create revision, or by its nonce if that is
// unknown. found is false if the key is not there.
func (s *session) remove(ctx context.Context, g *grant) (found bool, err error) {
	call, cancel := s.b.call(ctx)
	defer cancel()
	mine := clientv3.Compare(clientv3.Value(g.key), "=", g.value)
	if rev := g.Fence(); rev != 0 {
		mine = clientv3.Compare(clientv3.CreateRevision(g.key), "=", rev)
	}
	done, err := s.b.client.Txn(call).If(mine).Then(clientv3.OpDelete(g.key)).Commit()
	if err != nil {
		return false, err
	}
	return done.Succeeded, nil
}

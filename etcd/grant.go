package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one key of a session: one acquisition of a lock, or a waiter's place
// in the queue.
type grant struct {
	s     *session
	name  string
	key   string
	value string // begins with a nonce of its own
	term  backend.Term

	// Guarded by s.mu.
	rev   int64         // create revision; 0: unknown whether the key exists
	seen  time.Duration // elapsed time of the sign of life that the Client knows
	keep  time.Duration // elapsed time until which the key is kept without an Extend
	asked bool          // it must not exist: its release or its attempt is of unknown outcome
	late  bool          // … because it was not extended for its TTL
	over  bool          // this grant holds nothing any more
	watch *watch        // armed by Watch

	answered chan struct{} // closed when the attempt has its reply, or an error
	nothing  bool          // the attempt certainly took nothing; read it after answered
}

func (g *grant) Token() string      { return g.value }
func (g *grant) Term() backend.Term { return g.term }

// Fence is the create revision of the key.
func (g *grant) Fence() int64 {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.rev
}

// newGrant reserves a key under name that this process does not use.
func (s *session) newGrant(name string) *grant {
	g := &grant{s: s, name: name, key: s.reserve(name), value: rand.Text(),
		answered: make(chan struct{})}
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
		s.b.answered(name, true)
		first := string(done.Responses[0].GetResponseRange().Kvs[0].Key)
		return nil, held(name, first, first)
	}
	s.b.answered(name, false)
	s.granted(g, done.Header.Revision, term, ttl)
	return g, nil
}

// attempt sends the command that may write g's key. If ctx ends first, the
// command goes on without the caller, so that its outcome becomes known:
// Release waits for it.
func (s *session) attempt(ctx context.Context, g *grant,
	send func(context.Context) (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	s.b.mu.Lock()
	if s.b.closed {
		s.b.mu.Unlock()
		return nil, errClosed
	}
	if ctx.Done() == nil { // the caller waits in any case
		s.b.mu.Unlock()
		defer close(g.answered)
		call, cancel := s.b.call(ctx)
		defer cancel()
		return send(call)
	}
	var left bool // the caller is gone; this and what follows under s.mu
	var done *clientv3.TxnResponse
	var err error
	s.b.start(func() {
		defer close(g.answered)
		call, cancel := s.b.call(context.WithoutCancel(ctx))
		defer cancel()
		reply, failed := send(call)
		s.mu.Lock()
		done, err = reply, failed
		alone := left
		s.mu.Unlock()
		if alone {
			s.arrived(g, reply, failed)
		}
	})
	s.b.mu.Unlock()
	select {
	case <-g.answered:
		return done, err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if done != nil || err != nil { // both ended at once
		defer s.mu.Unlock()
		return done, err
	}
	left = true
	s.mu.Unlock()
	return nil, context.Cause(ctx)
}

// arrived sorts out a reply for which no caller waits any more.
func (s *session) arrived(g *grant, done *clientv3.TxnResponse, err error) {
	switch {
	case err == nil && done.Succeeded:
		s.mu.Lock()
		g.rev = done.Header.Revision
		s.mu.Unlock()
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
		return errOver
	case refusedByEtcd(err), errors.Is(err, errClosed), full && s.undone(ctx, g):
		s.free(g)
		s.b.setFull(full)
		return trouble("take", g.name, err)
	}
	s.abandon(g)
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
	b.mu.Lock()
	b.full = full
	b.mu.Unlock()
}

// granted records that g holds its lock.
func (s *session) granted(g *grant, rev int64, term backend.Term, ttl time.Duration) {
	s.b.mu.Lock()
	s.b.held[rev] = g
	s.b.full = false
	s.b.mu.Unlock()
	now := s.now()
	s.mu.Lock()
	g.rev, g.term, g.seen, g.keep = rev, term, term.Sent.Elapsed, now+ttl
	s.grants[g] = true
	s.mu.Unlock()
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
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	places := map[*session][]int{}
	for i, g := range gs {
		s := g.(*grant).s
		places[s] = append(places[s], i)
	}
	for s, at := range places {
		some := make([]*grant, len(at))
		for i, place := range at {
			some[i] = gs[place].(*grant)
		}
		t, e := s.extend(ctx, some, ttl)
		for i, place := range at {
			terms[place], errs[place] = t[i], e[i]
		}
	}
	return terms, errs
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
	s.mu.Lock()
	over, asked := g.over, g.asked && !g.late
	s.mu.Unlock()
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
		s.abandon(g)
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

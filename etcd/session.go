// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// session is one etcd lease, and all keys of this process that live with it.
//
//	          open             no key for ten TTLs, or a key
//	──▶ new ────────▶ in use ──────────────────────────────▶ retired
//	                    │      that cannot be confirmed gone    │ no key is left:
//	                    │                                       │ Revoke
//	                    │ etcd says that the lease is gone      ▼
//	                    └─────────────────────────────────────▶ over
type session struct {
	*sessions.Session[*grant]

	b    *engine
	secs time.Duration // TTL that is asked for, in whole seconds

	// Written in turn, before the session is shared.
	id  clientv3.LeaseID // 0: not open yet
	ttl time.Duration    // TTL that etcd granted

	// Guarded by the mutex.
	sent   backend.Instant // before the last sign of life that counts was sent
	keys   map[string]bool // keys that are in use or may exist
	sample string          // key for reads of sessions without grants
}

// session returns the open session for a TTL, with trust for half of it or
// more. It is for a key under name.
func (b *engine) session(ctx context.Context, name string, ttl time.Duration) (*session, error) {
	secs := (ttl + time.Second - 1).Truncate(time.Second)
	b.Lock()
	s := b.Open[secs]
	switch {
	case b.Closed:
		b.Unlock()
		return nil, errClosed
	case s == nil:
		s = &session{Session: sessions.New[*grant](ctx), b: b, secs: secs, keys: map[string]bool{},
			sample: name + "/"}
		b.Open[secs] = s
	}
	b.Unlock()
	s.Use()
	return s, s.ready(ctx)
}

// ready opens the session, or renews one of which half the trust is gone. While
// etcd does not answer, many attempts wait for their turn. So its wait counts
// for [Config].Timeout.
func (s *session) ready(ctx context.Context) error {
	ctx, cancel := s.b.call(ctx)
	defer cancel()
	if err := s.Begin(ctx); err != nil {
		return err
	}
	defer s.Yield()
	if s.id == 0 {
		return s.open(ctx)
	}
	return s.young(ctx)
}

// open asks etcd for the lease. Called in turn.
func (s *session) open(ctx context.Context) error {
	if err := s.b.modernEnough(ctx); err != nil {
		return err
	}
	sent := s.Read()
	lease, err := s.b.client.Grant(ctx, int64(s.secs/time.Second))
	if err != nil {
		s.b.setFull(errors.Is(err, rpctypes.ErrNoSpace))
		return err
	}
	s.ttl = time.Duration(lease.TTL) * time.Second
	s.b.Lock()
	defer s.b.Unlock()
	if s.b.Closed {
		return errClosed
	}
	s.id, s.sent = lease.ID, sent
	s.b.Start(s, s.keeper)
	if !s.b.named {
		s.b.named = true
		s.b.Work.Go(s.b.nameServers)
	}
	return nil
}

// age is how long ago the last sign of life was sent.
func (s *session) age() time.Duration {
	s.Lock()
	defer s.Unlock()
	return s.Now() - s.sent.Elapsed
}

// term returns the trust that the session has now.
func (s *session) term(ttl time.Duration) backend.Term {
	s.Use()
	s.Lock()
	defer s.Unlock()
	return backend.Term{Sent: s.sent, TTL: min(ttl, s.ttl)}
}

// young renews a session of which half the trust is gone, and reports one that
// is over. Called in turn.
func (s *session) young(ctx context.Context) error {
	s.Lock()
	over, old := s.Over(), s.Now()-s.sent.Elapsed >= s.ttl/2
	s.Unlock()
	switch {
	case over:
		return sessions.ErrOver
	case old:
		_, err := s.renew(ctx)
		return err
	}
	return nil
}

// reserve returns a key under name that this process does not use.
func (s *session) reserve(name string) string {
	s.Lock()
	defer s.Unlock()
	first := fmt.Sprintf("%s/%x", name, int64(s.id))
	key := first
	for n := 1; s.keys[key]; n++ {
		key = first + "." + strconv.Itoa(n)
	}
	s.keys[key] = true
	s.sample = key
	return key
}

// free records that g's key certainly does not exist.
func (s *session) free(g *grant) {
	s.Free(g)
	s.Lock()
	delete(s.keys, g.key)
	s.Unlock()
}

// keyOf returns the key that holds a lock since the revision fence, if any.
func (s *session) keyOf(fence int64) string {
	s.Lock()
	defer s.Unlock()
	for _, g := range s.Held() {
		if g.rev == fence {
			return g.key
		}
	}
	return ""
}

// end records that etcd has ended the lease, and with it all keys.
func (s *session) end() {
	s.b.Forget(s)
	ended := s.End()
	s.b.Lock()
	defer s.b.Unlock()
	if s.b.Closed { // which ends watches and waiters
		return
	}
	s.b.start(func() {
		for _, g := range ended {
			s.Lock()
			w, p := g.watch, g.place
			s.Unlock()
			if w != nil {
				w.fire()
			}
			if p != nil {
				p.changed()
			}
		}
	})
}

// mostReads is the most keys that one transaction reads; etcd allows 128
// operations.
const mostReads = 100

// extend renews the session unless another grant just did, and looks at the
// keys of gs.
func (s *session) extend(ctx context.Context, gs []*grant, ttl time.Duration) ([]backend.Term, []error) {
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	for at := 0; at < len(gs); at += mostReads {
		until := min(at+mostReads, len(gs))
		term, some, err := s.extendSome(ctx, gs[at:until], ttl, at == 0)
		for i := at; i < until; i++ {
			errs[i] = err
			if err == nil {
				errs[i] = some[i-at]
			}
			if errs[i] == nil {
				terms[i] = term
			}
		}
	}
	return terms, errs
}

func (s *session) extendSome(ctx context.Context, gs []*grant, ttl time.Duration, renews bool) (backend.Term,
	[]error, error) {
	reads := make([]clientv3.Op, len(gs))
	for i, g := range gs {
		reads[i] = clientv3.OpGet(g.key, clientv3.WithKeysOnly())
	}
	read, err := s.signOfLife(ctx, gs, reads, renews)
	switch {
	case errors.Is(err, sessions.ErrOver):
		return backend.Term{}, nil, lost(gs[0].name, "its etcd lease is over")
	case err != nil:
		return backend.Term{}, nil, trouble("renew", gs[0].name, err)
	}
	term, errs := s.term(ttl), make([]error, len(gs))
	for i, g := range gs {
		kvs := read.Responses[i].GetResponseRange().Kvs
		there := len(kvs) > 0 && kvs[0].CreateRevision == g.Fence()
		s.Lock()
		switch {
		case g.Gone() || g.Asked():
			errs[i] = lost(g.name, "the lock was released, or was not renewed for its whole TTL")
		case there:
			g.seen = term.Sent.Elapsed
			s.Keep(g, ttl)
		default:
			errs[i] = lost(g.name, "its key is gone: another client deleted it")
		}
		s.Unlock()
		if errs[i] != nil && !there {
			s.free(g)
		}
	}
	return term, errs, nil
}

// signOfLife carries out reads. If renews is set, it renews the session before,
// unless that was done since the Client saw the grants' last terms.
func (s *session) signOfLife(ctx context.Context, gs []*grant, reads []clientv3.Op, renews bool) (
	*clientv3.TxnResponse, error) {
	if err := s.Begin(ctx); err != nil {
		return nil, err
	}
	s.Lock()
	over, fresh := s.Over(), false
	for _, g := range gs {
		fresh = fresh || g.seen < s.sent.Elapsed
	}
	fresh = fresh && s.Now()-s.sent.Elapsed < s.ttl/4
	s.Unlock()
	switch {
	case over:
		s.Yield()
		return nil, sessions.ErrOver
	case renews && !fresh:
		defer s.Yield()
		return s.renew(ctx, reads...)
	}
	s.Yield()
	call, cancel := s.b.call(ctx)
	defer cancel()
	return s.b.client.Txn(call).Then(reads...).Commit()
}

// errTerm: each renewal was followed by another Raft term.
var errTerm = errors.New("the leader changed at each of three renewals")

// renew is a sign of life. It counts only if the reads after it show the Raft
// term that the member had before: else a leader that was deposed may have
// answered. Called in turn.
func (s *session) renew(ctx context.Context, reads ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if len(reads) == 0 {
		s.Lock()
		reads = []clientv3.Op{clientv3.OpGet(s.sample, clientv3.WithKeysOnly())}
		s.Unlock()
	}
	ctx, cancel := s.b.within(ctx, s.ttl/3)
	defer cancel()
	err := errTerm
	for range 3 {
		stream, failed := s.b.signs.open(ctx)
		if failed != nil {
			return nil, failed
		}
		sent := s.Read()
		alive, again, failed := stream.ask(ctx, s.id)
		switch {
		case again:
			err = failed
			continue
		case failed != nil:
			return nil, failed
		case alive.TTL <= 0:
			s.end()
			return nil, sessions.ErrOver
		}
		read, failed := s.b.client.Txn(ctx).Then(reads...).Commit()
		if failed != nil {
			return nil, failed
		}
		if read.Header.RaftTerm == alive.Header.RaftTerm {
			s.Lock()
			s.sent = sent
			s.Unlock()
			return read, nil
		}
	}
	return nil, err
}

package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

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
	b    *engine
	secs int64         // TTL in seconds that is asked for
	turn chan struct{} // capacity 1: filled while a renewal is under way
	done chan struct{} // closed when the session is over

	// Written under turn, before the session is shared.
	id    clientv3.LeaseID // 0: not open yet
	ttl   time.Duration    // TTL that etcd granted
	clock context.Context  // carries the Client's clock, for backend.ReadClock

	mu      sync.Mutex
	sent    backend.Instant // before the last sign of life that counts was sent
	over    bool
	retired bool
	used    time.Duration            // elapsed time of the last use
	keys    map[string]bool          // keys that are in use or may exist
	grants  map[*grant]bool          // held
	places  map[*place]bool          // waiting
	strays  map[*grant]time.Duration // must not exist, and may; since when
	sample  string                   // key for reads of sessions without grants
}

// session returns the open session for a TTL, with trust for half of it or
// more.
func (b *engine) session(ctx context.Context, ttl time.Duration) (*session, error) {
	secs := int64((ttl + time.Second - 1) / time.Second)
	b.mu.Lock()
	s := b.sessions[secs]
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, errClosed
	case s == nil:
		s = &session{b: b, secs: secs, turn: make(chan struct{}, 1), done: make(chan struct{}),
			keys: map[string]bool{}, grants: map[*grant]bool{}, places: map[*place]bool{},
			strays: map[*grant]time.Duration{}}
		b.sessions[secs] = s
	}
	b.mu.Unlock()
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	if s.id == 0 {
		return s, s.open(ctx)
	}
	return s, s.young(ctx)
}

// begin reserves the right to renew.
func (s *session) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open asks etcd for the lease. Called with the turn.
func (s *session) open(ctx context.Context) error {
	if err := s.b.modernEnough(ctx); err != nil {
		return err
	}
	s.clock = context.WithoutCancel(ctx)
	sent := backend.ReadClock(ctx)
	call, cancel := s.b.call(ctx)
	defer cancel()
	lease, err := s.b.client.Grant(call, s.secs)
	if err != nil {
		s.b.setFull(errors.Is(err, rpctypes.ErrNoSpace))
		return err
	}
	s.ttl = time.Duration(lease.TTL) * time.Second
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.closed {
		return errClosed
	}
	s.id = lease.ID
	s.mu.Lock()
	s.sent, s.used = sent, sent.Elapsed
	s.mu.Unlock()
	s.b.all[s] = true
	s.b.work.Go(s.keeper)
	if !s.b.named {
		s.b.named = true
		s.b.work.Go(s.b.nameServers)
	}
	return nil
}

// now reads the Client's clock.
func (s *session) now() time.Duration { return backend.ReadClock(s.clock).Elapsed }

// age is how long ago the last sign of life was sent.
func (s *session) age() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now() - s.sent.Elapsed
}

// term returns the trust that the session has now.
func (s *session) term(ttl time.Duration) backend.Term {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = s.now()
	return backend.Term{Sent: s.sent, TTL: min(ttl, s.ttl)}
}

// young renews a session of which half the trust is gone. Called with the turn.
func (s *session) young(ctx context.Context) error {
	s.mu.Lock()
	over, old := s.over, s.now()-s.sent.Elapsed >= s.ttl/2
	s.mu.Unlock()
	switch {
	case over:
		return errOver
	case old:
		_, err := s.renew(ctx)
		return err
	}
	return nil
}

// reserve returns a key under name that this process does not use.
func (s *session) reserve(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.b.mu.Lock()
	if rev := g.Fence(); s.b.held[rev] == g {
		delete(s.b.held, rev)
	}
	s.b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	g.over = true
	delete(s.keys, g.key)
	delete(s.grants, g)
	delete(s.strays, g)
	s.used = s.now()
}

// abandon puts g on the list of keys that must not exist.
func (s *session) abandon(g *grant) {
	s.b.mu.Lock()
	if rev := g.Fence(); s.b.held[rev] == g {
		delete(s.b.held, rev)
	}
	s.b.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || g.over {
		return
	}
	g.asked = true
	delete(s.grants, g)
	if _, known := s.strays[g]; !known {
		s.strays[g] = s.now()
	}
}

// end records that etcd has ended the lease, and with it all keys.
func (s *session) end() {
	s.retire()
	s.b.mu.Lock()
	delete(s.b.all, s)
	s.b.mu.Unlock()
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	var watches []*watch
	var ended []*grant
	for g := range s.grants {
		g.over = true
		ended = append(ended, g)
		if g.watch != nil {
			watches = append(watches, g.watch)
		}
	}
	for g := range s.strays {
		g.over = true
	}
	places := slices.Collect(maps.Keys(s.places))
	s.grants, s.strays, s.keys = map[*grant]bool{}, map[*grant]time.Duration{}, map[string]bool{}
	close(s.done)
	s.mu.Unlock()
	s.b.mu.Lock()
	for _, g := range ended {
		delete(s.b.held, g.rev)
	}
	s.b.mu.Unlock()
	go func() {
		for _, w := range watches {
			w.fire()
		}
		for _, p := range places {
			p.changed()
		}
	}()
}

// retire keeps new keys away from the session.
func (s *session) retire() {
	s.b.mu.Lock()
	if s.b.sessions[s.secs] == s {
		delete(s.b.sessions, s.secs)
	}
	s.b.mu.Unlock()
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
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
	case errors.Is(err, errOver):
		return backend.Term{}, nil, lost(gs[0].name, "its etcd lease is over")
	case err != nil:
		return backend.Term{}, nil, trouble("renew", gs[0].name, err)
	}
	term, now, errs := s.term(ttl), s.now(), make([]error, len(gs))
	for i, g := range gs {
		kvs := read.Responses[i].GetResponseRange().Kvs
		there := len(kvs) > 0 && kvs[0].CreateRevision == g.Fence()
		s.mu.Lock()
		switch {
		case g.over || g.asked:
			errs[i] = lost(g.name, "the lock was released, or was not renewed for its whole TTL")
		case there:
			g.seen, g.keep = term.Sent.Elapsed, now+ttl
		default:
			errs[i] = lost(g.name, "its key is gone: another client deleted it")
		}
		s.mu.Unlock()
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
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	over, fresh := s.over, false
	for _, g := range gs {
		fresh = fresh || g.seen < s.sent.Elapsed
	}
	fresh = fresh && s.now()-s.sent.Elapsed < s.ttl/4
	s.mu.Unlock()
	switch {
	case over:
		<-s.turn
		return nil, errOver
	case renews && !fresh:
		defer func() { <-s.turn }()
		return s.renew(ctx, reads...)
	}
	<-s.turn
	call, cancel := s.b.call(ctx)
	defer cancel()
	return s.b.client.Txn(call).Then(reads...).Commit()
}

// errTerm: each renewal was followed by another Raft term.
var errTerm = errors.New("the leader changed at each of three renewals")

// renew is a sign of life. It counts only if the reads after it show the Raft
// term that the member had before: else a leader that was deposed may have
// answered. Called with the turn.
func (s *session) renew(ctx context.Context, reads ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if len(reads) == 0 {
		s.mu.Lock()
		reads = []clientv3.Op{clientv3.OpGet(s.sample, clientv3.WithKeysOnly())}
		s.mu.Unlock()
	}
	ctx, cancel := s.b.call(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, s.ttl/3)
	defer cancel()
	for range 3 {
		sent := backend.ReadClock(s.clock)
		alive, err := s.keepAlive(ctx)
		if err != nil {
			return nil, err
		}
		read, err := s.b.client.Txn(ctx).Then(reads...).Commit()
		if err != nil {
			return nil, err
		}
		if read.Header.RaftTerm == alive.Header.RaftTerm {
			s.mu.Lock()
			s.sent = sent
			s.mu.Unlock()
			return read, nil
		}
	}
	return nil, errTerm
}

// keepAlive renews the lease at etcd, once. KeepAliveOnce of the client would
// try again without a pause.
func (s *session) keepAlive(ctx context.Context) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := clientv3.RetryLeaseClient(s.b.client).LeaseKeepAlive(ctx)
	if err != nil {
		return nil, rpctypes.Error(err)
	}
	if err := stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(s.id)}); err != nil {
		return nil, rpctypes.Error(err)
	}
	alive, err := stream.Recv()
	switch {
	case err == nil && alive.TTL <= 0, errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound):
		s.end()
		return nil, errOver
	case err != nil:
		return nil, rpctypes.Error(err)
	}
	_ = stream.CloseSend()
	return alive, nil
}

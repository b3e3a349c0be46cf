// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// place is a waiter's key in etcd's queue: the order of create revisions. It
// waits for the key before its own to be deleted, and watches its own too. The
// holder is the place without a key before it.
type place struct {
	b    *engine
	name string
	used bool // got its grant, or was left; only the caller's goroutine uses it
	g    *grant

	mu      sync.Mutex
	before  string // key before this one
	rev     int64  // its create revision
	fired   bool   // a watch has called since it was armed
	wake    func()
	watches []*watch
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

// Try takes the lock if no key stands before this place's. The first Try writes
// the place's key; the others only read.
func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	if err := valid(p.name, ttl); err != nil {
		return nil, err
	}
	switch {
	case p.used:
		return nil, errors.New("etcd: this place in the queue is used up")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return sessions.Retried(tooShort, func() (backend.Grant, error) {
		if p.g == nil {
			s, err := p.b.session(ctx, p.name, ttl)
			if err != nil {
				return nil, trouble("queue for", p.name, err)
			}
			return p.stand(ctx, s, ttl)
		}
		return p.ask(ctx, ttl)
	})
}

// stand writes the key of the place, at the end of the queue.
func (p *place) stand(ctx context.Context, s *session, ttl time.Duration) (backend.Grant, error) {
	g := s.newGrant(p.name)
	term := s.term(ttl)
	s.Lock()
	g.place = p
	s.Unlock()
	// After the Put, the place's key has the greatest create revision.
	last := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(2), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)}
	done, err := s.attempt(ctx, g, func(call context.Context) (*clientv3.TxnResponse, error) {
		return p.b.client.Txn(call).
			If(clientv3.Compare(clientv3.CreateRevision(g.key), "=", 0)).
			Then(clientv3.OpPut(g.key, g.value, clientv3.WithLease(s.id)),
				clientv3.OpGet(p.name+"/", last...)).
			Commit()
	})
	if err != nil {
		err = s.failed(ctx, g, err)
		var unsure *backend.UnsureError
		p.used = errors.As(err, &unsure)
		return nil, err
	}
	if !done.Succeeded {
		// Another client wrote a key with the number of our lease. The number
		// stays reserved, so that the next key is another one.
		s.Free(g)
		return nil, &sessions.Trouble{Text: fmt.Sprintf("etcd: could not queue for %q", p.name),
			Err: errors.New("another client uses the key " + g.key), Passes: true}
	}
	s.Lock()
	g.rev = done.Header.Revision
	s.Unlock()
	p.g = g
	if !s.Wait(g) {
		return nil, p.lapse()
	}
	kvs := done.Responses[1].GetResponseRange().Kvs
	if len(kvs) < 2 {
		return p.granted(term, ttl)
	}
	p.follow(string(kvs[1].Key), kvs[1].CreateRevision, done.Header.Revision)
	return nil, held(p.name, "", string(kvs[1].Key))
}

// ask looks whether a key stands before the place's own.
func (p *place) ask(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	s, rev := p.g.s, p.g.Fence()
	if err := s.ready(ctx); errors.Is(err, sessions.ErrOver) {
		return nil, p.lapse()
	} else if err != nil {
		return nil, trouble("queue for", p.name, err)
	}
	term := s.term(ttl)
	p.mu.Lock()
	before, beforeRev, fired := p.before, p.rev, p.fired
	p.mu.Unlock()
	next := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(rev-1), clientv3.WithKeysOnly())
	reads := []clientv3.Op{clientv3.OpGet(p.g.key, clientv3.WithKeysOnly()),
		clientv3.OpGet(before, clientv3.WithKeysOnly())}
	if fired {
		// The key before is probably gone. To find the next one costs etcd a
		// look at every waiter, so it is asked for only then.
		reads[1] = clientv3.OpGet(p.name+"/", next...)
	}
	call, cancel := p.b.call(ctx)
	defer cancel()
	for {
		read, err := p.b.client.Txn(call).Then(reads...).Commit()
		if err != nil {
			return nil, trouble("queue for", p.name, err)
		}
		mine, first := read.Responses[0].GetResponseRange().Kvs, read.Responses[1].GetResponseRange().Kvs
		switch {
		case len(mine) == 0 || mine[0].CreateRevision != rev:
			return nil, p.lapse()
		case !fired && (len(first) == 0 || first[0].CreateRevision != beforeRev):
			fired = true
			reads[1] = clientv3.OpGet(p.name+"/", next...)
			continue
		case len(first) == 0:
			return p.granted(term, ttl)
		case fired:
			p.follow(string(first[0].Key), first[0].CreateRevision, read.Header.Revision)
		}
		return nil, held(p.name, "", string(first[0].Key))
	}
}

// granted makes the place's key a grant.
func (p *place) granted(term backend.Term, ttl time.Duration) (backend.Grant, error) {
	p.quit()
	g, err := p.g.s.granted(p.g, p.g.Fence(), term, ttl)
	if err != nil { // the session is over, or Close gave the place up
		p.g = nil
		return nil, err
	}
	p.used = true
	return g, nil
}

// lapse records that the place's key is gone. The next try begins anew, at the
// end of the queue.
func (p *place) lapse() error {
	p.quit()
	p.g.s.free(p.g)
	p.g = nil
	return sessions.ErrOver
}

// follow watches the key before and the place's own, from after rev.
func (p *place) follow(before string, beforeRev, rev int64) {
	p.quit()
	watches := []*watch{p.b.watchFrom(before, "", rev+1, p.changed),
		p.b.watchFrom(p.g.key, "", rev+1, p.changed)}
	p.mu.Lock()
	p.before, p.rev, p.watches = before, beforeRev, watches
	p.mu.Unlock()
}

// quit ends the watches.
func (p *place) quit() {
	p.mu.Lock()
	watches := p.watches
	p.watches, p.fired = nil, false
	p.mu.Unlock()
	for _, w := range watches {
		w.disarm()
	}
}

// changed is called by the watches, and when the session ends.
func (p *place) changed() {
	p.mu.Lock()
	wake := p.wake
	p.fired = true
	p.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// Await arms wake for the watches that the last Try began.
func (p *place) Await(_ context.Context, wake func()) (func(), bool, error) {
	if p.g == nil {
		return nil, false, errors.New("etcd: this place in the queue has no key yet")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake = wake
	return func() {
		p.mu.Lock()
		p.wake = nil
		p.mu.Unlock()
	}, p.fired, nil
}

// Leave deletes the key of the place. If etcd does not answer, the session goes
// on with that by itself.
func (p *place) Leave(ctx context.Context) error {
	g := p.g
	if p.used || g == nil {
		return nil
	}
	p.used = true
	p.quit()
	if _, err := g.s.remove(ctx, g); err != nil {
		g.s.Stray(g)
		return trouble("leave the queue of", p.name, err)
	}
	g.s.free(g)
	return nil
}

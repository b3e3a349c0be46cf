// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// full is a backend with every optional interface.
type full struct{ plain }

func (b *full) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := make([]backend.Term, len(grants)), make([]error, len(grants))
	sent := backend.ReadClock(ctx)
	err, _ := b.do(ctx, "extend", func() {
		for i, g := range grants {
			errs[i] = b.extend(bare(g), ttl)
			terms[i] = backend.Term{Sent: sent, TTL: ttl}
		}
	})
	for i := range errs {
		if errs[i] = errors.Join(errs[i], err); errs[i] != nil {
			terms[i] = backend.Term{}
		}
	}
	return terms, errs
}

// ReleaseIn counts as a call of "release".
func (b *full) ReleaseIn(ctx context.Context, g backend.Grant, rest time.Duration) error {
	mine := bare(g)
	var lost error
	err, _ := b.do(ctx, "release", func() {
		if lost = b.extend(mine, rest); lost == nil {
			b.mu.Lock()
			wake := b.changed(mine.key)
			b.mu.Unlock()
			wake()
		}
	})
	return errors.Join(err, lost)
}

func (b *full) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return b.Try(ctx, key, ttl)
}

func (b *full) Enter(ctx context.Context, key string) (backend.Place, error) {
	b.mu.Lock()
	b.serial++
	p := &place{store: b.Store, key: key, id: fmt.Sprintf("place-%d", b.serial)}
	b.mu.Unlock()
	if err, _ := b.do(ctx, "enter", func() {}); err != nil {
		return nil, err
	}
	return p, nil
}

type place struct {
	store *Store
	key   string
	id    string
}

func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	s := p.store
	s.mu.Lock()
	if !slices.Contains(s.queues[p.key], p.id) {
		s.queues[p.key] = append(s.queues[p.key], p.id)
	}
	s.mu.Unlock()
	return s.take(ctx, "try", p.key, ttl, p.id)
}

func (p *place) Await(ctx context.Context, wake func()) (func(), bool, error) {
	return (&full{plain{p.store}}).Await(ctx, p.key, wake)
}

func (p *place) Leave(ctx context.Context) error {
	err, _ := p.store.do(ctx, "leave", func() {
		s := p.store
		s.mu.Lock()
		s.unqueue(p.key, p.id)
		wake := s.changed(p.key)
		s.mu.Unlock()
		wake()
	})
	return err
}

func (b *full) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	var free bool
	var cancel func()
	err, _ := b.do(ctx, "await", func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		free = b.live(key) == nil
		cancel = b.watch(key, wake)
	})
	return cancel, free, err
}

func (b *full) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	for i, g := range gs {
		errs[i] = b.watchOne(ctx, bare(g), holders[i].Touched)
	}
	return errs
}

func (b *full) Unwatch(g backend.Grant) {
	b.mu.Lock()
	cancel := b.armed[bare(g)]
	delete(b.armed, bare(g))
	b.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

func (b *full) watchOne(ctx context.Context, mine *grant, touched func()) error {
	var lost error
	err, _ := b.do(ctx, "watch", func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if e := b.live(mine.key); e == nil || e.token != mine.token {
			lost = errNotOurs
			return
		}
		b.armed[mine] = b.watch(mine.key, touched)
	})
	if err == nil {
		err = lost
	}
	if err != nil {
		b.Unwatch(mine)
	}
	return err
}

// watch arms fn for key. Called with s.mu held.
func (s *Store) watch(key string, fn func()) (cancel func()) {
	w := &watch{fn: fn}
	s.watches[key] = append(s.watches[key], w)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		ws := s.watches[key]
		for i := range ws {
			if ws[i] == w {
				s.watches[key] = append(ws[:i:i], ws[i+1:]...)
				return
			}
		}
	}
}

// Sharing returns a backend like Full whose grants can be shared, each at most
// seven times.
func (s *Store) Sharing() backend.Store { return backend.Of(&sharing{full{plain{s}}}) }

type sharing struct{ full }

func (b *sharing) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.full.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.serial += 7 // the numbers reserved for the next holders
	b.mu.Unlock()
	return &sharedGrant{g.(*grant), 7}, nil
}

func (b *sharing) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return b.Try(ctx, key, ttl)
}

type sharedGrant struct {
	*grant
	left int
}

func (g *sharedGrant) Share() (backend.Grant, bool) {
	if g.left == 0 {
		return nil, false
	}
	next := *g.grant
	next.fence++
	return &sharedGrant{&next, g.left - 1}, true
}

package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// full is a backend with every optional interface.
type full struct{ plain }

func (b *full) ExtendAll(ctx context.Context, grants []lock.Grant, ttl time.Duration) ([]lock.Term, []error) {
	terms, errs := make([]lock.Term, len(grants)), make([]error, len(grants))
	sent := lock.Mark(ctx)
	err, _ := b.do(ctx, "extend", func() {
		for i, g := range grants {
			errs[i] = b.extend(g.(*grant), ttl)
			terms[i] = lock.Term{Sent: sent, TTL: ttl}
		}
	})
	for i := range errs {
		if errs[i] = errors.Join(errs[i], err); errs[i] != nil {
			terms[i] = lock.Term{}
		}
	}
	return terms, errs
}

func (b *full) Pass(ctx context.Context, old lock.Grant, ttl time.Duration) (lock.Grant, error) {
	g := old.(*grant)
	b.mu.Lock()
	b.serial++
	next := &grant{store: b.Store, key: g.key, fence: b.serial, token: fmt.Sprintf("token-%d", b.serial)}
	b.mu.Unlock()
	next.term = lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	var lost error
	err, unsure := b.do(ctx, "pass", func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		e := b.live(g.key)
		if e == nil || e.token != g.token {
			lost = errNotOurs
			return
		}
		e.token, e.ends = next.token, b.clock.Now().Add(ttl)
	})
	switch {
	case unsure:
		return nil, &lock.UnsureError{Grant: next, Err: err}
	case err != nil:
		return nil, err
	case lost != nil:
		return nil, lost
	}
	return next, nil
}

func (b *full) Enter(ctx context.Context, key string) (lock.Place, error) {
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

func (p *place) Try(ctx context.Context, ttl time.Duration) (lock.Grant, error) {
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

func (b *full) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	for i, g := range gs {
		errs[i] = b.watchOne(ctx, g.(*grant), holders[i].Touched)
	}
	return errs
}

func (b *full) Unwatch(g lock.Grant) {
	b.mu.Lock()
	cancel := b.armed[g.(*grant)]
	delete(b.armed, g.(*grant))
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
func (s *Store) Sharing() lock.Backend { return &sharing{full{plain{s}}} }

type sharing struct{ full }

func (b *sharing) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	g, err := b.full.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.serial += 7 // the numbers reserved for the next holders
	b.mu.Unlock()
	return &sharedGrant{g.(*grant), 7}, nil
}

func (b *sharing) Pass(ctx context.Context, g lock.Grant, ttl time.Duration) (lock.Grant, error) {
	return b.full.Pass(ctx, inside(g), ttl)
}

func (b *sharing) ExtendAll(ctx context.Context, gs []lock.Grant, ttl time.Duration) ([]lock.Term, []error) {
	return b.full.ExtendAll(ctx, insides(gs), ttl)
}

func (b *sharing) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	return b.full.Watch(ctx, insides(gs), holders)
}

func (b *sharing) Unwatch(g lock.Grant) { b.full.Unwatch(inside(g)) }

func inside(g lock.Grant) lock.Grant {
	if s, ok := g.(*sharedGrant); ok {
		return s.grant
	}
	return g
}

func insides(gs []lock.Grant) []lock.Grant {
	inner := make([]lock.Grant, len(gs))
	for i, g := range gs {
		inner[i] = inside(g)
	}
	return inner
}

type sharedGrant struct {
	*grant
	left int
}

func (g *sharedGrant) Share() (lock.Grant, bool) {
	if g.left == 0 {
		return nil, false
	}
	next := *g.grant
	next.fence++
	return &sharedGrant{&next, g.left - 1}, true
}

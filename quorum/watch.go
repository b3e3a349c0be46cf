// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Watch arms one call of Touched for each grant, at every member that voted. A
// change on one member need not be a loss: the Client then calls Watch again,
// which looks at all votes. A grant is lost if fewer than a majority of those
// that count are left.
func (b *engine) Watch(ctx context.Context, gs []backend.Grant, holders []interface{ Touched() }) []error {
	errs := make([]error, len(gs))
	if !b.begin() {
		for i := range errs {
			errs[i] = lock.ErrClosed
		}
		return errs
	}
	defer b.work.Done()
	told := make([]*touch, len(gs))
	for k := range gs {
		told[k] = &touch{holder: holders[k]}
	}
	var mu sync.Mutex
	armed, trouble := make([]int, len(gs)), make([]error, len(gs))
	b.each(func(m *member) error {
		found, which := m.watch(ctx, gs, told)
		mu.Lock()
		defer mu.Unlock()
		for j, k := range which {
			if found[j] == nil {
				armed[k]++
			} else if !errors.Is(found[j], backend.ErrLost) {
				trouble[k] = fmt.Errorf("%s: %w", m, found[j])
			}
		}
		return nil
	})
	for k := range gs {
		g, ok := gs[k].(*grant)
		switch {
		case !ok:
			errs[k] = errForeignGrant
		case g.isOver():
			errs[k] = errOver
		case g.left() < b.need:
			errs[k] = g.lostWith(g.left())
		case armed[k] > 0:
			continue
		case trouble[k] != nil:
			errs[k] = trouble[k]
		default:
			errs[k] = errNoWake
		}
		b.Unwatch(gs[k])
	}
	return errs
}

// watch arms the watches of one member, for those grants that have its vote.
// It returns the outcomes and the indexes of these grants.
func (m *member) watch(ctx context.Context, gs []backend.Grant, told []*touch) (found []error, which []int) {
	if m.waker == nil {
		return nil, nil
	}
	var own []backend.Grant
	var holders []interface{ Touched() }
	for k := range gs {
		g, ok := gs[k].(*grant)
		if !ok {
			continue
		}
		g.mu.Lock()
		if v := g.votes[m.index]; v.state == stands && !g.over {
			own, holders, which = append(own, v.grant), append(holders, told[k]), append(which, k)
		}
		g.mu.Unlock()
	}
	if len(own) == 0 {
		return nil, nil
	}
	found = m.waker.Watch(ctx, own, holders)
	for j, k := range which {
		if errors.Is(found[j], backend.ErrLost) {
			g := gs[k].(*grant)
			g.mu.Lock()
			g.lost(m.index, own[j])
			g.mu.Unlock()
		}
	}
	return found, which
}

// touch calls Touched of a holder once, however many members report a change.
type touch struct {
	once   sync.Once
	holder interface{ Touched() }
}

// Touched is called by members.
func (t *touch) Touched() { t.once.Do(t.holder.Touched) }

// Unwatch disarms what Watch armed, at every member.
func (b *engine) Unwatch(granted backend.Grant) {
	g, ok := granted.(*grant)
	if !ok {
		return
	}
	for _, m := range b.members {
		g.mu.Lock()
		of := g.votes[m.index].grant
		g.mu.Unlock()
		if m.waker != nil && of != nil {
			m.waker.Unwatch(of)
		}
	}
}

// left returns how many votes count.
func (g *grant) left() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counting()
}

func (g *grant) isOver() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.over
}

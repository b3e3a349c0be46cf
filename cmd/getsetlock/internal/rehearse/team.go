// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// team is a group at work.
type team struct {
	groupSpec
	number   int
	commands atomic.Int64
	fates    map[int]fate // by the number of the group's acquisition
	most     int          // greatest number of programs at once, where that changes
	next     nextFates
}

// kind says by which rules a client is judged.
type kind int

const (
	lockless  kind = iota // it has no lease
	oldClient             // it knows of no leases, and may break its own rules
	newClient             // no two of these may ever hold together
)

// groupSpec describes a group of like clients.
type groupSpec struct {
	name     string
	protocol string // protocol of its clients
	clients  int
	kind     kind
	make     func(w *worker) (seller, error)
}

// fate is what happens to a holder in the middle of its job.
type fate int

const (
	lives fate = iota
	dies

	// takesAllDown dies in the middle of a deployment. The rest of its group
	// ends in good order, and comes back after another group has taken over the
	// dead program's key. Otherwise the kind of client that takes over soonest
	// would win every key.
	takesAllDown

	overruns
)

// fates draws which acquisitions of a group end badly. They lie within the
// group's fair share of the work and not at the very end, so that other
// programs are left to notice.
func (p Plan) fates(group, groups int, old bool) map[int]fate {
	r := p.rand(streamFate, group)
	among := max(p.Acquisitions/groups*7/10, 1)
	all := make(map[int]fate)
	draw := func(n int, what fate) {
		for range min(n, among-len(all)) {
			at := r.IntN(among)
			for all[at] != lives {
				at = (at + 1) % among
			}
			all[at] = what
		}
	}
	if p.Crashes > 0 && groups > 1 {
		draw(1, takesAllDown)
	}
	draw(p.Crashes-len(all), dies)
	if old {
		draw(p.Overruns, overruns)
	}
	return all
}

// nextFates are the fates of the next holders, one each.
type nextFates struct {
	mu   sync.Mutex
	next []fate
}

func (d *nextFates) add(f fate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = append(d.next, f)
}

func (d *nextFates) take() fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.next) == 0 {
		return lives
	}
	f := d.next[0]
	d.next = d.next[1:]
	return f
}

// redeploy begins a deployment of w's group, in which w died while it held
// sku's key. Only one group at a time can be away, since each would wait for
// the other.
func (f *fleet) redeploy(w *worker, sku string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stillAway() != nil {
		return
	}
	f.away, f.orphan = w.team, sku
	for _, other := range f.crew {
		if other != nil && other != w && other.team == w.team {
			f.close.Go(func() {
				pause(context.Background(), other.apart()) // one after the other, as deployments do
				other.retire()
			})
		}
	}
}

// stillAway returns the group of which a deployment is under way. It also ends
// a deployment that is over. Called with f.mu held.
func (f *fleet) stillAway() *team {
	if f.away != nil && (f.tasks.over() || !f.book.isOrphaned(f.orphan)) {
		f.away = nil
	}
	return f.away
}

func (f *fleet) isAway(t *team) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stillAway() == t
}

func (f *fleet) post(slot int) *team {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.posts[slot]
}

func (f *fleet) works(slot int, w *worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crew[slot] = w
}

// employ keeps one slot of the fleet filled until all work is done. It starts a
// program anew, after a while, if it died or was redeployed.
//
// No two programs start or come back at the same instant. The scheduler chooses
// which of several programs that wake together runs first, and would choose
// otherwise in the next run.
func (f *fleet) employ(ctx context.Context, slot int) {
	pause(ctx, time.Duration(slot)*startsApart)
	for life := 0; ctx.Err() == nil; life++ {
		t := f.post(slot)
		w, err := f.start(ctx, t, slot, life)
		if err != nil {
			f.stop(fmt.Errorf("a program of the %s group cannot start: %w", t.name, err))
			return
		}
		f.works(slot, w)
		died := w.serve(ctx)
		f.works(slot, nil)
		redeployed := w.retired.Load()
		if died {
			w.bury(&f.close)
		} else {
			w.quit()
		}
		if !died && !redeployed {
			return
		}
		back := restart + w.apart()
		pause(ctx, back)
		for ctx.Err() == nil && f.isAway(t) {
			pause(ctx, back)
		}
	}
}

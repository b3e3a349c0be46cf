// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// team is a group of like clients at work.
type team struct {
	Group    // guarded by the book, and its Clients by staff
	kind     kind
	equip    func(*worker) error // gives a program its way of locking
	commands atomic.Int64
	fates    map[int]fate    // by the number of the group's acquisition
	next     []fate          // of its next holders, one each; guarded by staff
	waits    []time.Duration // guarded by the book
}

func newTeam(name, protocol string, clients int, k kind, equip func(*worker) error) *team {
	return &team{Group: Group{Name: name, Protocol: protocol, Clients: clients}, kind: k, equip: equip}
}

// kind says by which rules a client is judged.
type kind int

const (
	lockless  kind = iota // it has no lease
	oldClient             // it knows of no leases, and may break its own rules
	newClient             // no two of these may ever hold together
)

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

// addFate gives the next holder of a group a fate.
func (f *fleet) addFate(group int, what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.teams[group].next = append(f.teams[group].next, what)
}

// fate returns what happens to acquisition n of a group.
func (f *fleet) fate(t *team, n int) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(t.next) == 0 {
		return t.fates[n]
	}
	end := t.next[0]
	t.next = t.next[1:]
	return end
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
				// One after the other, as deployments do, and not at the
				// instant of the death: the scheduler would choose which of
				// two orders comes back first.
				pause(context.Background(), other.apart()+1)
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
			f.stop(fmt.Errorf("a program of the %s group cannot start: %w", t.Name, err))
			return
		}
		f.works(slot, w)
		died := w.serve(ctx)
		f.works(slot, nil)
		redeployed := w.retired.Load()
		if !died {
			w.retire()
		}
		// No command of a program that died reaches the server any more. Its
		// goroutines run until they notice, which does no harm.
		w.link.cut()
		if died {
			f.close.Go(w.retire)
		} else if !redeployed {
			return
		}
		back := restart + w.apart()
		pause(ctx, back)
		for ctx.Err() == nil && f.isAway(t) {
			pause(ctx, back)
		}
	}
}

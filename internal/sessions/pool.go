// SPDX-License-Identifier: Apache-2.0

package sessions

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Pool has the sessions of one backend, which embeds it. The mutex also guards
// what else the backend remembers.
type Pool[S pooled] struct {
	sync.Mutex
	Closed bool
	Open   map[time.Duration]S // by TTL: those that take new keys
	Life   context.Context     // ends with Close
	Work   sync.WaitGroup      // what Close waits for, the keepers of sessions too
	die    context.CancelFunc
	all    map[S]bool // open and retired
}

type pooled interface {
	comparable
	retire()
}

// Begin makes the zero Pool usable.
func (p *Pool[S]) Begin() {
	p.Open, p.all = map[time.Duration]S{}, map[S]bool{}
	p.Life, p.die = context.WithCancel(context.Background())
}

// Start lists a session that was opened, and runs its keeper. It reports false
// after Close. Called with the Pool locked.
func (p *Pool[S]) Start(s S, keeper func()) bool {
	if p.Closed {
		return false
	}
	p.all[s] = true
	p.Work.Go(keeper)
	return true
}

// Retire keeps new keys away from s.
func (p *Pool[S]) Retire(s S) {
	p.Lock()
	maps.DeleteFunc(p.Open, func(_ time.Duration, other S) bool { return other == s })
	p.Unlock()
	s.retire()
}

// Forget takes a session that is over off the lists.
func (p *Pool[S]) Forget(s S) {
	p.Retire(s)
	p.Lock()
	delete(p.all, s)
	p.Unlock()
}

// All returns the sessions. Called with the Pool locked.
func (p *Pool[S]) All() []S { return slices.Collect(maps.Keys(p.all)) }

// End leaves all sessions at once and joins what the Pool began. It does so
// once.
func (p *Pool[S]) End(leave func(S) error) error {
	p.Lock()
	again, all := p.Closed, p.All()
	p.Closed = true
	p.Unlock()
	if again {
		return nil
	}
	errs := make([]error, len(all))
	var leaving sync.WaitGroup
	for i, s := range all {
		leaving.Go(func() { errs[i] = leave(s) })
	}
	leaving.Wait()
	p.die()
	p.Work.Wait()
	return errors.Join(errs...)
}

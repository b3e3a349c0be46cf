// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Waiters stand in no queue. Those that have waited almost as long as waits
// usually take listen, and a release wakes them; the others ask now and then.
// Each that is woken tries after a pause, which is the shorter, the longer it
// has waited, and a little random, so that one is ahead of the others. A client
// that just released lets them go first.

const (
	// lookEvery is how long a waiter relies on being woken at least, for waits
	// that take as long; twice that is the most. A message may be missed, and
	// the member at which it listens may be away without a sign.
	lookEvery = time.Second

	// longWait is how many times the usual wait is so long that no other waiter
	// goes first.
	longWait = 1.25

	// leastLook is lookEvery for the shortest waits.
	leastLook = 20 * time.Millisecond

	// apart is the first pause after a split vote, and the least wait that
	// counts as one.
	apart = 500 * time.Microsecond

	// widest is the longest time for which a client that just released lets
	// others go first.
	widest = 100 * time.Millisecond
)

// usual is how long waits took lately, and when this process last released.
type usual struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	took  time.Duration // a mean of the last waits
	had   bool          // this process has released the key
	freed time.Duration // elapsed time of the last release
}

// behind returns how long a client that just released lets others go first.
func (t turn) behind(now time.Duration) time.Duration {
	if !t.had {
		return 0
	}
	return min(t.took, widest) - (now - t.freed)
}

// mostUsual bounds usual.keys. A key that is forgotten costs messages only.
const mostUsual = 1000

// note records that a wait took so long.
func (u *usual) note(key string, took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.keys[key]
	switch {
	case t != nil:
		// One long wait must not make the next one long too.
		if t.took = (3*t.took + min(took, 3*t.took/2)) / 4; t.took < apart {
			delete(u.keys, key)
		}
	case took >= apart:
		if u.keys == nil || len(u.keys) == mostUsual {
			u.keys = map[string]*turn{}
		}
		u.keys[key] = &turn{took: took}
	}
}

func (u *usual) freed(key string, now time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.keys[key]; t != nil {
		t.had, t.freed = true, now
	}
}

func (u *usual) of(key string) turn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.keys[key]; t != nil {
		return *t
	}
	return turn{}
}

// Enter begins a wait.
func (b *engine) Enter(_ context.Context, key string) (backend.Place, error) {
	return &place{b: b, key: key, began: b.elapsed()}, nil
}

// place is a waiter of this process.
type place struct {
	b      *engine
	key    string
	began  time.Duration
	took   time.Duration // the last attempt
	splits int           // attempts in a row that got some votes
	deaf   bool          // it does not listen: others have waited longer
}

// Try makes an attempt. Its errors are those of Backend.First.
func (p *place) Try(ctx context.Context, ttl time.Duration) (backend.Grant, error) {
	from := p.b.elapsed()
	g, err := p.b.attempt(ctx, p.key, ttl)
	now := p.b.elapsed()
	p.took = now - from
	var held *backend.HeldError
	switch {
	case err == nil:
		p.b.usual.note(p.key, now-p.began)
	case !bare(err) || !errors.As(err, &held):
	case isSplit(err):
		p.splits++
		held.Again = rand.N(apart<<min(p.splits, 6)) + 1
	default:
		p.splits = 0
		waited, usually := p.waits()
		if p.deaf = waited < usually*8/10; p.deaf {
			held.Again = min(usually*8/10-waited+1, lookEvery/4+rand.N(lookEvery/4))
		} else {
			held.Again = max(min(usually, lookEvery), leastLook)
			held.Again += rand.N(held.Again)
		}
	}
	return g, err
}

// waits returns how long this wait has taken, and how long waits take: if that
// is not known, as long as this one.
func (p *place) waits() (waited, usually time.Duration) {
	waited = max(p.b.elapsed()-p.began, p.took, 1)
	if usually = p.b.usual.of(p.key).took; usually == 0 {
		usually = waited
	}
	return waited, usually
}

// pause returns how long this waiter lets others go first after a release: not
// at all if it has waited much longer than usual.
func (p *place) pause() time.Duration {
	waited, usually := p.waits()
	young := max(longWait-float64(waited)/float64(usually), 0)
	return time.Duration(4*young*float64(p.took)*(0.9+0.2*rand.Float64())) + rand.N(p.took/2+1)
}

// Await arms one call of wake for when the key changes.
func (p *place) Await(ctx context.Context, wake func()) (cancel func(), free bool, err error) {
	if p.splits > 0 || p.deaf { // its next attempt is due before long
		return func() {}, false, nil
	}
	return p.b.Await(ctx, p.key, func() {
		if !p.b.begin() {
			return
		}
		go func() {
			defer p.b.work.Done()
			p.b.pause(p.b.life, p.pause())
			wake()
		}()
	})
}

// Leave ends the wait.
func (p *place) Leave(context.Context) error { return nil }

// errNoWake says that no member can report changes.
var errNoWake = fmt.Errorf("quorum: %w: no member reports changes", backend.ErrNoWake)

// errNoAnswer does not wrap backend.ErrNoWake: the member reports changes again
// when it is back.
var errNoAnswer = errors.New("it did not answer the last call")

// Await arms one call of wake at a member on which the key is held. If key is
// free on a majority, free is true.
func (b *engine) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	var armed []func()
	var errs []error
	var once sync.Once
	frees := 0
	for _, i := range rand.Perm(len(b.members)) {
		m := b.members[i]
		if m.waker == nil {
			continue
		}
		if m.missing() != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m, errNoAnswer))
			continue
		}
		cancel, looksFree, err := m.waker.Await(ctx, key, func() { once.Do(wake) })
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m, err))
			continue
		}
		armed = append(armed, cancel)
		if !looksFree {
			break
		}
		if frees++; frees == b.need {
			break
		}
	}
	switch {
	case len(armed) > 0:
		return func() {
			for _, cancel := range armed {
				cancel()
			}
		}, frees >= b.need, nil
	case len(errs) > 0:
		return nil, false, errors.Join(errs...)
	}
	return nil, false, errNoWake
}

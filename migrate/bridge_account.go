// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// account is what becomes of one attempt and of all that follows from it. Where
// no member counts it, it knows only its phase.
type account struct {
	b     *bridgeEngine
	phase Phase   // of the attempt and of its lease
	owner *Member // counts it; nil without one
	epoch int64   // epoch of that record; 0 if unknown
	life  int64   // how often owner may have been forgotten before it was begun

	whole *account // account that this is a part of, which counts the writes of both; nil for a whole one
	end   func()   // nil: nothing is counted

	mu    sync.Mutex
	until time.Duration // elapsed time at which the effect of the last write has certainly ended
	alone bool          // a goroutine awaits its end
	done  chan struct{} // closed by close
}

// begin asks for the phase of an attempt. After an error nothing may be taken.
func (b *bridgeEngine) begin(ctx context.Context, key string, ttl time.Duration) (*account, error) {
	m := b.member
	if m == nil {
		p, err := b.cfg.Phases.Phase(ctx)
		if err == nil && (p < Observe || p > Clean) {
			err = fmt.Errorf("%w: the source said %v", ErrNoPhase, p)
		}
		return &account{b: b, phase: p}, err
	}
	if !m.Covers(key) {
		return nil, fmt.Errorf(
			"%w: %q; give the program a key of its namespace, or let it join the one that owns this",
			ErrOutside, key)
	}
	if err := b.placed(ctx); err != nil {
		return nil, err
	}
	h, err := m.begin(ctx, ttl)
	if err != nil {
		return nil, err
	}
	b.Told(m.saw())
	return &account{b: b, phase: h.phase, owner: m, epoch: h.epoch, life: h.life, end: h.end,
		done: make(chan struct{})}, nil
}

// root is the account that a part belongs to, or the account itself.
func (a *account) root() *account {
	if a.whole != nil {
		return a.whole
	}
	return a
}

// Outdated reports that the record has another epoch than when the account was
// begun. Then the lock is not handed over: the next holder's phase and record
// may be others.
func (a *account) Outdated() bool {
	a = a.root()
	return a.epoch != 0 && a.owner.epoch() != a.epoch
}

// Back reports that the member by whose record the lock was taken now acts by a
// phase in which no tombstone may be left.
func (a *account) Back() bool {
	a = a.root()
	if a.owner == nil {
		return false
	}
	now := a.owner.current()
	return now != NoPhase && now < Sealed
}

// counts says why an attempt gets no lock, though the lock was just taken for
// ttl: the member was silent meanwhile, and may have been forgotten. Then no
// gate waited for the attempt, and its phase may be over.
func (a *account) counts(ctx context.Context, ttl time.Duration) error {
	a = a.root()
	if a.owner == nil {
		return nil
	}
	if err := a.owner.keeps(ctx, ttl); err != nil {
		return err
	}
	if a.owner.life() != a.life {
		return &forgottenError{}
	}
	return nil
}

// forgottenError is the error of an attempt during which the member was silent.
type forgottenError struct{}

func (*forgottenError) Error() string {
	return "migrate: while the lock was being taken, the server answered no heartbeat for so long that the operator may have forgotten the member; the lock was given back"
}

// Passing says that the next attempt may succeed.
func (*forgottenError) Passing() bool { return true }

// accountOf is a grant's account, nil where it is none of this package.
func accountOf(granted backend.Grant) *account {
	switch g := granted.(type) {
	case *twokey.Grant:
		if a, ok := g.Account().(*account); ok {
			return a.root()
		}
	case *composedGrant:
		return g.account
	}
	return nil
}

// keeping asks members whether leases may be renewed, each member once.
type keeping struct {
	asked *Member
	err   error
}

// keeps says why the lease of a grant may not be renewed for ttl now. A probe's
// lease may always be renewed: it is held during a round of the member, which
// cannot wait for another round.
func (k *keeping) keeps(ctx context.Context, granted backend.Grant, ttl time.Duration) error {
	a := accountOf(granted)
	if a == nil || a.owner == nil {
		return nil
	}
	if a.owner != k.asked {
		k.asked, k.err = a.owner, a.owner.keeps(ctx, ttl)
	}
	return k.err
}

// part is an account for a part of what is taken. Its writes count from when
// they are sent, not from when the whole began. The owner of the whole closes
// it.
func (a *account) part() *account { return &account{b: a.b, phase: a.phase, whole: a} }

// Sending notes that a write is about to be sent that may keep the lock for
// ttl.
func (a *account) Sending(ttl time.Duration) {
	a = a.root()
	if a.end == nil {
		return
	}
	// A write that the network delays arrives within the timeout of its reply.
	until := a.b.Clock.Elapsed() + ttl + a.b.Mux.Timeout()
	a.mu.Lock()
	a.until = max(a.until, until)
	a.mu.Unlock()
}

// Close tells the member that certainly nothing is held.
func (a *account) Close() {
	if a.end == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.done:
	default:
		close(a.done)
		a.end()
	}
}

// Orphan closes the account at the latest when the server has certainly ended
// the lock by its TTL. After a loss or an unknown outcome nobody may ever
// release it.
func (a *account) Orphan() {
	if a.end == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alone {
		return
	}
	a.alone = true
	a.b.closing.Lock()
	defer a.b.closing.Unlock()
	if a.b.isClosed {
		return
	}
	a.b.orphans.Add(1)
	go a.await()
}

func (a *account) await() {
	b := a.b
	defer b.orphans.Done()
	for {
		a.mu.Lock()
		left := a.until - b.Clock.Elapsed()
		a.mu.Unlock()
		if left <= 0 {
			a.Close()
			return
		}
		select {
		case <-b.Clock.After(left):
		case <-a.done:
			return
		case <-b.closed:
			return // the member keeps counting a lock that may still be held
		}
	}
}

package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// account is what a ledger knows of one attempt and of all that follows from
// it. Without a ledger it is nil, and its methods do nothing.
type account struct {
	owner registered // member that counts it; nil without one
	epoch int64      // epoch of that record; 0 if unknown
	life  int64      // how often owner may have been forgotten before it was begun

	whole *account // account that this is a part of, which counts the writes of both; nil for a whole one
	end   func()

	mu    sync.Mutex
	until time.Duration // elapsed time at which the effect of the last write has certainly ended
	alone bool          // a goroutine awaits its end
	done  chan struct{} // closed by close
}

// begin asks for the phase of an attempt. After an error nothing may be taken.
func (b *bridgeEngine) begin(ctx context.Context, key string, ttl time.Duration) (Phase, *account, error) {
	if c, ok := b.cfg.Phases.(interface{ Covers(string) bool }); ok && !c.Covers(key) {
		return NoPhase, nil, fmt.Errorf(
			"%w: %q; give the program a key of its namespace, or let it join the one that owns this",
			ErrOutside, key)
	}
	if err := b.placed(ctx); err != nil {
		return NoPhase, nil, err
	}
	if m, ok := b.cfg.Phases.(*Member); ok {
		h, err := m.begin(ctx, ttl)
		if err != nil {
			return NoPhase, nil, err
		}
		b.judge.Told(m.saw())
		return h.phase, &account{owner: m, epoch: h.epoch, life: h.life, end: h.end,
			done: make(chan struct{})}, nil
	}
	ledger, ok := b.cfg.Phases.(Ledger)
	if !ok {
		p, err := b.cfg.Phases.Phase(ctx)
		if err == nil && (p < Observe || p > Clean) {
			err = fmt.Errorf("%w: the source said %v", ErrNoPhase, p)
		}
		return p, nil, err
	}
	life := int64(0)
	if b.member != nil {
		life = b.member.life()
	}
	p, end, err := ledger.Begin(ctx, ttl)
	if err != nil {
		return NoPhase, nil, err
	}
	if b.member != nil {
		b.judge.Told(b.member.saw())
	}
	return p, &account{owner: b.member, life: life, end: end, done: make(chan struct{})}, nil
}

// root is the account that a part belongs to, or the account itself.
func (a *account) root() *account {
	if a != nil && a.whole != nil {
		return a.whole
	}
	return a
}

// outdated reports that the record has another epoch than when the account was
// begun. Then the lock is not handed over: the next holder's phase and record
// may be others.
func (a *account) outdated() bool {
	a = a.root()
	return a != nil && a.epoch != 0 && a.owner.epoch() != a.epoch
}

// backBelow reports that the member by whose record the lock was taken now acts
// by a phase below p.
func (a *account) backBelow(p Phase) bool {
	a = a.root()
	if a == nil || a.owner == nil {
		return false
	}
	now := a.owner.current()
	return now != NoPhase && now < p
}

// counts says why an attempt gets no lock, though the lock was just taken for
// ttl: the member was silent meanwhile, and may have been forgotten. Then no
// gate waited for the attempt, and its phase may be over.
func (a *account) counts(ctx context.Context, ttl time.Duration) error {
	a = a.root()
	if a == nil || a.owner == nil {
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

// accountOf is a grant's account, nil where it has none.
func accountOf(granted backend.Grant) *account {
	switch g := granted.(type) {
	case *bridgeGrant:
		return g.account.root()
	case *observeGrant:
		return g.account.root()
	case *composedGrant:
		return g.account
	}
	return nil
}

// keeping asks members whether leases may be renewed, each member once.
type keeping struct {
	asked registered
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
func (a *account) part() *account {
	if a == nil {
		return nil
	}
	return &account{whole: a}
}

// sending notes that a write is about to be sent that may keep the lock for
// ttl.
func (a *account) sending(b *bridgeEngine, ttl time.Duration) {
	if a == nil {
		return
	}
	if a.whole != nil {
		a.whole.sending(b, ttl)
		return
	}
	// A write that the network delays arrives within the timeout of its reply.
	until := b.clock.Elapsed() + ttl + b.mux.Timeout()
	a.mu.Lock()
	a.until = max(a.until, until)
	a.mu.Unlock()
}

// close tells the ledger that certainly nothing is held.
func (a *account) close() {
	if a == nil || a.whole != nil {
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

// orphan closes the account at the latest when the server has certainly ended
// the lock by its TTL. After a loss or an unknown outcome nobody may ever
// release it.
func (b *bridgeEngine) orphan(a *account) {
	if a == nil || a.whole != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alone {
		return
	}
	a.alone = true
	b.closing.Lock()
	defer b.closing.Unlock()
	if b.isClosed {
		return
	}
	b.orphans.Add(1)
	go b.await(a)
}

func (b *bridgeEngine) await(a *account) {
	defer b.orphans.Done()
	for {
		a.mu.Lock()
		left := a.until - b.clock.Elapsed()
		a.mu.Unlock()
		if left <= 0 {
			a.close()
			return
		}
		select {
		case <-b.clock.After(left):
		case <-a.done:
			return
		case <-b.closed:
			return // the ledger keeps counting a lock that may still be held
		}
	}
}

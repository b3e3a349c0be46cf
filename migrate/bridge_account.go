package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// account is what a ledger is told of one attempt and all that came of it. Without a ledger it is nil,
// and its methods do nothing.
type account struct {
	whole *account // of which this is a part: it has the writes of both, and is closed elsewhere
	end   func()

	mu    sync.Mutex
	until time.Duration // elapsed time at which the last write that was sent has ended for certain
	alone bool          // nobody else sees to its end
	done  chan struct{} // closed by close
}

// begin asks for the phase of an attempt. All errors say that nothing may be taken.
func (b *Bridge) begin(ctx context.Context, key string, ttl time.Duration) (Phase, *account, error) {
	if c, ok := b.cfg.Phases.(interface{ Covers(string) bool }); ok && !c.Covers(key) {
		return NoPhase, nil, fmt.Errorf("%w: %q; give the program a key of its namespace, or let it join the one that owns this", ErrOutside, key)
	}
	ledger, ok := b.cfg.Phases.(Ledger)
	if !ok {
		p, err := b.cfg.Phases.Phase(ctx)
		if err == nil && (p < Observe || p > Clean) {
			err = fmt.Errorf("%w: the source said %v", ErrNoPhase, p)
		}
		return p, nil, err
	}
	p, end, err := ledger.Begin(ctx, ttl)
	if err != nil {
		return NoPhase, nil, err
	}
	return p, &account{end: end, done: make(chan struct{})}, nil
}

// part is the account of one who does a part of what is taken. Its writes count from when they are sent, not
// from when the whole began; the whole is closed by whoever has it.
func (a *account) part() *account {
	if a == nil {
		return nil
	}
	return &account{whole: a}
}

// sending notes that a write is about to be sent that may keep the lock for ttl.
func (a *account) sending(b *Bridge, ttl time.Duration) {
	if a == nil {
		return
	}
	if a.whole != nil {
		a.whole.sending(b, ttl)
		return
	}
	// What the network holds back arrives within the time that a reply is waited for.
	until := b.clock.Elapsed() + ttl + b.mux.Timeout()
	a.mu.Lock()
	a.until = max(a.until, until)
	a.mu.Unlock()
}

// close tells the ledger that for certain nothing is held.
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

// orphan sees to it that the account is closed at the latest when the server has let the lock go by
// itself: after a loss or an unknown outcome nobody may ever give it back.
func (b *Bridge) orphan(a *account) {
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

func (b *Bridge) await(a *account) {
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
			return // its ledger is not told that what may still stand is gone
		}
	}
}

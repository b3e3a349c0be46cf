package lock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// work is what a lease wants a worker to do.
type work uint8

const (
	extending work = 1 << iota
	watching
)

// expire ends the lease if its trust has run out.
func (l *Lease) expire(now stamp) {
	l.mu.Lock()
	over := l.cause == nil && !l.trust.holds(now)
	l.mu.Unlock()
	if over {
		l.outlived()
	}
}

// tick is what the scheduler calls for a lease whose time has come. It returns what the lease wants
// done, and plans the next look at it.
func (l *Lease) tick(now stamp) (work work) {
	l.mu.Lock()
	if l.cause != nil {
		l.mu.Unlock()
		return 0
	}
	cfg := &l.client.cfg
	endangered := l.renewal.warns && l.trust.warnAt(cfg) <= now.elapsed
	if endangered {
		l.renewal.warns = false
	}
	if l.renewal.wanted(now.elapsed, l.slack()) {
		l.renewal.busy = true
		work |= extending
	}
	if l.watch.wanted(now.elapsed) {
		l.watch.looking = true
		work |= watching
	}
	forgotten := cfg.LongestHold == 0 && !l.warned && now.elapsed-l.asked > longHold*cfg.TTL
	if forgotten {
		l.warned = true
	}
	l.client.core.sched.set(l, l.due())
	var e Event
	if endangered {
		e = Event{Key: l.Key(), Token: l.grant.Token(), Until: l.until(), Cause: l.renewal.err}
	}
	l.mu.Unlock()
	if endangered {
		l.tell(cfg.Hooks.Endangered, e)
	}
	if forgotten {
		cfg.Logger.Warn("lease held for more than ten TTLs; if its Release was forgotten, Config.LongestHold frees the key (negative: no warning)",
			"key", l.Key(), "TTL", cfg.TTL)
	}
	return work
}

// longHold is after how many TTLs the log warns of a lease, once.
const longHold = 10

// slack is how much earlier than planned a renewal may be, so that it travels with others.
func (l *Lease) slack() time.Duration {
	return min(l.client.cfg.RenewEvery/20, window)
}

// occupy makes the caller the one who may call Extend; else it returns what to wait for. A lease that has
// ended has no such caller any more: its grant may be another's by now.
func (l *Lease) occupy() (idle <-chan struct{}, mine bool, ended error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cause != nil:
		return nil, false, l.cause
	case !l.renewal.busy:
		l.renewal.busy = true
		return nil, true, nil
	}
	a := l.listeners()
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	return a.idle, false, nil
}

// extendTogether is how many leases are renewed in one call of the backend at the most. Trust counts from
// before the call, so that a call of a hundred thousand would cost the last of them what the others took;
// and where the store is slow, what is late is late by a part and not as a whole.
const extendTogether = 1024

// serve extends and watches leases. It runs on the scheduler's goroutine and hands the work to the
// workers, renewals in groups that can travel together. Watches have workers of their own: there is
// one to each new lease, and however many wait for theirs, renewals do not wait with them.
func (k *core) serve(extends, watches []*Lease) {
	k.watchAll(watches)
	groups := make(map[time.Duration][]*Lease)
	for _, l := range extends {
		groups[l.client.cfg.TTL] = append(groups[l.client.cfg.TTL], l)
	}
	for ttl, leases := range groups {
		if k.batch != nil && len(leases) > 1 {
			for some := range slices.Chunk(leases, extendTogether) {
				k.renewer.do(func() { k.extendAll(some, ttl) })
			}
			continue
		}
		for _, l := range leases {
			k.renewer.do(func() { k.extend(l, ttl) })
		}
	}
}

func (k *core) extend(l *Lease, ttl time.Duration) {
	if k.hurry.Load() {
		return // Close has ended the lease
	}
	asked := k.keeper.nowStamp()
	ctx, cancel := k.renewContext(k.life, asked, l)
	defer cancel()
	term, err := l.grant.Extend(ctx, ttl)
	l.extended(term, err, asked, true)
}

// errNoAnswer is why a renewal that may still be carried out is tried again.
var errNoAnswer = errors.New("the store has not answered within two thirds of the time for which the lease was still trusted")

// renewContext is that of a renewal which begins at asked. It ends when two
// thirds of what is left of trust are over: the connection may be dead, and
// there has to be time for another attempt, which may find a better one.
func (k *core) renewContext(ctx context.Context, asked stamp, leases ...*Lease) (context.Context, context.CancelFunc) {
	var left time.Duration
	for _, l := range leases {
		l.mu.Lock()
		left = max(left, l.trust.end()-asked.elapsed)
		l.mu.Unlock()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left*2/3, errNoAnswer)
	return k.call(ctx), cancel
}

func (k *core) extendAll(leases []*Lease, ttl time.Duration) {
	if k.hurry.Load() {
		return // Close has ended them
	}
	grants := make([]Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	asked := k.keeper.nowStamp()
	ctx, cancel := k.renewContext(k.life, asked, leases...)
	defer cancel()
	terms, errs := k.batch.ExtendAll(ctx, grants, ttl)
	for i, l := range leases {
		l.extended(terms[i], errs[i], asked, true)
	}
}

// retryRenewal is how soon a failed renewal is tried again, at the earliest.
const retryRenewal = 50 * time.Millisecond

// lastRetries is that when trust is about to end.
const lastRetries = 10 * time.Millisecond

// extended takes what an Extend said into account. asked is the instant before it was called: trust
// never counts from later than the backend says, nor from later than the reply. planned is false for a Renew
// by the holder.
func (l *Lease) extended(t Term, err error, asked stamp, planned bool) {
	k, cfg := l.client.core, &l.client.cfg
	now := k.keeper.nowStamp()
	l.mu.Lock()
	l.renewal.busy = false
	if a := l.audience; a != nil && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	if l.cause != nil {
		l.mu.Unlock()
		return
	}
	l.renewal.err = err
	switch {
	case err == nil:
		l.trust = l.client.trustIn(t, asked, now)
		l.planRenewal()
	case errors.Is(err, ErrNotRenewable):
		l.renewal.next = never
	case !planned:
		// The holder's own Renew failed, for whatever reason. The next renewal stays due when it was.
	default:
		l.renewFrom(now.elapsed + l.trust.retryAfter(cfg, now.elapsed))
	}
	lost := errors.Is(err, ErrLost)
	if !lost {
		k.sched.set(l, l.due())
	}
	until := l.until()
	l.mu.Unlock()
	switch {
	case lost:
		l.lose(&LostError{Key: l.Key(), Err: err})
	case err == nil:
		if f := cfg.Hooks.Renewed; f != nil {
			l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Until: until})
		}
	default:
		if omitted, ok := k.refused.due(now.elapsed, max(cfg.RenewEvery, time.Second)); ok {
			cfg.Logger.Warn("lease not renewed", "key", l.Key(), "until", until, "error", err, "others since the last line", omitted)
		}
		if f := cfg.Hooks.RenewFailed; f != nil {
			l.tell(f, Event{Key: l.Key(), Token: l.grant.Token(), Until: until, Cause: err})
		}
	}
}

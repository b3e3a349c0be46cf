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
	guarding
)

// tick is what the scheduler calls for a lease whose time has come. It returns what the lease wants
// done, and plans the next look at it.
func (l *Lease) tick(now stamp) (work work) {
	l.mu.Lock()
	if l.is(over) {
		l.mu.Unlock()
		return 0
	}
	if !l.trusted(now) {
		l.mu.Unlock()
		l.outlived()
		return 0
	}
	if l.is(loose) && l.firstLook() <= now.elapsed {
		l.tie()
	}
	endangered := l.is(warns) && l.warnAt() <= now.elapsed
	if endangered {
		l.unset(warns)
	}
	if !l.is(busy) && l.renewAt() <= now.elapsed+l.slack() {
		l.set(busy)
		work |= extending
	}
	if !l.is(inGuard) && l.guardAt() <= now.elapsed {
		l.set(inGuard)
		work |= guarding
	}
	l.client.core.sched.set(l, l.due())
	var e Event
	if endangered {
		e = Event{Key: l.Key(), Token: l.grant.Token(), Until: l.until(), Cause: l.trouble()}
	}
	l.mu.Unlock()
	if endangered {
		l.client.cfg.Hooks.Endangered(e)
	}
	return work
}

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
	case l.is(over):
		return nil, false, l.ending().cause
	case !l.is(busy):
		l.set(busy)
		return nil, true, nil
	}
	m := l.rest()
	if m.idle == nil {
		m.idle = make(chan struct{})
	}
	return m.idle, false, nil
}

// extendTogether is how many leases are renewed in one call of the backend at the most. Trust counts from
// before the call, so that a call of a hundred thousand would cost the last of them what the others took;
// and where the store is slow, what is late is late by a part and not as a whole.
const extendTogether = 1024

// serve extends and guards leases. It runs on the scheduler's goroutine and hands the work to the
// workers, renewals in groups that can travel together. Guards have workers of their own: there is
// one to each new lease, and however many wait for theirs, renewals do not wait with them.
func (k *core) serve(extends, guards []*Lease) {
	k.guardAll(guards)
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
	asked := k.keeper.nowStamp()
	term, err := l.grant.Extend(k.call(context.Background()), ttl)
	l.extended(term, err, asked)
}

func (k *core) extendAll(leases []*Lease, ttl time.Duration) {
	grants := make([]Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	asked := k.keeper.nowStamp()
	terms, errs := k.batch.ExtendAll(k.call(context.Background()), grants, ttl)
	for i, l := range leases {
		l.extended(terms[i], errs[i], asked)
	}
}

// retryRenewal is how soon a failed renewal is tried again, at the earliest.
const retryRenewal = 50 * time.Millisecond

// extended takes what an Extend said into account. asked is the instant before it was called: trust
// never counts from later than the backend says, nor from later than the reply.
func (l *Lease) extended(t Term, err error, asked stamp) {
	k, cfg := l.client.core, &l.client.cfg
	now := k.keeper.nowStamp()
	l.mu.Lock()
	l.unset(busy)
	if m := l.more; m != nil && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
	if l.is(over) {
		l.mu.Unlock()
		return
	}
	if err != nil || l.more != nil {
		l.rest().lastErr = err
	}
	switch {
	case err == nil:
		l.count(t, asked, now)
		l.planRenewal()
	case errors.Is(err, ErrNotRenewable):
		l.unset(renews)
	default:
		l.set(renews)
		l.rest().retryAt = now.elapsed + max(cfg.RenewEvery/4, retryRenewal)
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
			f(Event{Key: l.Key(), Token: l.grant.Token(), Until: until})
		}
	default:
		cfg.Logger.Warn("lease not renewed", "key", l.Key(), "until", until, "error", err)
		if f := cfg.Hooks.RenewFailed; f != nil {
			f(Event{Key: l.Key(), Token: l.grant.Token(), Until: until, Cause: err})
		}
	}
}

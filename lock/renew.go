package lock

import (
	"context"
	"errors"
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
func (l *Lease) tick(now Instant) (work work) {
	l.mu.Lock()
	if l.ended != nil {
		l.mu.Unlock()
		return 0
	}
	if !l.trusted(now) {
		l.mu.Unlock()
		l.outlived()
		return 0
	}
	if l.tieAt <= now.Elapsed {
		l.tie()
	}
	endangered := l.warnAt <= now.Elapsed
	if endangered {
		l.warnAt = never
	}
	if l.busy == nil && l.renewAt <= now.Elapsed+l.slack() {
		l.busy = make(chan struct{})
		work |= extending
	}
	if !l.guarding && l.guardAt <= now.Elapsed {
		l.guarding = true
		work |= guarding
	}
	l.client.core.sched.set(&l.event, l.due())
	e := Event{Key: l.key, Token: l.grant.Token(), Until: l.sent.Wall.Add(l.span), Cause: l.lastErr}
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

// occupy makes the caller the one who may call Extend; else it returns what to wait for.
func (l *Lease) occupy() (busy <-chan struct{}, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy != nil {
		return l.busy, false
	}
	l.busy = make(chan struct{})
	return nil, true
}

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
			k.renewer.do(func() { k.extendAll(leases, ttl) })
			continue
		}
		for _, l := range leases {
			k.renewer.do(func() { k.extend(l, ttl) })
		}
	}
}

func (k *core) extend(l *Lease, ttl time.Duration) {
	asked := k.keeper.now()
	term, err := l.grant.Extend(k.call(context.Background()), ttl)
	l.extended(term, err, asked)
}

func (k *core) extendAll(leases []*Lease, ttl time.Duration) {
	grants := make([]Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	asked := k.keeper.now()
	terms, errs := k.batch.ExtendAll(k.call(context.Background()), grants, ttl)
	for i, l := range leases {
		l.extended(terms[i], errs[i], asked)
	}
}

// retryRenewal is how soon a failed renewal is tried again, at the earliest.
const retryRenewal = 50 * time.Millisecond

// extended takes what an Extend said into account. asked is the instant before it was called: trust
// never counts from later than the backend says, nor from later than the reply.
func (l *Lease) extended(t Term, err error, asked Instant) {
	k, cfg := l.client.core, &l.client.cfg
	now := k.keeper.now()
	l.mu.Lock()
	close(l.busy)
	l.busy = nil
	if l.ended != nil {
		l.mu.Unlock()
		return
	}
	l.lastErr = err
	switch {
	case err == nil:
		l.count(t, asked, now)
		l.planRenewal()
	case errors.Is(err, ErrNotRenewable):
		l.renewAt = never
	default:
		l.renewAt = now.Elapsed + max(cfg.RenewEvery/4, retryRenewal)
	}
	lost := errors.Is(err, ErrLost)
	if !lost {
		k.sched.set(&l.event, l.due())
	}
	until := l.sent.Wall.Add(l.span)
	l.mu.Unlock()
	switch {
	case lost:
		l.lose(&LostError{Key: l.key, Err: err})
	case err == nil:
		if f := cfg.Hooks.Renewed; f != nil {
			f(Event{Key: l.key, Token: l.grant.Token(), Until: until})
		}
	default:
		cfg.Logger.Warn("lease not renewed", "key", l.key, "until", until, "error", err)
		if f := cfg.Hooks.RenewFailed; f != nil {
			f(Event{Key: l.key, Token: l.grant.Token(), Until: until, Cause: err})
		}
	}
}

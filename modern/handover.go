package modern

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// Pass gives the key to the next holder of this process in one command, under a
// token and fencing number of its own.
func (b *Backend) Pass(ctx context.Context, granted lock.Grant, ttl time.Duration) (lock.Grant, error) {
	old, ok := granted.(*grant)
	if !ok {
		return nil, errForeignGrant
	}
	if err := valid(old.key, ttl); err != nil {
		return nil, err
	}
	next, err := b.newGrant(old.key)
	if err != nil {
		return nil, err
	}
	next.lined = old.isLined()
	next.written(lock.Term{Sent: lock.Mark(ctx), TTL: ttl})
	old.leave()
	passed, err := b.pass(ctx, old, next, ttl)
	var unknown *wire.UnknownError
	switch {
	case errors.As(err, &unknown):
		b.stats.unsure.Add(1)
		next.unsure(unknown.Pending)
		return nil, &lock.UnsureError{Grant: next, Err: trouble("pass on", old.key, err)}
	case wire.IsOOM(err): // a release needs no memory
		return nil, errors.Join(lock.ErrNotPassed, trouble("pass on", old.key, err))
	case err != nil:
		return nil, trouble("pass on", old.key, err)
	case !passed:
		old.end()
		old.stolen(ctx)
		return nil, old.gone(ctx)
	}
	old.end()
	return next, nil
}

func (b *Backend) pass(ctx context.Context, old, next *grant, ttl time.Duration) (bool, error) {
	if b.cfg.Fence {
		return b.passByScript(ctx, old, next, ttl, fenceBlock)
	}
	if b.native.sets.Load() == byIfeq {
		r := b.user.Batch(ctx, []wire.Command{ifeq(old.key, old.token, next.token, millis(ttl))})[0]
		switch {
		case notAString(r.Err):
			return false, nil
		case !distrust(&b.native.sets, byIfeq, r.Err):
			return r.Value != nil, r.Err
		}
	}
	passed, err := b.passByScript(ctx, old, next, ttl, 0)
	if err == nil {
		b.probe()
	}
	return passed, err
}

// passByScript passes the key on by the script, which draws the given number of
// fencing numbers.
func (b *Backend) passByScript(ctx context.Context, old, next *grant, ttl time.Duration, numbers int) (bool,
	error) {
	reply, err := b.drawn(ctx, passScript, old.key, b.fence, old.token, next.token, millis(ttl), numbers)
	n, _ := reply.(int64)
	if b.cfg.Fence {
		next.numbered(n)
	}
	return n > 0, err
}

// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Composed takes a lock elsewhere, the target, and keeps old clients out
// meanwhile. Its lease is the target's and the bridge's together, and ends with
// the first of the two. In phase clean it is the target's alone.
type Composed struct{ engine *composedEngine }

// Contract returns what [lock.New] calls.
func (c *Composed) Contract() backend.Backend { return c.engine }

// Close closes the bridge and the target. A [lock.Client] closes its backend.
func (c *Composed) Close() error { return c.engine.Close() }

// composedEngine is the contract of a Composed.
type composedEngine struct {
	bridge *bridgeEngine
	target backend.Backend
	armed  watches.Armed // watches of held keys
}

// Compose returns the lock of a fleet that moves to another store: another
// Redis, etcd, ZooKeeper. The target excludes getsetlock clients from each
// other in the end; the bridge excludes old clients on their server.
//
// The target is taken first and released last. So a client that waits for the
// old key finds the target free sooner or later, and no client holds the old
// key alone. The lease has the target's token and fencing numbers.
//
// Both keys of the bridge are on the old server. M is needed there too, since
// the scripts that delete tombstones look at it. A target's lease may depend on
// a session: its Extend then says how long the session certainly lives. That
// time ends the lease, and so does a Watch or a Release that returns
// [backend.ErrLost].
//
// A [Member] has to name the target in [MemberConfig].Target, since locks that
// are composed and locks that are not do not exclude each other in phase clean.
//
// A Redis Cluster of several nodes is refused as a target: no gate of a phase
// was judged for a store whose nodes fail over one by one.
//
// The Composed closes both.
func Compose(b *Bridge, target backend.Store) (*Composed, error) {
	switch {
	case b == nil:
		return nil, errors.New("migrate: Compose: bridge is missing")
	case target == nil || target.Contract() == nil:
		return nil, errors.New("migrate: Compose: target is missing")
	}
	c := &composedEngine{bridge: b.engine, target: target.Contract()}
	if _, cluster := c.target.(interface{ OfCluster() }); cluster {
		return nil, errors.New("migrate: Compose: a Redis Cluster of several nodes cannot be the target: use a single primary, etcd or ZooKeeper")
	}
	if err := c.bridge.composable(); err != nil {
		return nil, err
	}
	if m := c.bridge.member; m != nil {
		m.composes(c.bridge, c.target)
	}
	return &Composed{c}, nil
}

// Try takes the target and then the old clients' key. It reads the phase once,
// before both.
func (c *composedEngine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	a, err := c.bridge.begin(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return c.try(ctx, key, ttl, a, func(asked time.Duration) (backend.Grant, error) {
		return c.target.Try(ctx, key, asked)
	})
}

// try makes the attempt of an account. take asks the target.
func (c *composedEngine) try(ctx context.Context, key string, ttl time.Duration, a *account,
	take func(asked time.Duration) (backend.Grant, error)) (backend.Grant, error) {
	p := a.phase
	asked, err := c.bridge.lease(p, ttl, 0)
	if err == nil && c.bridge.member != nil {
		err = c.bridge.member.proved(ctx, p)
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("migrate: key %q: %w", key, err)
	}
	a.Sending(asked)
	there, err := take(asked)
	g := &composedGrant{c: c, account: a, there: there}
	var unsure *backend.UnsureError
	switch {
	case errors.As(err, &unsure):
		a.Orphan()
		g.there = unsure.Grant
		return nil, &backend.UnsureError{Grant: g, Err: err}
	case err != nil:
		a.Close()
		return nil, err
	}
	// The target may have been so slow that the member may be forgotten by now.
	if err := a.counts(ctx, asked); err != nil {
		return nil, undone(ctx, g, err)
	}
	if p == Clean {
		return g, nil
	}
	return g.bridged(ctx, key, asked)
}

// bridged takes the old clients' key too. The account is closed with the
// composed grant, and not with the bridge's part. That part is written later,
// since the target may have been slow, and so it also lasts longer.
func (g *composedGrant) bridged(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	b := g.c.bridge
	began := b.Clock.Elapsed()
	here, err := b.try(ctx, key, ttl, g.account.part())
	var unsure *backend.UnsureError
	switch {
	case err == nil:
		g.here = here
		return g.young(ctx, key, ttl, b.Clock.Elapsed()-began)
	case errors.As(err, &unsure):
		g.account.Orphan()
		g.here = unsure.Grant
		return nil, &backend.UnsureError{Grant: g, Err: err}
	}
	return nil, undone(ctx, g, err)
}

// young renews the target if the bridge took so long that little may be left of
// the target's term: a takeover settles, and a term of a session counts from an
// earlier sign of life. If the outcome of the renewal is unknown, the old term
// counts.
func (g *composedGrant) young(ctx context.Context, key string, ttl, took time.Duration,
) (backend.Grant, error) {
	if took < ttl/mostOfTerm {
		return g, nil
	}
	term, err := g.there.Extend(ctx, ttl)
	switch {
	case err == nil:
		g.renewed = &term
	case errors.Is(err, backend.ErrLost):
		return nil, undone(ctx, g, &settledError{key, err})
	}
	return g, nil
}

// mostOfTerm is which part of a TTL a bridge's attempt may take, until the
// target is renewed after it.
const mostOfTerm = 50

// settledError is the error of an attempt whose target was lost while the
// bridge's takeover settled.
type settledError struct {
	key string
	err error
}

func (e *settledError) Error() string {
	return fmt.Sprintf("migrate: key %q: the target was lost while the old key was being taken: %v", e.key,
		e.err)
}

func (e *settledError) Unwrap() error { return e.err }

// Passing says that the next attempt may succeed.
func (e *settledError) Passing() bool { return true }

// Advise fills in times that suit both, the bridge's first.
func (c *composedEngine) Advise(cfg backend.Settings) backend.Settings {
	cfg = c.bridge.Advise(cfg)
	if t, ok := c.target.(backend.Advisor); ok {
		cfg = t.Advise(cfg)
	}
	return cfg
}

// Fits refuses times that the bridge or the target refuses.
func (c *composedEngine) Fits(ttl, renewEvery, margin time.Duration) error {
	if err := c.bridge.Fits(ttl, renewEvery, margin); err != nil {
		return err
	}
	if f, ok := c.target.(backend.Advisor); ok {
		return f.Fits(ttl, renewEvery, margin)
	}
	return nil
}

// Timeout is 0, unknown: a release waits for two servers.
func (c *composedEngine) Timeout() time.Duration { return 0 }

// Close closes the bridge, and the target if it has a Close method.
func (c *composedEngine) Close() error {
	err := c.bridge.Close()
	if closer, ok := c.target.(interface{ Close() error }); ok {
		err = errors.Join(err, closer.Close())
	}
	return err
}

// Await arms wake for a change of the side that keeps the caller out. The key
// is free when neither side looks taken.
//
// While the old clients' key is taken, only a change of that key counts. Every
// attempt then takes the target and gives it back, so waiters that also watched
// the target would wake each other without end.
func (c *composedEngine) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	p, err := c.bridge.cfg.Phases.Phase(ctx)
	if err != nil {
		return nil, false, err
	}
	w, ok := c.target.(backend.Waker)
	cancel, free := func() {}, true
	if p != Clean {
		cancel, free, err = c.bridge.Await(ctx, key, wake)
	}
	switch {
	case err != nil || !free:
		return cancel, false, err
	case !ok:
		cancel()
		return nil, false, fmt.Errorf("migrate: %w: the target has no Waker", backend.ErrNoWake)
	}
	second, freeThere, err := w.Await(ctx, key, wake)
	if err != nil {
		cancel()
		return nil, false, err
	}
	return func() { cancel(); second() }, freeThere, nil
}

// Watch arms a watch on each side that has one.
func (c *composedEngine) Watch(ctx context.Context, granted []backend.Grant,
	holders []interface{ Touched() }) []error {
	return c.armed.Watch(granted, holders, func(g backend.Grant, touched func()) (func(), error) {
		return c.watchOne(ctx, g, touched)
	})
}

// Unwatch ends the watch of a grant.
func (c *composedEngine) Unwatch(g backend.Grant) { c.armed.Unwatch(g) }

func (c *composedEngine) watchOne(ctx context.Context, granted backend.Grant, touched func(),
) (func(), error) {
	g, ok := granted.(*composedGrant)
	if !ok {
		return nil, fmt.Errorf("migrate: a grant of another backend (%T)", granted)
	}
	cancels := []func(){}
	all := func() {
		for _, cancel := range cancels {
			cancel()
		}
	}
	watched := false
	for _, side := range []struct {
		w backend.Backend
		g backend.Grant
	}{{c.target, g.there}, {c.bridge, g.here}} {
		w, ok := side.w.(backend.Waker)
		if !ok || side.g == nil {
			continue
		}
		cancel, err := watches.One(ctx, w, side.g, touched)
		switch {
		case errors.Is(err, backend.ErrNoWake):
			continue
		case err != nil:
			all()
			return nil, err
		}
		cancels, watched = append(cancels, cancel), true
	}
	if !watched {
		return nil, fmt.Errorf("migrate: %w: neither side can", backend.ErrNoWake)
	}
	return all, nil
}

// composedGrant is one acquisition. here is nil in phase clean, and before it
// was tried.
type composedGrant struct {
	c           *composedEngine
	account     *account
	here, there backend.Grant
	renewed     *backend.Term // term of the target, if it was renewed within the attempt
	left        atomic.Bool   // here was released
}

func (g *composedGrant) Token() string { return g.there.Token() }

// Term is the term that ends first. The target's request was sent first.
func (g *composedGrant) Term() backend.Term {
	there := g.there.Term()
	if g.renewed != nil {
		there = *g.renewed
	}
	if g.here == nil {
		return there
	}
	return earlier(there, g.here.Term())
}

// earlier is the term that ends first. A TTL of 0 means as long as was asked
// for; then the term that was sent first counts.
func earlier(a, b backend.Term) backend.Term {
	if a.TTL == 0 || b.TTL == 0 {
		if b.Sent.Elapsed < a.Sent.Elapsed {
			a.Sent = b.Sent
		}
		a.TTL = max(a.TTL, b.TTL)
		return a
	}
	if b.Sent.Elapsed+b.TTL < a.Sent.Elapsed+a.TTL {
		return b
	}
	return a
}

func (g *composedGrant) Fence() int64 {
	if f, ok := g.there.(backend.Fenced); ok {
		return f.Fence()
	}
	return 0
}

// YieldFor returns how long a release leaves the key to old clients.
func (g *composedGrant) YieldFor(wish time.Duration) time.Duration {
	if p, ok := g.here.(backend.Yielder); ok {
		return p.YieldFor(wish)
	}
	return 0
}

// ReleaseTo is Release, and leaves the old clients' key to them for gap. A
// getsetlock client that takes the target meanwhile finds the key left, and
// releases the target again.
func (g *composedGrant) ReleaseTo(ctx context.Context, gap time.Duration) error {
	return g.release(ctx, func(here backend.Grant) error {
		if p, ok := here.(backend.Yielder); ok {
			return p.ReleaseTo(ctx, gap)
		}
		return here.Release(ctx)
	})
}

// Recheck looks whether an old client took the key that was left.
func (g *composedGrant) Recheck(ctx context.Context) time.Duration {
	if p, ok := g.here.(backend.Yielder); ok {
		return p.Recheck(ctx)
	}
	return 0
}

// Extend renews both, the target first. The lease is lost when either is. The
// other one is not renewed then, and stays until the job has stopped.
func (g *composedGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.c.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// Release releases the old key and then the target. It releases the target even
// where the old key was lost. If the target did not answer, a further call goes
// on with the target.
func (g *composedGrant) Release(ctx context.Context) error {
	return g.release(ctx, func(here backend.Grant) error { return here.Release(ctx) })
}

func (g *composedGrant) release(ctx context.Context, giveBack func(here backend.Grant) error) error {
	var lost error
	if g.here != nil && !g.left.Load() {
		err := giveBack(g.here)
		switch {
		case err == nil:
			g.left.Store(true)
		case errors.Is(err, backend.ErrLost):
			lost = err
		default:
			g.account.Orphan()
			return err
		}
	}
	if err := g.there.Release(ctx); err != nil {
		if !errors.Is(err, backend.ErrLost) {
			g.account.Orphan()
			return err
		}
		lost = errors.Join(lost, err)
	}
	g.account.Close()
	return lost
}

var (
	_ backend.Store         = (*Composed)(nil)
	_ backend.Backend       = (*composedEngine)(nil)
	_ backend.Advisor       = (*composedEngine)(nil)
	_ backend.Inspector     = (*composedEngine)(nil)
	_ io.Closer             = (*composedEngine)(nil)
	_ backend.Waker         = (*composedEngine)(nil)
	_ backend.Queuer        = (*composedEngine)(nil)
	_ backend.BatchExtender = (*composedEngine)(nil)
	_ backend.Fenced        = (*composedGrant)(nil)
	_ backend.Yielder       = (*composedGrant)(nil)
)

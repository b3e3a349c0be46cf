// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/cluster"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/redisconn"
)

// NewCluster returns a Backend on a Redis Cluster. Each primary has connections
// of its own, so that one that does not answer delays no lock of another. A
// lease follows the slot of its key. Nothing is sent until the first call.
//
// HAZARD: a fail-over can lose acknowledged writes, as with Sentinel. Then two
// holders may overlap until the first of them renews. See
// docs/guide/cluster.md.
func NewCluster(nodes redisconn.Nodes, cfg Config) (*Backend, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if len(nodes.Seeds) == 0 || nodes.Pool == nil {
		return nil, errors.New("modern: the Nodes are empty: get them by Nodes of a redisconn.Address, for redis+cluster://")
	}
	c := &fleet{cfg: cfg, pool: nodes.Pool, engines: make(map[string]*engine),
		waits: &waits{places: make(map[string]*place)}}
	c.table = cluster.New(nodes.Seeds, c.slots, c.moved)
	return &Backend{cfg.Name, c}, nil
}

// fleet is the contract of a Backend on a cluster: an engine for each primary.
// Every call asks the engine of its key, and again where a node says that the
// slot is elsewhere.
type fleet struct {
	cfg   Config
	pool  func(addr string) *redis.Pool
	table *cluster.Table
	waits *waits // the places of all engines

	mu      sync.Mutex
	closed  bool
	engines map[string]*engine // by address, those that left the cluster too
	ttl     time.Duration      // the least TTL that Fits was asked for
}

var (
	_ contract              = (*fleet)(nil)
	_ backend.BatchExtender = (*fleet)(nil)
	_ backend.Queuer        = (*fleet)(nil)
	_ backend.Waker         = (*fleet)(nil)
	_ backend.Keeper        = (*fleet)(nil)
	_ backend.Advisor       = (*fleet)(nil)
	_ backend.Inspector     = (*fleet)(nil)
	_ backend.Sharer        = (*follower)(nil)
	_ backend.Fenced        = (*follower)(nil)
	_ backend.Sharded       = (*follower)(nil)
)

// engine returns the engine of the node at addr.
func (c *fleet) engine(addr string) (*engine, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.engines[addr]; e != nil {
		return e, nil
	}
	if c.closed {
		return nil, notTaken(wire.ErrClosed)
	}
	e, err := newEngine(c.pool(addr), c.cfg, c.waits, c)
	if err != nil {
		return nil, err
	}
	if c.ttl > 0 {
		e.shorten(c.ttl)
	}
	c.engines[addr] = e
	return e, nil
}

// all returns the engines.
func (c *fleet) all() []*engine {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*engine
	for _, e := range c.engines {
		all = append(all, e)
	}
	return all
}

// slots asks one node for the primaries of all slots.
func (c *fleet) slots(ctx context.Context, addr string) (any, error) {
	e, err := c.engine(addr)
	if err != nil {
		return nil, err
	}
	return e.user.Do(ctx, "CLUSTER", "SLOTS")
}

// moved wakes the clients that wait at the node at from for keys whose slots
// left it, and the holders of such keys: tracking does not tell that the slot
// of a key which does not exist has moved. They arm anew at the present
// primary.
func (c *fleet) moved(from string, in func(key string) bool) {
	c.mu.Lock()
	e := c.engines[from]
	c.mu.Unlock()
	if e != nil {
		e.own.Tracker().Touch(in)
	}
	c.waits.call(in)
}

// mostRedirects is how many nodes are asked for one command. Two that name each
// other learn the truth within a moment.
const mostRedirects = 5

// movingError is a redirection that could not be followed now.
type movingError struct{ error }

func (e *movingError) Unwrap() error { return e.error }

// Passing is true: the slot arrives, or the nodes agree.
func (e *movingError) Passing() bool { return true }

// follow calls send with the engine of key's primary and a connection to it,
// and again for the node that a redirection names. For the node to which a slot
// is moving, that connection sends ASKING first, and ask is true.
func (c *fleet) follow(ctx context.Context, key string,
	send func(e *engine, on sender, ask bool) error) error {
	ask, addr := false, ""
	var last error
	for range mostRedirects {
		if !ask {
			var err error
			if addr, err = c.table.Owner(ctx, names.Slot(key)); err != nil {
				return trouble("find the primary of", key, err)
			}
		}
		e, err := c.engine(addr)
		if err != nil {
			return err
		}
		var on sender = e.user
		if ask {
			on = wire.Asking{M: e.user}
		}
		last = send(e, on, ask)
		var unsure *backend.UnsureError
		if errors.As(last, &unsure) {
			return c.learned(last) // the key may be taken, whatever WAIT met after that
		}
		if !ask && c.promoted(ctx, addr, key, last, func() error { return c.table.Refresh(ctx) }) {
			continue
		}
		r, ok := wire.RedirectOf(last)
		if !ok {
			return c.learned(last)
		}
		addr, ask = c.table.Redirected(addr, r), r.Ask
	}
	return &movingError{last}
}

// promoted reports whether another node serves the slot of key than the one at
// addr, which could not be reached: a dead one redirects nobody.
func (c *fleet) promoted(ctx context.Context, addr, key string, err error, refresh func() error) bool {
	if !wire.IsNotSent(err) || errors.Is(err, wire.ErrClosed) || refresh() != nil {
		return false
	}
	now, err := c.table.Owner(ctx, names.Slot(key))
	return err == nil && now != addr
}

// learned asks for the slots anew after trouble of a node. It returns the
// error, which passes if only the node's name is gone.
func (c *fleet) learned(err error) error {
	var judged interface{ Passing() bool }
	var gone *net.DNSError
	switch {
	case err == nil, errors.Is(err, backend.ErrHeld):
	case errors.As(err, &gone):
		c.table.Suspect()
		return &movingError{err}
	case errors.As(err, &judged) && judged.Passing():
		c.table.Suspect()
	}
	return err
}

// errAsk is the error of an attempt whose slot is moving. An attempt is made
// where all keys of its scripts are, so it waits for the slot.
func errAsk(key string) error {
	return &movingError{fmt.Errorf("modern: key %q: its slot is moving to another node of the cluster", key)}
}

// attempt makes an attempt at the primary of key.
func (c *fleet) attempt(ctx context.Context, key string,
	try func(e *engine) (backend.Grant, error)) (g backend.Grant, err error) {
	err = c.follow(ctx, key, func(e *engine, _ sender, ask bool) error {
		if ask {
			return errAsk(key)
		}
		g, err = try(e)
		return err
	})
	var unsure *backend.UnsureError
	switch {
	case errors.As(err, &unsure):
		return nil, &backend.UnsureError{Grant: c.following(unsure.Grant), Err: err}
	case err != nil:
		return nil, err
	}
	return c.following(g), nil
}

// Try is that of the engine.
func (c *fleet) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return c.attempt(ctx, key, func(e *engine) (backend.Grant, error) { return e.Try(ctx, key, ttl) })
}

// First is that of the engine.
func (c *fleet) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	return c.attempt(ctx, key, func(e *engine) (backend.Grant, error) { return e.First(ctx, key, ttl) })
}

// Enter is that of the engine.
func (c *fleet) Enter(ctx context.Context, key string) (backend.Place, error) {
	var p backend.Place
	err := c.follow(ctx, key, func(e *engine, _ sender, _ bool) (err error) {
		p, err = e.Enter(ctx, key)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &moving{c, p.(*place)}, nil
}

// Await is that of the engine.
func (c *fleet) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	err = c.follow(ctx, key, func(e *engine, _ sender, ask bool) (err error) {
		if ask {
			return errAsk(key)
		}
		cancel, free, err = e.Await(ctx, key, wake)
		return err
	})
	return cancel, free, err
}

// Advise is that of the engine, which needs no server for it.
func (c *fleet) Advise(s backend.Settings) backend.Settings { return (&engine{cfg: c.cfg}).Advise(s) }

// Fits is that of every engine, also of those that are made later.
func (c *fleet) Fits(ttl, renewEvery, margin time.Duration) error {
	if err := c.cfg.fits(ttl, renewEvery, margin); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ttl == 0 || ttl < c.ttl {
		c.ttl = ttl
	}
	for _, e := range c.engines {
		e.shorten(ttl)
	}
	return nil
}

// Timeout is zero: a release may have to find the primary first.
func (c *fleet) Timeout() time.Duration { return 0 }

// Inspect is that of the engine.
func (c *fleet) Inspect(ctx context.Context, key string) (info Info, err error) {
	err = c.follow(ctx, key, func(e *engine, on sender, _ bool) (err error) {
		info, err = e.inspect(ctx, on, key)
		return err
	})
	return info, err
}

// Describe is that of the engine.
func (c *fleet) Describe(ctx context.Context, key string) (backend.Info, error) {
	info, err := c.Inspect(ctx, key)
	return described(ctx, info, err)
}

// ForceRelease is that of the engine.
func (c *fleet) ForceRelease(ctx context.Context, key, value string) (deleted bool, err error) {
	err = c.follow(ctx, key, func(e *engine, on sender, _ bool) (err error) {
		deleted, err = e.forceRelease(ctx, on, key, value)
		return err
	})
	return deleted, err
}

// OfCluster tells migrate.Compose that the keys are on several nodes.
func (c *fleet) OfCluster() {}

func (c *fleet) counts() (sum Stats) {
	for _, e := range c.all() {
		one := e.counts()
		sum.Unsure += one.Unsure
		sum.ReplicasMissing += one.ReplicasMissing
	}
	return sum
}

// Close closes all engines. Gifts are passed on between the end of the
// connections that bring them and that of the others.
func (c *fleet) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	all := c.all()
	var errs []error
	for _, e := range all {
		errs = append(errs, e.own.Close())
	}
	c.waits.close()
	for _, e := range all {
		errs = append(errs, e.Close())
	}
	c.table.Close()
	return errors.Join(errs...)
}

// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"io"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Backend is a server for the locks of old clients, as a program opened it.
// [lock.New] makes a Client of it.
//
// Verbatim keeps all that package locktest asks of every backend, with one
// exception. In a dialect where every client writes the same value, a grant of
// unknown outcome cannot always be undone. Verbatim never renews: Extend
// returns [lock.ErrNotRenewable].
type Backend struct {
	server *twokey.Server
	engine engine
}

// engine is the contract of a Backend: a *verbatim or a hardened. The first is
// also a backend.Pacer, the second a backend.BatchExtender.
type engine interface {
	backend.Backend
	backend.Advisor
	backend.Waker
	backend.Inspector
	io.Closer

	Observe(ctx context.Context, key string) (Observation, error)
}

var (
	_ backend.Store         = (*Backend)(nil)
	_ engine                = (*verbatim)(nil)
	_ engine                = hardened{}
	_ backend.Pacer         = (*verbatim)(nil)
	_ backend.BatchExtender = hardened{}
)

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// Mode returns Hardened or Verbatim.
func (b *Backend) Mode() Mode {
	if b.server.Settings.Bare {
		return Verbatim
	}
	return Hardened
}

// Dialect returns the dialect that the Backend writes.
func (b *Backend) Dialect() dialect.Dialect { return b.server.Settings.Dialect }

// Terms returns what is assumed of the old clients' fleet, with defaults filled
// in.
func (b *Backend) Terms() dialect.Terms { return b.server.Settings.Terms }

// Observe looks at a lock in one round trip and takes nothing. The server must
// allow EVAL.
func (b *Backend) Observe(ctx context.Context, key string) (Observation, error) {
	return b.engine.Observe(ctx, key)
}

// ObserveRaw looks at many keys with few messages. The names are those on the
// server, and no encoding is applied to them. Both results have the length of
// raw.
func (b *Backend) ObserveRaw(ctx context.Context, raw []string) ([]Observation, []error) {
	return b.server.ObserveRaw(ctx, raw)
}

// CompareAndDelete compares value with the bytes on L and deletes L if they are
// equal. If a hardened holder wrote those bytes, M is deleted too, since it
// would keep the key taken. value may also be that holder's token on M: then M
// is deleted, and L too if it still has the holder's bytes and they are no
// tombstone. The holder learns of it at its next renewal; its job may still be
// running.
func (b *Backend) CompareAndDelete(ctx context.Context, key, value string) (Deleted, error) {
	return b.server.CompareAndDelete(ctx, key, value)
}

// Close ends the connections and waits for their goroutines. Held locks stay on
// the server until their TTL or their stamp ends. A [lock.Client] closes its
// Backend.
func (b *Backend) Close() error { return b.server.Close() }

// New returns a Backend on the server that pool dials. It uses only the pool's
// Dial or DialContext; the pool's limits (MaxActive, Wait, Close) limit no
// lock. New sends nothing, so the first attempt finds out whether the server is
// down.
func New(pool *redis.Pool, cfg Config) (*Backend, error) {
	settings, err := cfg.settings()
	if err != nil {
		return nil, err
	}
	if settings.Bare {
		s, err := twokey.NewServer(pool, settings)
		if err != nil {
			return nil, err
		}
		return &Backend{s, newVerbatim(s)}, nil
	}
	e, err := twokey.New(pool, settings)
	if err != nil {
		return nil, err
	}
	return &Backend{e.Server, hardened{e}}, nil
}

// hardened holds L with the dialect's own bytes and M with a token, both
// written by one script.
type hardened struct{ *twokey.Engine }

// Try makes one attempt: one round trip when the key is free or held, two and
// the settle when it takes over.
func (h hardened) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := h.Take(ctx, key, twokey.Attempt{Strategy: twokey.Stamp, TTL: ttl})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Await arms wake for both keys.
func (h hardened) Await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	return h.AwaitBy(ctx, key, twokey.Stamp, wake)
}

// Stats are counts since New.
type Stats struct {
	Acquired  int64 // grants, including those after a takeover
	Takeovers int64 // expired stamps of other clients that were replaced
	Clobbered int64 // acquisitions that another client overwrote before the settle ended
	Lost      int64 // grants found lost: the bytes on L, or M, were gone or changed
	Shortened int64 // renewals that found L's TTL shortened by another client's EXPIRE
	Foreign   int64 // attempts that found a value which is not a plausible stamp of the dialect
	Steps     int64 // steps of the server's clock that were noticed
	Sparse    int64 // looks that came too late after the one before to judge by unchanged bytes
	Unsure    int64 // attempts whose outcome was not known

	Unremembered int64 // looks at an expired stamp that the server could not remember
}

// Stats returns counts since New.
func (b *Backend) Stats() Stats {
	c := &b.server.Count
	return Stats{
		Acquired: c.Acquired.Load(), Takeovers: c.Takeovers.Load(), Clobbered: c.Clobbered.Load(),
		Lost: c.Lost(), Shortened: c.Shortened.Load(), Foreign: c.Foreign.Load(),
		Steps: c.Steps.Load(), Sparse: c.Sparse.Load(), Unsure: c.Unsure.Load(),
		Unremembered: c.Unremembered.Load(),
	}
}

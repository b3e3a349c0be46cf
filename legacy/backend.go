package legacy

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
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
	server *server
	engine engine
}

// engine is the contract of a Backend: a *verbatim or a *hardened. The first is
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
	_ engine                = (*hardened)(nil)
	_ backend.Pacer         = (*verbatim)(nil)
	_ backend.BatchExtender = (*hardened)(nil)
	_ backend.Yielder       = (*grant)(nil)
)

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// Mode returns Hardened or Verbatim.
func (b *Backend) Mode() Mode { return b.server.cfg.Mode }

// Dialect returns the dialect that the Backend writes.
func (b *Backend) Dialect() dialect.Dialect { return b.server.dialect }

// Terms returns what is assumed of the old clients' fleet, with defaults filled
// in.
func (b *Backend) Terms() dialect.Terms { return b.server.cfg.Terms }

// Observe looks at a lock in one round trip and takes nothing. The server must
// allow EVAL.
func (b *Backend) Observe(ctx context.Context, key string) (Observation, error) {
	return b.engine.Observe(ctx, key)
}

// ObserveRaw looks at many keys with few messages. The names are those on the
// server, and no encoding is applied to them. Both results have the length of
// raw.
func (b *Backend) ObserveRaw(ctx context.Context, raw []string) ([]Observation, []error) {
	return b.server.observeRaw(ctx, raw)
}

// CompareAndDelete compares value with the bytes on L and deletes L if they are
// equal. If a hardened holder wrote those bytes, M is deleted too, since it
// would keep the key taken. value may also be that holder's token on M: then M
// is deleted, and L too if it still has the holder's bytes and they are no
// tombstone. The holder learns of it at its next renewal; its job may still be
// running.
func (b *Backend) CompareAndDelete(ctx context.Context, key, value string) (Deleted, error) {
	return b.server.compareAndDelete(ctx, key, value)
}

// Stats returns counts since New.
func (b *Backend) Stats() Stats { return b.server.stats() }

// Close ends the connections and waits for their goroutines. Held locks stay on
// the server until their TTL or their stamp ends. A [lock.Client] closes its
// Backend.
func (b *Backend) Close() error { return b.server.Close() }

// New returns a Backend on the server that pool dials. It uses only the pool's
// Dial or DialContext; the pool's limits (MaxActive, Wait, Close) limit no
// lock. New sends nothing, so the first attempt finds out whether the server is
// down.
func New(pool *redis.Pool, cfg Config) (*Backend, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, byTTL: cfg.Timeout == 0, dialect: cfg.Dialect, clock: clock{clocks.New(cfg.Clock)}}
	s.mux, err = wire.New(pool, wire.Options{Timeout: cfg.Timeout, Lost: s.lost})
	if err != nil {
		return nil, fmt.Errorf("legacy: %w", err)
	}
	// including the default, which a release without its own deadline relies on
	s.cfg.Timeout = s.mux.Timeout()
	if cfg.Mode == Verbatim {
		return &Backend{s, newVerbatim(s)}, nil
	}
	return &Backend{s, newHardened(s)}, nil
}

// server is what both modes share: connection, dialect, looking without taking.
type server struct {
	cfg     Config
	dialect dialect.Dialect
	clock   clock
	mux     *wire.Mux
	byTTL   bool // Config.Timeout was left out
	count   counters

	// oldServer says that this connection's server forbids a script to write
	// after it has called TIME. It is reset with the connection, since another
	// server may answer the next one.
	oldServer atomic.Bool

	armed watches.Armed // watches of held keys
}

func (s *server) lost(error) { s.oldServer.Store(false) }

// Timeout returns how long a Release waits for the server at most: one reply,
// or two where the dialect looks before it deletes.
func (s *server) Timeout() time.Duration {
	if s.cfg.Mode == Verbatim && s.dialect.ReleaseGets() {
		return 2 * s.cfg.Timeout
	}
	return s.cfg.Timeout
}

// Unwatch ends the watch of a grant.
func (s *server) Unwatch(g backend.Grant) { s.armed.Unwatch(g) }

// Close is that of the Backend.
func (s *server) Close() error { return s.mux.Close() }

func (s *server) Observe(ctx context.Context, key string) (Observation, error) {
	k, err := s.keys(key)
	if err != nil {
		return Observation{}, err
	}
	at := s.clock.begin()
	reply, err := s.mux.Eval(ctx, observeScript, k.l, k.m())
	if err != nil {
		return Observation{}, trouble(k, "look at", err)
	}
	return s.look(k, reply, s.clock.end(at))
}

// observeBatch is how many keys one message asks about: enough to share its
// cost, and few enough not to delay the server's other clients.
const observeBatch = 256

// observeRaw is that of the Backend.
func (s *server) observeRaw(ctx context.Context, raw []string) ([]Observation, []error) {
	seen, errs := make([]Observation, len(raw)), make([]error, len(raw))
	for from := 0; from < len(raw); from += observeBatch {
		part := raw[from:min(from+observeBatch, len(raw))]
		cmds := make([]wire.Command, len(part))
		for i, l := range part {
			cmds[i] = observeScript.Cmd(l, MarkKey(l))
		}
		at := s.clock.begin()
		replies := s.mux.Batch(ctx, cmds)
		at = s.clock.end(at)
		for i, r := range replies {
			k := newKeys(part[i], part[i], true)
			if r.Err != nil {
				errs[from+i] = trouble(k, "look at", r.Err)
				continue
			}
			seen[from+i], errs[from+i] = s.look(k, r.Value, at)
		}
	}
	return seen, errs
}

// Deleted says which keys CompareAndDelete deleted.
type Deleted struct {
	Lock bool // L, the old clients' key
	Mark bool // M, the getsetlock clients' key
}

// Any reports whether any key was deleted.
func (d Deleted) Any() bool { return d.Lock || d.Mark }

// compareAndDelete is that of the Backend.
func (s *server) compareAndDelete(ctx context.Context, key, value string) (Deleted, error) {
	k, err := s.keys(key)
	if err != nil {
		return Deleted{}, err
	}
	tomb, err := s.dialect.EncodeValue(s.dialect.Tombstone())
	if err != nil {
		return Deleted{}, fmt.Errorf("legacy: key %q: %w", key, err)
	}
	reply, err := s.mux.Eval(ctx, deleteScript, k.l, k.m(), value, tomb)
	if err != nil {
		return Deleted{}, trouble(k, "delete", err)
	}
	f, _ := reply.([]any)
	if len(f) != 2 {
		return Deleted{}, trouble(k, "delete", errOddReply)
	}
	return Deleted{number(f[0]) == 1, number(f[1]) == 1}, nil
}

// ForceRelease is compareAndDelete for [lock.Client.ForceRelease].
func (s *server) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	if value == "" {
		return false, fmt.Errorf("legacy: key %q: the value to compare with is empty", key)
	}
	deleted, err := s.compareAndDelete(ctx, key, value)
	return deleted.Any(), err
}

// Describe is Observe for [lock.Client.Inspect]. Its Detail is an Observation.
func (s *server) Describe(ctx context.Context, key string) (backend.Info, error) {
	return s.describe(ctx, key, func(k keys, o Observation) error {
		e := &backend.HeldError{Key: k.name, Protocol: s.dialect.Name, Owner: o.Stamp.ID,
			Stamp: o.Stamp.Expiry}
		if o.HasTTL {
			e.Left, e.Until = o.PTTL, o.Local.Add(o.PTTL)
		}
		if o.Err != nil {
			e.Protocol = o.Err.Error()
		}
		return e
	})
}

func (s *server) describe(ctx context.Context, key string, held func(keys, Observation) error,
) (backend.Info, error) {
	k, err := s.keys(key)
	if err != nil {
		return backend.Info{}, err
	}
	o, err := s.Observe(ctx, key)
	if err != nil {
		return backend.Info{}, err
	}
	info := backend.Info{Key: key, Value: o.Value, Detail: o}
	if !o.Exists {
		info.Value, _, _ = o.Token()
	}
	if o.Exists || o.MarkExists {
		info.Held = held(k, o)
	}
	return info, nil
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

type counters struct {
	acquired, takeovers, clobbered, lost, shortened, foreign, steps, sparse, unsure, unremembered atomic.Int64
}

func (s *server) stats() Stats {
	c := &s.count
	return Stats{
		Acquired: c.acquired.Load(), Takeovers: c.takeovers.Load(), Clobbered: c.clobbered.Load(),
		Lost: c.lost.Load(), Shortened: c.shortened.Load(), Foreign: c.foreign.Load(),
		Steps: c.steps.Load(), Sparse: c.sparse.Load(), Unsure: c.unsure.Load(),
		Unremembered: c.unremembered.Load(),
	}
}

// least returns the lesser of those durations that are positive, or the other
// one.
func least(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

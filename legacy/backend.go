package legacy

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Backend takes locks on one server. In mode Verbatim it also is a lock.Pacer, in mode Hardened a
// lock.BatchExtender; neither is the other, which is why New returns an interface.
//
// Verbatim keeps what package locktest asks of every Backend but one thing: a grant of a dialect
// whose value tells nobody apart cannot always be undone when its outcome is unknown. It never
// renews: Extend answers lock.ErrNotRenewable.
type Backend interface {
	lock.Backend
	lock.Tuned
	lock.Waker
	io.Closer

	// Mode returns how the Backend speaks.
	Mode() Mode

	// Dialect returns what it writes.
	Dialect() dialect.Dialect

	// Terms returns what it takes the old clients' fleet for, defaults filled in.
	Terms() dialect.Terms

	// Observe looks at a lock in one round trip and takes nothing. It needs EVAL.
	Observe(ctx context.Context, key string) (Observation, error)

	// ObserveRaw looks at many keys with few messages. The names are bytes on the server, with no
	// encoding applied. The two slices have the length of raw.
	ObserveRaw(ctx context.Context, raw []string) ([]Observation, []error)

	// CompareAndDelete frees a lock by force if value is still what stands there; see [Deleted].
	CompareAndDelete(ctx context.Context, key, value string) (Deleted, error)

	// Stats returns what was counted since New.
	Stats() Stats
}

// New returns a Backend on the server that pool dials. Only the pool's Dial or DialContext is used:
// what bounds the pool (MaxActive, Wait, Close) bounds no lock. It sends nothing; a server that is
// down is found by the first attempt.
func New(pool *redis.Pool, cfg Config) (Backend, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, dialect: cfg.Dialect, clock: clock{clocks.New(cfg.Clock)}}
	s.mux, err = wire.New(pool, wire.Options{Timeout: cfg.Timeout, Lost: s.lost})
	if err != nil {
		return nil, fmt.Errorf("legacy: %w", err)
	}
	s.cfg.Timeout = s.mux.Timeout() // with its default, on which a release without a timer of its own relies
	if cfg.Mode == Verbatim {
		return newVerbatim(s), nil
	}
	return newHardened(s), nil
}

// server is what both modes share: the connection, the dialect, looking without touching.
type server struct {
	cfg     Config
	dialect dialect.Dialect
	clock   clock
	mux     *wire.Mux
	count   counters

	// oldServer: this connection's server lets no script write that has called TIME. Forgotten with
	// the connection, since another server may answer the next.
	oldServer atomic.Bool

	armed watches.Armed // of held keys
}

func (s *server) lost(error) { s.oldServer.Store(false) }

// Timeout is how long a Release waits for the server at most: a reply, or two where the dialect looks
// before it deletes.
func (s *server) Timeout() time.Duration {
	if s.cfg.Mode == Verbatim && s.dialect.ReleaseGets() {
		return 2 * s.cfg.Timeout
	}
	return s.cfg.Timeout
}

// Unwatch ends the watch of a grant.
func (s *server) Unwatch(g lock.Grant) { s.armed.Unwatch(g) }

func (s *server) Mode() Mode               { return s.cfg.Mode }
func (s *server) Dialect() dialect.Dialect { return s.dialect }
func (s *server) Terms() dialect.Terms     { return s.cfg.Terms }

// Close ends the connections and joins their goroutines. Locks that are held stay on the server
// until their TTL or their stamp ends.
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

// observeBatch is how many keys one message asks about: enough to amortize it, few enough not to
// hold up the server's other clients.
const observeBatch = 256

func (s *server) ObserveRaw(ctx context.Context, raw []string) ([]Observation, []error) {
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
	Mark bool // M, ours beside it
}

// Any reports that something was deleted.
func (d Deleted) Any() bool { return d.Lock || d.Mark }

// CompareAndDelete compares value with the bytes on L and deletes L if they are the same. If they are
// also what a holder of ours wrote there, M goes with it, since it would keep the key taken for us.
// value may also be the token of ours on M: then M is deleted, and L if that holder's bytes still
// stand there. Whoever holds the lock is told at its next renewal; its job may still be running.
func (s *server) CompareAndDelete(ctx context.Context, key, value string) (Deleted, error) {
	k, err := s.keys(key)
	if err != nil {
		return Deleted{}, err
	}
	reply, err := s.mux.Eval(ctx, deleteScript, k.l, k.m(), value)
	if err != nil {
		return Deleted{}, trouble(k, "delete", err)
	}
	f, _ := reply.([]any)
	if len(f) != 2 {
		return Deleted{}, trouble(k, "delete", errOddReply)
	}
	return Deleted{number(f[0]) == 1, number(f[1]) == 1}, nil
}

// Stats are counts since New.
type Stats struct {
	Acquired  int64 // grants, those after a takeover included
	Takeovers int64 // stamps of others replaced after they had expired
	Clobbered int64 // acquisitions of ours that were overwritten before the settle was over
	Lost      int64 // grants that were told lost: their bytes on L, or M, were gone or another's
	Shortened int64 // renewals that found the TTL of L cut by somebody's EXPIRE
	Foreign   int64 // attempts that found a value which is no stamp of the dialect, or implausible
	Steps     int64 // steps of the server's clock that were seen
	Sparse    int64 // looks too far apart to judge by unchanged bytes
	Unsure    int64 // attempts whose outcome was not known

	Unremembered int64 // looks at a stamp that has passed which the server did not remember
}

type counters struct {
	acquired, takeovers, clobbered, lost, shortened, foreign, steps, sparse, unsure, unremembered atomic.Int64
}

func (s *server) Stats() Stats {
	c := &s.count
	return Stats{
		Acquired: c.acquired.Load(), Takeovers: c.takeovers.Load(), Clobbered: c.clobbered.Load(),
		Lost: c.lost.Load(), Shortened: c.shortened.Load(), Foreign: c.foreign.Load(),
		Steps: c.steps.Load(), Sparse: c.sparse.Load(), Unsure: c.unsure.Load(), Unremembered: c.unremembered.Load(),
	}
}

// least is the lesser of those that are known.
func least(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

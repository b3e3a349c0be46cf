package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Bridge takes locks by two keys on one server. M holds the token of the
// getsetlock client that has the lock. L is the old clients' key and holds what
// the phase asks for. Each attempt, renewal and release is one script that
// looks at both keys.
//
//   - In observe it is a hardened backend of package legacy: M, and a stamp on
//     L.
//   - In dual it writes a guard on L, a random number that every old client
//     takes for a time far ahead.
//   - In sealed and modern the lease depends on the tombstone on L. Where L is
//     empty or holds an old client's value, the bridge does what dual does, and
//     its release leaves the tombstone.
//   - In clean it takes M alone.
//
// Two getsetlock clients never hold together, as long as their phases are at
// most one step apart, the server loses no write, and its clock steps by no
// more than the trust margin. No old client holds alongside, as long as old
// clients keep to their terms. When one does not, the getsetlock client's lease
// is lost.
//
// HAZARD: the bridge believes what Terms say of the old clients. An old client
// with a smaller lease, or whose attempt takes longer than the gap, can hold
// alongside a getsetlock client. The getsetlock client's lease is then reported
// lost, but only afterwards.
type Bridge struct {
	cfg     Config
	dialect dialect.Dialect
	terms   dialect.Terms
	longest time.Duration // longest lease by the lease rule, if bound is set
	bound   bool          // the lease rule bounds leases in this dialect
	tomb    any           // bytes of the tombstone
	counter any           // key of the fencing numbers
	tag     string        // end of the value of M: a blank and the member's id; empty without a Ledger
	member  registered    // nil where the phases come from another source

	judge *legacy.Judge
	inner legacy.Backend // takes locks in phase observe
	clock clocks.Clock
	mux   *wire.Mux
	count bridgeCounters

	lastPX    atomic.Pointer[boxed] // last TTL asked for
	clockRead atomic.Int64          // elapsed time at which an attempt last asked for the server's clock
	oldServer atomic.Bool           // a script that has called TIME may not write

	armed    watches.Armed  // watches of held keys
	orphans  sync.WaitGroup // goroutines that await the end of locks that could not be released
	closed   chan struct{}  // closed by Close
	closing  sync.Mutex     // held while an orphan begins, and by Close
	isClosed bool
}

// registered is what a [Member] has beyond a [Ledger]: its answers to a Bridge.
type registered interface {
	// actsBy takes the func that returns the bridge's Behind and Ahead.
	actsBy(bounds func() (behind, ahead time.Duration))
	// asks notes that leases of ttl will be asked for.
	asks(ttl time.Duration)
	// keeps returns why no lease may be renewed for ttl now; nil: it may.
	keeps(ctx context.Context, ttl time.Duration) error
	// current returns the phase that the member read last.
	current() Phase
	// epoch returns the epoch of the record that the member acts by.
	epoch() int64
	// life returns how often the member may have been forgotten.
	life() int64
	// target names what all locks of the program are composed with; empty: none
	// is.
	target() string
	// countsFor returns the namespace whose fencing numbers are drawn.
	countsFor(namespace string) string
}

var _ registered = (*Member)(nil)

// tombstonePX is how long a tombstone lasts while no client takes the lock: 30
// days, in milliseconds.
const tombstonePX = int64(30 * 24 * time.Hour / time.Millisecond)

// New returns a Bridge on the server that pool dials. Only the pool's Dial or
// DialContext is used. New sends nothing; the first attempt finds out whether
// the server is up.
func New(pool *redis.Pool, cfg Config) (*Bridge, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	judge, err := legacy.NewJudge(cfg.hardened())
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	full := judge.Config()
	b := &Bridge{
		cfg: cfg, dialect: full.Dialect, terms: full.Terms, judge: judge, clock: clocks.New(full.Clock),
		counter: counterKey(cfg.Namespace), closed: make(chan struct{}),
	}
	b.cfg.Wake = full.Wake
	b.longest, b.bound = b.dialect.LongestLease(b.terms)
	tomb, err := b.dialect.EncodeValue(b.dialect.Tombstone())
	if err != nil {
		return nil, fmt.Errorf("migrate: Config.Dialect: %w", err)
	}
	b.tomb = tomb
	if b.inner, err = legacy.New(pool, cfg.hardened()); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	judge.Share(b.inner)
	b.mux, err = wire.New(pool, wire.Options{
		Timeout: cfg.Timeout, Lost: func(error) { b.oldServer.Store(false) }})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: %w", err), b.inner.Close())
	}
	if l, ok := cfg.Phases.(Ledger); ok {
		b.tag = " " + l.ID()
		l.Attach(b.probe)
	}
	if m, ok := cfg.Phases.(registered); ok {
		b.member = m
		m.actsBy(b.bounds)
	}
	return b, nil
}

// counterKey returns the key of a namespace's fencing numbers.
func counterKey(namespace string) string { return "gsl:fence:" + scope.InName(namespace) }

// numbers returns the key of the fencing numbers. If the program joined a
// namespace that was carved out of another, it is the key of the shortest
// namespace out of which it was carved.
func (b *Bridge) numbers() any {
	if b.member != nil {
		if first := b.member.countsFor(b.cfg.Namespace); first != b.cfg.Namespace {
			return counterKey(first)
		}
	}
	return b.counter
}

// Close ends the connections and waits for every goroutine. Locks that are
// still held end by their TTL.
func (b *Bridge) Close() error {
	b.closing.Lock()
	if !b.isClosed {
		b.isClosed = true
		close(b.closed)
	}
	b.closing.Unlock()
	err := errors.Join(b.mux.Close(), b.inner.Close())
	b.orphans.Wait()
	return err
}

// Timeout is the longest time that a Release or Pass waits for the server's
// reply.
func (b *Bridge) Timeout() time.Duration { return b.mux.Timeout() }

// Dialect returns what the old clients write.
func (b *Bridge) Dialect() dialect.Dialect { return b.dialect }

// Terms returns the terms of the old clients, with defaults filled in.
func (b *Bridge) Terms() dialect.Terms { return b.terms }

// bounds are the Behind and Ahead by which the bridge judges old clients'
// clocks, as in [dialect.Terms]. They contain the steps of the server's clock
// that the bridge has seen.
func (b *Bridge) bounds() (behind, ahead time.Duration) { return b.judge.Bounds() }

// Inspect looks at both keys of a lock and takes nothing.
func (b *Bridge) Inspect(ctx context.Context, key string) (legacy.Observation, error) {
	k, err := b.keys(key)
	if err != nil {
		return legacy.Observation{}, err
	}
	at := b.judge.Begin()
	reply, err := b.mux.Eval(ctx, lookScript, k.argL, k.argM)
	if err != nil {
		return legacy.Observation{}, bridgeTrouble(k, "look at", err)
	}
	return b.judge.Read(k.name, k.l, reply, b.judge.End(at))
}

// draw makes a random guard, as the bytes for L.
func (b *Bridge) draw() (string, error) {
	uuid := ""
	if b.dialect.Shape == dialect.ShapeUUIDNumber {
		var id [16]byte
		rand.Read(id[:]) // never fails
		uuid = b.dialect.NewID(id)
	}
	low, high := b.dialect.GuardRange()
	text, ok := b.dialect.Guard(between(low, high), uuid)
	if !ok {
		return "", fmt.Errorf("migrate: %s has no guard", b.dialect.Name)
	}
	return b.dialect.EncodeValue(text)
}

// between draws a random number from low to high, each with the same chance: a
// number outside is drawn again.
func between(low, high int64) int64 {
	for {
		var raw [8]byte
		rand.Read(raw[:])
		var n int64
		for _, c := range raw {
			n = n<<8 | int64(c)
		}
		if n &= 1<<63 - 1; n >= low && n <= high {
			return n
		}
	}
}

var (
	_ lock.Backend       = (*Bridge)(nil)
	_ lock.BatchExtender = (*Bridge)(nil)
	_ lock.Passer        = (*Bridge)(nil)
	_ lock.Waker         = (*Bridge)(nil)
)

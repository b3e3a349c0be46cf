package migrate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
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
type Bridge struct{ engine *bridgeEngine }

// Contract returns what [lock.New] calls.
func (b *Bridge) Contract() backend.Backend { return b.engine }

// Dialect returns what the old clients write.
func (b *Bridge) Dialect() dialect.Dialect { return b.engine.dialect }

// Terms returns the terms of the old clients, with defaults filled in.
func (b *Bridge) Terms() dialect.Terms { return b.engine.terms }

// Inspect looks at both keys of a lock and takes nothing.
func (b *Bridge) Inspect(ctx context.Context, key string) (legacy.Observation, error) {
	return b.engine.Inspect(ctx, key)
}

// Stats returns the counts since New.
func (b *Bridge) Stats() BridgeStats { return b.engine.stats() }

// Close ends the connections and waits for every goroutine. Locks that are
// still held end by their TTL. A [lock.Client] closes its backend.
func (b *Bridge) Close() error { return b.engine.Close() }

// bridgeEngine is the contract of a Bridge.
type bridgeEngine struct {
	cfg     Config
	dialect dialect.Dialect
	terms   dialect.Terms
	longest time.Duration // longest lease by the lease rule, if bound is set
	bound   bool          // the lease rule bounds leases in this dialect
	tomb    any           // bytes of the tombstone
	fence   string        // beginning of the keys of fencing numbers
	tag     string        // end of the value of M: a blank and the member's id; empty without a Ledger
	member  registered    // nil where the phases come from another source

	judge *legacy.Judge
	old   *legacy.Backend // takes locks in phase observe
	inner hardened        // its contract
	clock clocks.Clock
	mux   *wire.Mux
	count bridgeCounters

	lastPX    atomic.Pointer[boxed] // last TTL asked for
	clockRead atomic.Int64          // elapsed time at which an attempt last asked for the server's clock
	oldServer atomic.Bool           // a script that has called TIME may not write
	isPlaced  atomic.Bool           // the member's field was found on the bridge's server

	armed    watches.Armed  // watches of held keys
	orphans  sync.WaitGroup // goroutines that await the end of locks that could not be released
	closed   chan struct{}  // closed by Close
	closing  sync.Mutex     // held while an orphan begins, and by Close
	isClosed bool
}

// hardened is the contract of a legacy.Backend in mode Hardened.
type hardened interface {
	backend.Backend
	backend.BatchExtender
	backend.Waker
	backend.Advisor
}

// registered is what a [Member] has beyond a [Ledger]: its answers to a Bridge.
type registered interface {
	// actsBy takes how the bridge judges clocks, and its longest lease before
	// phase modern.
	actsBy(judge bounded, first time.Duration)
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
	// foundBy returns nil if the server of mux has the member's field.
	foundBy(ctx context.Context, mux *wire.Mux) error
	// Refresh makes a round.
	Refresh(ctx context.Context) error
	// saw returns what watchers saw of old clients' clocks.
	saw() dialect.Seen
	// composes takes what all locks of the bridge are composed with.
	composes(b *bridgeEngine, target backend.Backend)
	// proved returns why no composed lock is taken in a phase; nil: it may.
	proved(ctx context.Context, p Phase) error
	// target names what all locks of the program are composed with; empty: none
	// is.
	target() string
}

// bounded is how a bridge judges old clients' clocks, which a [legacy.Judge]
// says: by which bounds, and after what was seen elsewhere.
type bounded interface {
	Bounds() (behind, ahead time.Duration)
	Told(seen dialect.Seen)
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
	b := &bridgeEngine{
		cfg: cfg, dialect: full.Dialect, terms: full.Terms, judge: judge, clock: clocks.New(full.Clock),
		fence: "gsl:fence:" + scope.InName(cfg.Namespace) + ":", closed: make(chan struct{}),
	}
	b.cfg.Wake = full.Wake
	b.longest, b.bound = b.dialect.LongestLease(b.terms)
	tomb, err := b.dialect.EncodeValue(b.dialect.Tombstone())
	if err != nil {
		return nil, fmt.Errorf("migrate: Config.Dialect: %w", err)
	}
	b.tomb = tomb
	if b.old, err = legacy.New(pool, cfg.hardened()); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	b.inner = b.old.Contract().(hardened)
	judge.Share(b.old)
	b.mux, err = wire.New(pool, wire.Options{
		Timeout: cfg.Timeout, Lost: func(error) { b.oldServer.Store(false) }})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("migrate: %w", err), b.old.Close())
	}
	if l, ok := cfg.Phases.(Ledger); ok {
		b.tag = " " + l.ID()
		l.Attach(b.probe)
	}
	if m, ok := cfg.Phases.(registered); ok {
		b.member = m
		first := record.LongestTime
		if b.longLeases() {
			first = b.longest
		}
		m.actsBy(judge, first)
	}
	return &Bridge{b}, nil
}

// counter returns the key of the fencing numbers of the lock whose second key
// is m. It is the counter of a token lock on m, whose numbers go on from there.
func (b *bridgeEngine) counter(m string) string { return names.OfSlot(b.fence, m) }

// Close is that of the Bridge.
func (b *bridgeEngine) Close() error {
	b.closing.Lock()
	if !b.isClosed {
		b.isClosed = true
		close(b.closed)
	}
	b.closing.Unlock()
	err := errors.Join(b.mux.Close(), b.old.Close())
	b.orphans.Wait()
	return err
}

// Timeout is the longest time that a Release waits for the server's reply.
func (b *bridgeEngine) Timeout() time.Duration { return b.mux.Timeout() }

// Inspect is that of the Bridge.
func (b *bridgeEngine) Inspect(ctx context.Context, key string) (legacy.Observation, error) {
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
func (b *bridgeEngine) draw() (string, error) {
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
	_ backend.Store         = (*Bridge)(nil)
	_ backend.Backend       = (*bridgeEngine)(nil)
	_ backend.Advisor       = (*bridgeEngine)(nil)
	_ backend.Inspector     = (*bridgeEngine)(nil)
	_ io.Closer             = (*bridgeEngine)(nil)
	_ backend.BatchExtender = (*bridgeEngine)(nil)
	_ backend.Waker         = (*bridgeEngine)(nil)
)

// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Config configures a Backend. Zero is right for every field, if no client
// asks for a TTL of more than 30 s.
type Config struct {
	// GreatestTTL is the greatest TTL that any client asks these servers for,
	// clients of other libraries included. All processes use the same value. A
	// server that restarted does not vote for that long, and a greater TTL is
	// refused. Defaults to 30 s; 90 s is the most.
	GreatestTTL time.Duration

	// Epoch counts the changes of the members and of GreatestTTL. Raise it by
	// one at each change, as docs/guide/quorum.md says.
	Epoch int

	// Fences gives every lease a fencing number, in a second round trip. All
	// members must draw numbers (modern.Config.Fence), in the same namespace.
	Fences bool

	// Note is written after the token and a blank, for people who look at keys:
	// a host's name, a job's.
	Note string

	// Clock makes the pauses between attempts to give votes back and before
	// attempts to take them, and measures for how long servers were watched.
	// Times of leases are read from the clock of the lock.Client. Defaults to
	// [lock.Machine].
	Clock lock.Clock
}

const defaultGreatestTTL = 30 * time.Second

// LongestTTL bounds Config.GreatestTTL.
const LongestTTL = 90 * time.Second

// fewest is the least number of members. With two, the loss of either would
// stop every lock.
const fewest = 3

// Backend is a quorum for locks on a majority of members. [lock.New] makes a
// Client of it. Leases have fencing numbers if Config.Fences is set.
type Backend struct{ engine *engine }

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// Check asks every member whether it votes. The answers are in the order given
// to New.
func (b *Backend) Check(ctx context.Context) []Standing { return b.engine.check(ctx) }

// Standings returns what every member said last, in the order given to New. It
// asks nobody.
func (b *Backend) Standings() []Standing { return b.engine.standings() }

// Close makes a last attempt to give back the votes that no lease needs, joins
// every goroutine, and closes the members. Keys that are still held free
// themselves. A [lock.Client] closes its Backend.
func (b *Backend) Close() error { return b.engine.Close() }

// engine is the contract of a Backend.
type engine struct {
	cfg     Config
	members []*member
	need    int    // votes of a majority
	names   string // of all members, as the records have them
	usual   usual
	proven  atomic.Bool  // all records were those of this quorum at one time
	met     atomic.Int64 // elapsed time at which the newest run was seen first

	life context.Context // ends with Close
	die  context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // every call and goroutine
}

func majority(n int) int { return n/2 + 1 }

// New returns a Backend over an odd number of members, at least three, each on
// a server of its own. Nothing is sent until the first call. Close closes the
// members.
func New(members []Member, cfg Config) (*Backend, error) {
	if err := validMembers(members); err != nil {
		return nil, err
	}
	switch {
	case cfg.GreatestTTL < 0 || cfg.GreatestTTL > LongestTTL:
		return nil, fmt.Errorf("quorum: Config.GreatestTTL is %v; it must be positive, and %v at most",
			cfg.GreatestTTL, LongestTTL)
	case cfg.Epoch < 0:
		return nil, fmt.Errorf("quorum: Config.Epoch is %d; it must not be negative", cfg.Epoch)
	case cfg.GreatestTTL == 0:
		cfg.GreatestTTL = defaultGreatestTTL
	}
	if cfg.Clock == nil {
		cfg.Clock = lock.Machine
	}
	b := &engine{cfg: cfg, need: majority(len(members))}
	b.met.Store(math.MinInt64)
	b.life, b.die = context.WithCancel(context.Background())
	var names []string
	for i, m := range members {
		own, err := newMember(i, m)
		if err != nil {
			return nil, err
		}
		admit := func(c redis.Conn) error { return b.ask(own, c.Do) }
		if err := own.Admit(admit); err != nil {
			return nil, fmt.Errorf("quorum: %s: %w", own, err)
		}
		b.members, names = append(b.members, own), append(names, own.name)
	}
	slices.Sort(names)
	b.names = strings.Join(names, " ")
	return &Backend{b}, nil
}

func validMembers(members []Member) error {
	n := len(members)
	switch {
	case n < fewest:
		return fmt.Errorf(
			"quorum: %d members: a quorum needs at least three servers; for one server use package modern", n)
	case n%2 == 0:
		return fmt.Errorf("quorum: %d members: a lock would need %d votes, so no more servers may be away than with %d members: add or remove one",
			n, majority(n), n-1)
	}
	var names []string
	for i, m := range members {
		switch {
		case m == nil:
			return fmt.Errorf("quorum: member %d is nil", i)
		case strings.TrimSpace(m.String()) == "" || len(strings.Fields(m.String())) > 1:
			return fmt.Errorf("quorum: member %d has no name without blanks; set modern.Config.Name", i)
		case slices.Contains(names, m.String()):
			return fmt.Errorf("quorum: the server %s is named twice: each member needs a server of its own",
				m)
		}
		names = append(names, m.String())
	}
	return nil
}

// begin counts a call in. It returns false after Close.
func (b *engine) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.work.Add(1)
	return true
}

// Close is that of the Backend.
func (b *engine) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.die()
	b.work.Wait()
	var errs []error
	for _, m := range b.members {
		if c, ok := m.voter.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// detached returns a context that outlives ctx and ends with Close. It has the
// clock of ctx.
func (b *engine) detached(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	call, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(b.life, func() { cancel(lock.ErrClosed) })
	return call, func(cause error) {
		stop()
		cancel(cause)
	}
}

// each calls f for all members at once, and returns their errors in order.
func (b *engine) each(f func(*member) error) []error {
	errs := make([]error, len(b.members))
	var all sync.WaitGroup
	for i, m := range b.members {
		all.Go(func() { errs[i] = f(m) })
	}
	all.Wait()
	return errs
}

// elapsed reads a clock that no step of the wall clock moves.
func (b *engine) elapsed() time.Duration {
	if c, ok := b.cfg.Clock.(interface{ Elapsed() time.Duration }); ok {
		return c.Elapsed()
	}
	return backend.ReadClock(b.life).Elapsed
}

// Advise leaves the times as they are.
func (b *engine) Advise(cfg backend.Settings) backend.Settings { return cfg }

// Fits refuses a TTL greater than Config.GreatestTTL, and what a member
// refuses.
func (b *engine) Fits(ttl, renewEvery, margin time.Duration) error {
	if err := b.fits(ttl); err != nil {
		return err
	}
	for _, m := range b.members {
		if m.advisor == nil {
			continue
		}
		if err := m.advisor.Fits(ttl, renewEvery, margin); err != nil {
			return fmt.Errorf("quorum: %s: %w", m, err)
		}
	}
	return nil
}

func (b *engine) fits(ttl time.Duration) error {
	if ttl > b.cfg.GreatestTTL {
		return fmt.Errorf("quorum: TTL %v is more than Config.GreatestTTL (%v), the time for which a server that restarted does not vote", ttl, b.cfg.GreatestTTL)
	}
	return nil
}

// Timeout is the longest time that a Release takes: twice the members' own,
// since it may first have to await the reply to an attempt. It is zero if a
// member names none.
func (b *engine) Timeout() time.Duration {
	longest := time.Duration(0)
	for _, m := range b.members {
		if m.advisor == nil || m.advisor.Timeout() == 0 {
			return 0
		}
		longest = max(longest, m.advisor.Timeout())
	}
	return 2 * longest
}

// newToken draws 128 bits: 22 characters of base64url.
func newToken() string {
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

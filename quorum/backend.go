package quorum

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Config configures a Backend. Zero is right for every field, if no client
// asks for a TTL of more than 30 s.
type Config struct {
	// GreatestTTL is the greatest TTL that any client asks these servers for,
	// clients of other libraries included. All processes use the same value. A
	// server that restarted does not vote for that long, and a greater TTL is
	// refused. Defaults to 30 s.
	GreatestTTL time.Duration

	// Fences gives every lease a fencing number, in a second round trip. All
	// members must draw numbers (modern.Config.Fence), in the same namespace.
	Fences bool

	// Note is written after the token and a blank, for people who look at keys:
	// a host's name, a job's.
	Note string

	// Clock makes the pauses between attempts to give votes back. Times of
	// leases are read from the clock of the lock.Client. Defaults to
	// [lock.Machine].
	Clock lock.Clock
}

const defaultGreatestTTL = 30 * time.Second

// fewest is the least number of members. With two, the loss of either would
// stop every lock.
const fewest = 3

// Backend is a quorum for locks on a majority of members. [lock.New] makes a
// Client of it. Leases have fencing numbers if Config.Fences is set.
type Backend struct{ engine *engine }

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// Check asks every member whether it votes.
func (b *Backend) Check(ctx context.Context) Survey { return b.engine.check(ctx) }

// Close makes a last attempt to give back the votes that no lease needs, joins
// every goroutine, and closes the members. Keys that are still held free
// themselves. A [lock.Client] closes its Backend.
func (b *Backend) Close() error { return b.engine.Close() }

// engine is the contract of a Backend.
type engine struct {
	cfg     Config
	members []*member
	need    int           // votes of a majority
	lingers time.Duration // shortest wait for votes past the majority
	claims  claims
	crowds  crowds

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
	if cfg.GreatestTTL < 0 {
		return nil, fmt.Errorf("quorum: Config.GreatestTTL is %v; it must be positive", cfg.GreatestTTL)
	}
	if cfg.GreatestTTL == 0 {
		cfg.GreatestTTL = defaultGreatestTTL
	}
	if cfg.Clock == nil {
		cfg.Clock = lock.Machine
	}
	b := &engine{cfg: cfg, need: majority(len(members)), lingers: leastBrief}
	b.life, b.die = context.WithCancel(context.Background())
	for i, m := range members {
		own, err := newMember(i, m)
		if err != nil {
			return nil, err
		}
		b.members = append(b.members, own)
	}
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
		case m.String() == "":
			return fmt.Errorf("quorum: member %d has no name; set modern.Config.Name", i)
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
		errs = append(errs, m.close())
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

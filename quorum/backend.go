package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Config configures a Backend. Zero is right for every field, if no client
// asks for a TTL of more than 30 s.
type Config struct {
	// GreatestTTL is the greatest TTL that any client asks these servers for,
	// clients of other libraries included. A server that restarted does not
	// vote for so long. Defaults to 30 s.
	GreatestTTL time.Duration

	// Fences gives every lease a fencing number, in a second round trip. All
	// members must draw numbers (modern.Config.Fence).
	Fences bool

	// Note is written after the token and a blank, for people who look at keys.
	Note string

	// Clock makes the pauses between attempts to give votes back. Times of
	// leases are read from the clock of the lock.Client. Defaults to
	// [lock.Machine].
	Clock lock.Clock
}

// Backend takes locks on a majority of members.
type Backend struct{}

var errSkeleton = errors.New("quorum: not built yet")

// New returns a Backend over an odd number of members, at least three. Nothing
// is sent until the first call.
func New(members []Member, cfg Config) (*Backend, error) { return &Backend{}, errSkeleton }

// Check asks every member whether it votes.
func (b *Backend) Check(ctx context.Context) Survey { return Survey{} }

// Close gives back what is left, and closes the members.
func (b *Backend) Close() error { return nil }

// Try asks all members for key.
func (b *Backend) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	return nil, errSkeleton
}

// ExtendAll renews grants.
func (b *Backend) ExtendAll(ctx context.Context, grants []lock.Grant, ttl time.Duration) ([]lock.Term,
	[]error) {
	return nil, nil
}

// Await arms a call of wake.
func (b *Backend) Await(ctx context.Context, key string, wake func()) (cancel func(), free bool, err error) {
	return nil, false, errSkeleton
}

// Watch arms calls of Touched.
func (b *Backend) Watch(ctx context.Context, gs []lock.Grant, holders []interface{ Touched() }) []error {
	return nil
}

// Unwatch disarms what Watch armed.
func (b *Backend) Unwatch(g lock.Grant) {}

// Tune leaves the times as they are.
func (b *Backend) Tune(cfg lock.Config) lock.Config { return cfg }

// Fits refuses a TTL greater than Config.GreatestTTL.
func (b *Backend) Fits(ttl, renewEvery, margin time.Duration) error { return nil }

// Timeout is the longest time that a Release takes.
func (b *Backend) Timeout() time.Duration { return 0 }

// Describe says what each member has on key. Its Detail is an [Info].
func (b *Backend) Describe(ctx context.Context, key string) (lock.Info, error) {
	return lock.Info{}, errSkeleton
}

// ForceRelease deletes key on every member on which its value is value.
func (b *Backend) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	return false, errSkeleton
}

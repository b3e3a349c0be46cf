package lock

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Config holds the times of a Client. Zero is right for every field.
type Config struct {
	// TTL is how long the store keeps a key without renewal. Defaults to what the backend advises,
	// else to 30 s.
	TTL time.Duration

	// RenewEvery is how often a held lease is renewed. Negative: never; the lease then ends after
	// TTL. Defaults to a third of TTL.
	RenewEvery time.Duration

	// Margin is how long before its end a lease is no longer trusted. It must cover how far the
	// store's clock runs ahead of ours within one TTL, steps included. Negative: none. Defaults to
	// what the backend advises, else to a tenth of TTL.
	Margin time.Duration

	// RetryEvery is how often a waiter asks the store where the store does not tell of a release.
	// Waiters spread by a random quarter of it. Defaults to what the backend advises, else to
	// 100 ms.
	RetryEvery time.Duration

	// Wait is how long Acquire waits for a key that another holds, and for a store that is in trouble which
	// may pass. An answer is awaited for a tenth of a second longer. Zero: until its context ends, but 10 s
	// for a store that has never answered this Client. Negative: it tries once.
	Wait time.Duration

	// LongestHold is how long a lease is renewed at most, counted from its acquisition. It then ends by
	// itself within a TTL, so that a forgotten Release frees the key; [Lease.Renew] extends it all the
	// same. Zero: there is no limit, and the log warns once of a lease that is held for more than ten
	// TTLs. Negative: neither limit nor warning.
	LongestHold time.Duration

	// ReleaseWait is how long Release waits for the store before it goes on in the background.
	// Defaults to 2 s.
	ReleaseWait time.Duration

	// Politeness is for how long each release leaves the key to clients that only
	// poll. A backend whose grants are [Polite] keeps every process away for so
	// long, any other the waiters of this process alone. Zero: such a backend
	// decides at each release, and others leave nothing. Negative: never.
	Politeness time.Duration

	// HandOvers is how many times in a row a key may pass from one goroutine of this process to the
	// next in one command, where the backend can do that, before other processes get a chance.
	// Negative: never. Defaults to 64.
	HandOvers int

	// LocalHandOvers is how many times in a row a key may pass from one goroutine of this process
	// to the next without a word to the store, where the backend can do that. The next goes on with
	// the trust of the one before, so that it never passes so to a lease that is not renewed, or has
	// a greater Margin. Negative: never. Defaults to 64.
	LocalHandOvers int

	// HandOverFor is how long hand-overs of either kind may go on before other processes get a
	// chance. Defaults to 100 ms.
	HandOverFor time.Duration

	// Jitter draws from 0 to most how much sooner than planned something is done that many clients
	// would else do in step: a waiter asks again, a lease is renewed. It is called concurrently. A
	// simulation gives its own to be repeatable. Defaults to an even draw from math/rand's source.
	Jitter func(most time.Duration) time.Duration

	// Clock is where the Client reads time. Defaults to [Machine].
	Clock Clock

	// Logger gets what happens in the background: renewals that failed, clocks that stepped, keys
	// that could not be given back. Of many leases in the same trouble it gets a line a round of
	// renewals. Defaults to a logger that drops everything but keys that could not be given back, which
	// go to [slog.Default].
	Logger *slog.Logger

	// Hooks are told what happens to leases.
	Hooks Hooks
}

// Hooks are functions that a Client calls when something happens to a lease. Each may be nil.
//
// A goroutine of the Client calls them one after the other, in the order in
// which things happened; Clients made by [Client.With] share it. Neither Acquire
// nor Release waits for a hook, so that it may be called a moment after they
// returned. A hook that blocks delays later hooks and nothing else: leases end on
// time. Of calls that wait for it 65,536 are kept. [Client.Close] may be called
// from a hook.
type Hooks struct {
	// Waiting: an Acquire begins to wait. Event.Cause says who holds the key, or what trouble the store is in.
	Waiting func(Event)

	// Acquired: a lease began, after Event.Wait.
	Acquired func(Event)

	// Renewed: the lease is trusted until Event.Until.
	Renewed func(Event)

	// RenewFailed: a renewal failed with Event.Cause; the lease is trusted until Event.Until and the
	// renewal is tried again before that.
	RenewFailed func(Event)

	// Endangered: half of the time between a renewal that was due and the end of trust is over, and
	// none has succeeded (Event.Cause: what the last one failed by, nil if it is still under way).
	// The lease is trusted until Event.Until; now is the time to bring the work to a safe point.
	Endangered func(Event)

	// Lost: the lease ended by Event.Cause, not by its holder.
	Lost func(Event)

	// Released: the holder gave the lease back. Event.Cause is what the store said where that goes on in
	// the background, else nil.
	Released func(Event)
}

// Event is what a hook is told. Fields that mean nothing for a hook are zero.
type Event struct {
	Key   string
	Token string
	Wait  time.Duration // how long Acquire waited
	Held  time.Duration // how long the lease was held
	Until time.Time     // end of trust
	Cause error
}

const (
	defaultTTL         = 30 * time.Second
	defaultRetryEvery  = 100 * time.Millisecond
	defaultReleaseWait = 2 * time.Second
	defaultHandOvers   = 64
	defaultHandOverFor = 100 * time.Millisecond

	// greatestTTL keeps sums of durations far from overflow; no store needs a longer lease.
	greatestTTL = 10 * 365 * 24 * time.Hour
)

// complete returns cfg with its defaults filled in, the backend's advice first, and checks the
// times against each other.
func (cfg Config) complete(b Backend) (Config, error) {
	if err := cfg.validGiven(); err != nil {
		return Config{}, err
	}
	if t, ok := b.(Tuned); ok {
		cfg = t.Tune(cfg)
	}
	setDefault(&cfg.TTL, defaultTTL)
	setDefault(&cfg.RenewEvery, cfg.TTL/3)
	setDefault(&cfg.Margin, cfg.TTL/10)
	setDefault(&cfg.RetryEvery, defaultRetryEvery)
	setDefault(&cfg.ReleaseWait, defaultReleaseWait)
	setDefault(&cfg.HandOvers, defaultHandOvers)
	setDefault(&cfg.LocalHandOvers, defaultHandOvers)
	setDefault(&cfg.HandOverFor, defaultHandOverFor)
	if cfg.Jitter == nil {
		cfg.Jitter = func(most time.Duration) time.Duration { return rand.N(most + 1) }
	}
	if cfg.Clock == nil {
		cfg.Clock = Machine
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(quiet{slog.DiscardHandler})
	}
	if err := cfg.validTogether(); err != nil {
		return Config{}, err
	}
	if f, ok := b.(Tuned); ok {
		if err := f.Fits(cfg.TTL, max(cfg.RenewEvery, 0), max(cfg.Margin, 0)); err != nil {
			return Config{}, fmt.Errorf("lock: %w", err)
		}
	}
	return cfg, nil
}

// jitter is Config.Jitter within its bounds, whatever that returns: more than
// planned, a renewal would come late.
func (cfg *Config) jitter(most time.Duration) time.Duration {
	return min(max(cfg.Jitter(most), 0), most)
}

func setDefault[T ~int | ~int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (cfg Config) validGiven() error {
	switch {
	case cfg.TTL < 0:
		return fmt.Errorf("lock: Config.TTL is %v; it must be positive", cfg.TTL)
	case cfg.TTL > greatestTTL:
		return fmt.Errorf("lock: Config.TTL is %v; it must not exceed %v", cfg.TTL, greatestTTL)
	case cfg.RetryEvery < 0:
		return fmt.Errorf("lock: Config.RetryEvery is %v; it must be positive", cfg.RetryEvery)
	case cfg.ReleaseWait < 0:
		return fmt.Errorf("lock: Config.ReleaseWait is %v; it must be positive", cfg.ReleaseWait)
	case cfg.HandOverFor < 0:
		return fmt.Errorf("lock: Config.HandOverFor is %v; it must be positive; to hand nothing over set HandOvers and LocalHandOvers to -1", cfg.HandOverFor)
	}
	return nil
}

func (cfg Config) validTogether() error {
	margin := max(cfg.Margin, 0)
	if margin >= cfg.TTL {
		return fmt.Errorf("lock: Config.Margin (%v) must be less than Config.TTL (%v)", margin, cfg.TTL)
	}
	if cfg.RenewEvery > 0 && cfg.RenewEvery+margin >= cfg.TTL {
		return fmt.Errorf("lock: Config.RenewEvery (%v) and Config.Margin (%v) together must be less than Config.TTL (%v)",
			cfg.RenewEvery, margin, cfg.TTL)
	}
	return nil
}

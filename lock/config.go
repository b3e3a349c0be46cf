// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Config holds the times of a Client. Zero is right for every field.
type Config struct {
	// TTL is how long the store keeps a key without renewal. Defaults to the
	// backend's advice, else to 30 s.
	TTL time.Duration

	// RenewEvery is the time between two renewals of a held lease. Negative: no
	// renewals; the lease then ends after TTL. Defaults to a third of TTL.
	RenewEvery time.Duration

	// Margin is how long before its end a lease is no longer trusted. It must
	// cover how far the store's clock may run ahead of the client's within one
	// TTL, steps included. Negative: none. Defaults to the backend's advice,
	// else to a tenth of TTL.
	Margin time.Duration

	// RetryEvery is how often a waiter asks the store if the store does not
	// report releases. Each pause is shortened by a random part, up to a
	// quarter. Defaults to the backend's advice, else to 100 ms.
	RetryEvery time.Duration

	// Wait is how long Acquire waits while another holder has the key, or while
	// the store has trouble that may pass. Acquire awaits the last answer for a
	// tenth of a second longer. Zero: until its context ends, but 10 s if the
	// store has never answered this Client. After 5 s the log then says once
	// what is waited for. Negative: Acquire tries once.
	Wait time.Duration

	// LongestHold is the longest time for which a lease is renewed, counted
	// from its acquisition. The lease then ends by itself within a TTL, so that
	// a forgotten Release frees the key. [Lease.Renew] still extends it. Zero:
	// there is no limit, and the log warns once about a lease that is held for
	// more than ten TTLs. Negative: neither limit nor warning.
	LongestHold time.Duration

	// KeepFor is how long a key stays taken after its acquisition, also if its
	// holder releases it earlier or is killed: the floor of a job that several
	// machines start at the same time and one of them is to run. [Floor]
	// computes one. The release shortens the key's TTL to what is left, and
	// nothing runs in this process for it. The key is handed to no waiter; it
	// frees itself. The floor is never shorter, and longer by at most the time
	// of the job × Margin / TTL. It must not exceed TTL. Zero: a release frees
	// the key at once. New refuses it if the backend cannot keep a key.
	KeepFor time.Duration

	// ReleaseWait is how long Release waits for the store, and twice as long if
	// the store has to connect anew. After that the release goes on in the
	// background. Defaults to 2 s.
	ReleaseWait time.Duration

	// Politeness is how long each release leaves the key to clients that only
	// poll. The stores of legacy and migrate then keep every other process
	// away for that long; with other backends only the waiters of this process
	// keep away. Zero: the first two decide at each release, and others leave
	// nothing. Negative: never.
	Politeness time.Duration

	// LocalHandOvers is how many times in a row a key may pass between
	// goroutines of this process without a message to the store. A backend that
	// does not support that ignores it. The next lease continues with the token
	// and the trust of the lease before. So a key never passes this way to a
	// lease that is not renewed or has a greater Margin. Negative: never.
	// Defaults to 64.
	LocalHandOvers int

	// HandOverFor is how long such hand-overs may go on before other processes
	// get a chance. Defaults to 100 ms.
	HandOverFor time.Duration

	// Jitter returns a duration from 0 to most. The Client does something that
	// many clients would otherwise do in step by that much sooner than planned:
	// a waiter asks again, a lease is renewed. It is called concurrently. A
	// simulation sets its own Jitter to be repeatable. Defaults to an even draw
	// from math/rand's source.
	Jitter func(most time.Duration) time.Duration

	// Clock is where the Client reads time. Defaults to [Machine].
	Clock Clock

	// Logger gets what happens in the background: renewals that failed, clocks
	// that stepped, keys that could not be given back. If many leases have the
	// same trouble, it gets one line for each round of renewals. Defaults to a
	// logger that drops everything except keys that could not be given back,
	// which go to [slog.Default].
	Logger *slog.Logger

	// Hooks are called when something happens to a lease.
	Hooks Hooks
}

// Hooks are functions that a Client calls when something happens to a lease.
// Each may be nil.
//
// A goroutine of the Client calls them one after the other, in the order in
// which things happened; Clients made by [Client.With] share it. Neither
// Acquire nor Release waits for a hook, so a hook may be called a moment after
// they returned. A hook that blocks delays later hooks and nothing else: leases
// end on time. The Client keeps up to 65,536 calls that wait for it and drops
// more. [Client.Close] may be called from a hook.
type Hooks struct {
	// Waiting: an Acquire begins to wait. Event.Cause says who holds the key,
	// or what trouble the store has.
	Waiting func(Event)

	// Acquired: a lease began, after Event.Wait.
	Acquired func(Event)

	// Renewed: the lease is trusted until Event.Until.
	Renewed func(Event)

	// RenewFailed: a renewal failed with Event.Cause. The lease is trusted
	// until Event.Until, and the renewal is tried again before that.
	RenewFailed func(Event)

	// Endangered: no renewal has succeeded, and half of the time between the
	// due renewal and the end of trust has passed. Event.Cause is the error of
	// the last renewal, nil if that is still under way. The lease is trusted
	// until Event.Until: bring the work to a safe point now.
	Endangered func(Event)

	// Lost: the lease ended by Event.Cause, not by its holder.
	Lost func(Event)

	// Released: the holder gave the lease back. If that still goes on in the
	// background, Event.Cause is the store's error, else nil.
	Released func(Event)
}

// Event is the argument of a hook. Fields that mean nothing for a hook are
// zero.
type Event struct {
	Key   string
	Token string
	Wait  time.Duration // time that Acquire waited
	Held  time.Duration // time for which the lease was held
	Until time.Time     // end of trust
	Cause error
}

// WakeOn and WakeOff are values of the field Wake in a backend's own Config,
// such as modern.Config.Wake: whether the server is asked to report changes of
// keys to waiters and holders.
const (
	WakeOn  = backend.WakeOn
	WakeOff = backend.WakeOff
)

const (
	defaultTTL         = 30 * time.Second
	defaultRetryEvery  = 100 * time.Millisecond
	defaultReleaseWait = 2 * time.Second
	defaultHandOvers   = 64
	defaultHandOverFor = 100 * time.Millisecond

	// greatestTTL keeps sums of durations far from overflow; no store needs a
	// longer lease.
	greatestTTL = 10 * 365 * 24 * time.Hour
)

// complete returns cfg with its defaults filled in, the backend's advice first.
// It checks the times against each other.
func (cfg Config) complete(b backend.Backend) (Config, error) {
	if err := cfg.validGiven(); err != nil {
		return Config{}, err
	}
	if a, ok := b.(backend.Advisor); ok {
		cfg.advise(a)
	}
	setDefault(&cfg.TTL, defaultTTL)
	setDefault(&cfg.RenewEvery, cfg.TTL/3)
	setDefault(&cfg.Margin, cfg.TTL/10)
	setDefault(&cfg.RetryEvery, defaultRetryEvery)
	setDefault(&cfg.ReleaseWait, defaultReleaseWait)
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
	if err := errors.Join(cfg.validTogether(), cfg.validKeep(b)); err != nil {
		return Config{}, err
	}
	if f, ok := b.(backend.Advisor); ok {
		if err := f.Fits(cfg.TTL, max(cfg.RenewEvery, 0), max(cfg.Margin, 0)); err != nil {
			return Config{}, fmt.Errorf("lock: %w", err)
		}
	}
	return cfg, nil
}

// advise fills in what the backend advises.
func (cfg *Config) advise(a backend.Advisor) {
	s := a.Advise(backend.Settings{TTL: cfg.TTL, RenewEvery: cfg.RenewEvery, Margin: cfg.Margin,
		RetryEvery: cfg.RetryEvery, LocalHandOvers: cfg.LocalHandOvers})
	cfg.TTL, cfg.RenewEvery, cfg.Margin = s.TTL, s.RenewEvery, s.Margin
	cfg.RetryEvery, cfg.LocalHandOvers = s.RetryEvery, s.LocalHandOvers
}

// jitter calls Config.Jitter and forces the result into its bounds. A result
// below 0 would make a renewal late.
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
		return fmt.Errorf("lock: Config.HandOverFor is %v; it must be positive; to hand nothing over set LocalHandOvers to -1", cfg.HandOverFor)
	}
	return nil
}

func (cfg Config) validTogether() error {
	margin := max(cfg.Margin, 0)
	if margin >= cfg.TTL {
		return fmt.Errorf("lock: Config.Margin (%v) must be less than Config.TTL (%v)", margin, cfg.TTL)
	}
	if cfg.RenewEvery > 0 && cfg.RenewEvery+margin >= cfg.TTL {
		return fmt.Errorf(
			"lock: Config.RenewEvery (%v) and Config.Margin (%v) together must be less than Config.TTL (%v)",
			cfg.RenewEvery, margin, cfg.TTL)
	}
	return nil
}

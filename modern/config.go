// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Config configures a Backend. Zero is right for every field.
type Config struct {
	// Fence gives every lease a fencing number. A script draws it together with
	// the key, in one round trip.
	Fence bool

	// Fair serves waiting processes in the order in which they came, by the
	// server's clock, and nobody overtakes a waiter. Every acquisition is then
	// a script, and hand-overs inside the process are off. All processes that
	// share a key must choose alike; clients of other libraries overtake.
	Fair bool

	// Namespace is part of the names of the fencing counters and of the queues
	// of waiters. With it several applications on one server do not share
	// these: gsl:fence:NAMESPACE:{TAG}, gsl:queue:NAMESPACE:{KEY} and
	// gsl:alive:NAMESPACE:{KEY}. They lie in the slot of KEY;
	// docs/guide/modern.md says how. The keys of the locks are not prefixed.
	// Any printable text is allowed; in the names of those keys "%", ":", "{"
	// and "}" are written as %25, %3A, %7B and %7D.
	Namespace string

	// Note is written after the token and a blank, for people who look at the
	// key: a host's name, a job's. It has at most 200 bytes of printable text.
	// Clients of other libraries compare the whole value, so a Note does not
	// disturb them.
	Note string

	// Name is what errors of package quorum call the server. Nothing else uses
	// it.
	Name string

	// Token makes a new token for every attempt: at least 16 bytes without a
	// blank, and is never used twice. Defaults to 128 random bits as 22
	// characters of base64url.
	Token func() string

	// Replicas is how many replicas must have acknowledged the key within
	// ReplicaWait before it counts as taken (WAIT); otherwise the key is given
	// back. It costs a replica's round trip at each acquisition. It does not
	// make a fail-over safe: the promoted replica need not be one that
	// acknowledged. Renewals and releases do not wait for replicas. The key
	// gsl:wait:NAMESPACE:{TAG} is written too.
	Replicas int

	// ReplicaWait is the longest wait for Replicas. Defaults to 100 ms. It must
	// be less than Timeout.
	ReplicaWait time.Duration

	// Wake says whether the server reports changes to waiters and holders.
	// Defaults to [lock.WakeOn]. With WakeOff a waiter polls, and no release
	// gives it the key: among clients that are called it may wait for long.
	Wake backend.Wake

	// Timeout bounds dialing and the wait for each reply, in real time. The
	// reply to a renewal is awaited for at most a quarter of the TTL. After
	// half of that time the renewal is sent once more, on a new connection.
	// Defaults to 2 s, and for every reply to a quarter of the TTL if that is
	// less.
	Timeout time.Duration

	derived bool // Timeout is the default
}

const (
	defaultTimeout     = 2 * time.Second
	defaultReplicaWait = 100 * time.Millisecond
	longestNote        = 200
	shortestToken      = 16
	longestKey         = 512 << 20 // Redis's own bound for a string
)

func (cfg Config) complete() (Config, error) {
	cfg.derived = cfg.Timeout == 0
	if cfg.derived {
		cfg.Timeout = defaultTimeout
	}
	if cfg.ReplicaWait == 0 {
		cfg.ReplicaWait = defaultReplicaWait
	}
	if cfg.Token == nil {
		cfg.Token = newToken
	}
	switch {
	case cfg.Timeout < 0:
		return cfg, fmt.Errorf("modern: Config.Timeout is %v; it must be positive", cfg.Timeout)
	case cfg.Replicas < 0:
		return cfg, fmt.Errorf("modern: Config.Replicas is %d; it must not be negative", cfg.Replicas)
	case cfg.ReplicaWait < time.Millisecond:
		return cfg,
			fmt.Errorf("modern: Config.ReplicaWait is %v; it must be at least 1ms, since zero waits for ever",
				cfg.ReplicaWait)
	case cfg.Replicas > 0 && cfg.ReplicaWait >= cfg.Timeout:
		return cfg, fmt.Errorf("modern: Config.ReplicaWait (%v) must be less than Config.Timeout (%v)",
			cfg.ReplicaWait, cfg.Timeout)
	case cfg.Wake < backend.WakeDefault || cfg.Wake > lock.WakeOff:
		return cfg, fmt.Errorf("modern: Config.Wake is %d; it must be WakeDefault, WakeOn or WakeOff",
			cfg.Wake)
	}
	if !scope.IsName(cfg.Namespace) {
		return cfg, fmt.Errorf("modern: Config.Namespace %q: only printable characters are allowed",
			cfg.Namespace)
	}
	return cfg, validNote(cfg.Note)
}

func validNote(note string) error {
	switch {
	case len(note) > longestNote:
		return fmt.Errorf("modern: Config.Note has %d bytes; at most %d are allowed", len(note), longestNote)
	case !utf8.ValidString(note):
		return errors.New("modern: Config.Note is not UTF-8")
	case strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("modern: Config.Note %q has characters that cannot be printed", note)
	}
	return nil
}

// shortestTTL leaves room for a round trip and for the server's resolution of a
// millisecond.
const shortestTTL = 10 * time.Millisecond

// Fits refuses a TTL within which no renewal can be expected to arrive, or that
// leaves no time to wait for replicas. From now on the reply to a renewal is
// awaited for at most a quarter of the TTL: a silent connection must be left
// while there is time for a renewal on another one. If Config.Timeout is the
// default, that is true of every reply.
func (b *engine) Fits(ttl, renewEvery, margin time.Duration) error {
	if err := b.cfg.fits(ttl, renewEvery, margin); err != nil {
		return err
	}
	b.shorten(ttl)
	return nil
}

func (b *engine) shorten(ttl time.Duration) {
	b.own.Shorten(ttl / 4)
	if b.cfg.derived {
		b.user.Shorten(ttl / 4)
	}
}

func (cfg Config) fits(ttl, renewEvery, margin time.Duration) error {
	if ttl < shortestTTL {
		return fmt.Errorf("modern: TTL %v is less than %v: neither a reply nor a renewal (RenewEvery is %v) is sure to arrive within it", ttl, shortestTTL, renewEvery)
	}
	if cfg.Replicas > 0 && ttl-margin <= cfg.ReplicaWait {
		return fmt.Errorf("modern: TTL %v less Margin %v must be longer than ReplicaWait %v, or the lease would end before it begins", ttl, margin, cfg.ReplicaWait)
	}
	return nil
}

// Advise switches hand-overs off in the fair form, where they would overtake
// waiters of other processes.
func (b *engine) Advise(cfg backend.Settings) backend.Settings {
	if b.cfg.Fair && cfg.LocalHandOvers == 0 {
		cfg.LocalHandOvers = -1
	}
	return cfg
}

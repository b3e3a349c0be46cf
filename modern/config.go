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
)

// Config of a Backend. Zero is right for every field.
type Config struct {
	// Fence gives every lease a fencing number, drawn together with the key in one round trip: by a
	// script, or by a transaction for a tenth of a second after one.
	Fence bool

	// Fair serves waiting processes in the order they came, by the server's clock, and reserves a
	// released key for the first of them: nobody overtakes who waits. It makes every acquisition and
	// release a script and switches hand-overs inside the process off. All processes that share a
	// key must choose alike; clients of other libraries overtake.
	Fair bool

	// Namespace names the counter of fencing numbers and the lines of waiters, so that several
	// applications on one server do not share them: gsl:fence:NAMESPACE, and gsl:queue: and
	// gsl:alive:NAMESPACE:KEY. The keys of the locks are not prefixed. Any printable text; in the names
	// of those keys "%", ":", "{" and "}" stand as %25, %3A, %7B and %7D.
	Namespace string

	// Note is put beside the token, after a blank, for people who look at the key: a host's name,
	// a job's. At most 200 bytes of printable text, and not "reserved", which is how a release marks a key
	// that nobody holds yet. Foreign clients compare it with the token as a
	// whole, so they are not disturbed.
	Note string

	// Token makes a new token for every attempt: at least 16 bytes without a blank, never used
	// before. Defaults to 128 random bits as 22 characters of base64url.
	Token func() string

	// Replicas is how many replicas must have acknowledged the key before it counts as taken (WAIT),
	// within ReplicaWait; else it is given back. It costs a replica's round trip at each acquisition,
	// and does not make a fail-over safe: a replica that acknowledged need not be the one that is
	// promoted. Renewals and releases do not wait for it, nor do hand-overs by command, which are off
	// where lock.Config.HandOvers does not ask for them. The key gsl:wait:NAMESPACE is written too.
	Replicas int

	// ReplicaWait is how long to wait for Replicas. Defaults to 100 ms. It must be less than Timeout.
	ReplicaWait time.Duration

	// Wake says whether the server tells waiters and holders of changes. Defaults to [lock.WakeOn].
	Wake lock.Wake

	// Timeout bounds dialing and the wait for each reply, in real time. A renewal without a reply after half of it is
	// sent once more, on a new connection. Defaults to 2 s.
	Timeout time.Duration
}

const (
	defaultTimeout     = 2 * time.Second
	defaultReplicaWait = 100 * time.Millisecond
	longestNote        = 200
	shortestToken      = 16
	longestKey         = 512 << 20 // Redis's own bound for a string
)

func (cfg Config) complete() (Config, error) {
	if cfg.Timeout == 0 {
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
		return cfg, fmt.Errorf("modern: Config.ReplicaWait is %v; it must be at least 1ms, since zero waits for ever", cfg.ReplicaWait)
	case cfg.Replicas > 0 && cfg.ReplicaWait >= cfg.Timeout:
		return cfg, fmt.Errorf("modern: Config.ReplicaWait (%v) must be less than Config.Timeout (%v)", cfg.ReplicaWait, cfg.Timeout)
	case cfg.Wake < lock.WakeDefault || cfg.Wake > lock.WakeOff:
		return cfg, fmt.Errorf("modern: Config.Wake is %d; it must be WakeDefault, WakeOn or WakeOff", cfg.Wake)
	}
	if !scope.IsName(cfg.Namespace) {
		return cfg, fmt.Errorf("modern: Config.Namespace %q: only printable characters are allowed", cfg.Namespace)
	}
	return cfg, validNote(cfg.Note)
}

func validNote(note string) error {
	switch {
	case len(note) > longestNote:
		return fmt.Errorf("modern: Config.Note has %d bytes; at most %d are allowed", len(note), longestNote)
	case note == reservedNote:
		return fmt.Errorf("modern: Config.Note is %q, which marks keys that nobody holds", note)
	case !utf8.ValidString(note):
		return errors.New("modern: Config.Note is not UTF-8")
	case strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("modern: Config.Note %q has characters that cannot be printed", note)
	}
	return nil
}

// shortestTTL leaves room for a round trip and for the server's resolution of a millisecond.
const shortestTTL = 10 * time.Millisecond

// Fits refuses a TTL within which no renewal can be expected to arrive.
func (b *Backend) Fits(ttl, renewEvery, margin time.Duration) error {
	if ttl < shortestTTL {
		return fmt.Errorf("modern: TTL %v is less than %v: neither a reply nor a renewal (RenewEvery is %v) can be relied on to come within it", ttl, shortestTTL, renewEvery)
	}
	if b.cfg.Replicas > 0 && ttl-margin <= b.cfg.ReplicaWait {
		return fmt.Errorf("modern: TTL %v less Margin %v must be longer than ReplicaWait %v, or the lease is over before it begins", ttl, margin, b.cfg.ReplicaWait)
	}
	return nil
}

// Tune switches hand-overs off in the fair form: they overtake who waits in other processes. And those by
// command where replicas are to have a key: they put a token on it of which no replica would be asked.
func (b *Backend) Tune(cfg lock.Config) lock.Config {
	if (b.cfg.Fair || b.cfg.Replicas > 0) && cfg.HandOvers == 0 {
		cfg.HandOvers = -1
	}
	if b.cfg.Fair && cfg.LocalHandOvers == 0 {
		cfg.LocalHandOvers = -1
	}
	return cfg
}

var _ lock.Tuned = (*Backend)(nil)

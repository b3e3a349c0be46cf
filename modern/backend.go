package modern

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/tally"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// Backend takes token locks on one Redis or Valkey server. It is a
// [lock.Backend] with batched renewal, hand-over, wake-ups and a queue of
// waiters.
type Backend struct {
	cfg      Config
	user     *wire.Mux     // connection for attempts, releases and looks
	own      *wire.Mux     // connection for renewals, apart from user traffic, and for watches
	patient  *wire.Mux     // connection for WAIT, which delays all commands sent after it
	rounds   rounds        // replies to WAIT, shared between callers
	native   native        // what the server can do, as far as it was tried
	habits   habits        // what other clients did to keys of this Backend
	notices  *wire.Notices // calls of this process's places in the queue
	wakes    sync.Mutex    // guards the wake func of every place
	process  string        // name of this Backend in the channel of its notices
	suffix   string        // text after every token: a blank and the note, or nothing
	fence    any           // key of the fencing counter, a string that is boxed once
	trial    any           // key for trying commands; no client writes it
	numbered tally.Taker   // takes keys with fencing numbers
	stats    stats
	seats    seats // as a member of a quorum
}

type stats struct {
	unsure, replicasMissing atomic.Uint64
}

// New returns a Backend on the server that pool dials. It uses only the pool's
// Dial hooks. The Backend has few connections of its own, on which the commands
// of all goroutines travel together. So neither MaxActive nor Close of the pool
// affects them. Nothing is sent until the first call.
func New(pool *redis.Pool, cfg Config) (*Backend, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	b := &Backend{cfg: cfg, fence: "gsl:fence:" + scope.InName(cfg.Namespace),
		trial: "gsl:trial:" + scope.InName(cfg.Namespace), process: newToken()}
	b.seats.init()
	if cfg.Note != "" {
		b.suffix = " " + cfg.Note
	}
	// A new connection may lead to another server at the same address. So most
	// of what is known about the server is found out again then.
	opts := wire.Options{Timeout: cfg.Timeout, Group: new(wire.Group), Lost: func(error) { b.forget() }}
	if b.user, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	if b.own, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	if b.patient, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	b.numbered = tally.NewCounted(b.user, b.fence, b.acquireByScript, refuses)
	b.notices = b.own.Notices("gsl:turn:" + b.process)
	return b, nil
}

// forget drops what is known about the server, so that it is found out again.
func (b *Backend) forget() {
	b.native.forget()
	b.notices.Anew()
	b.numbered.Forget()
}

// Close ends the connections and joins every goroutine. Keys that are still
// held free themselves.
func (b *Backend) Close() error {
	b.notices.Close()
	err := errors.Join(b.user.Close(), b.own.Close(), b.patient.Close())
	b.rounds.close()
	return err
}

// Timeout is the longest wait of a Release or Pass for one reply. They need a
// second reply if the first says that the key is lost, or if the server refuses
// a command that it used to accept.
func (b *Backend) Timeout() time.Duration { return b.cfg.Timeout }

// Try makes one attempt: one command when the key is free. It returns:
//
//   - a grant: the key is taken.
//   - a [*lock.HeldError]: another client has the key.
//   - a [*lock.UnsureError]: the key may have been taken, or too few replicas
//     have acknowledged it. Its grant undoes that.
//   - another error: nothing was taken.
func (b *Backend) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	if err := valid(key, ttl); err != nil {
		return nil, err
	}
	g, err := b.newGrant(key)
	if err != nil {
		return nil, err
	}
	g.written(lock.Term{Sent: lock.Mark(ctx), TTL: ttl})
	held, err := b.take(ctx, g, ttl)
	switch {
	case err != nil:
		return nil, b.attempted(g, err)
	case held != nil:
		return nil, held
	}
	return b.granted(ctx, g)
}

// granted ends an attempt that took the key. With Config.Replicas it waits for
// the replicas; without enough of them the error is an UnsureError.
func (b *Backend) granted(ctx context.Context, g *grant) (lock.Grant, error) {
	if b.cfg.Replicas > 0 {
		if err := b.replicated(ctx, g); err != nil {
			// The Client releases the grant, in the background.
			return nil, &lock.UnsureError{Grant: g, Err: err}
		}
	}
	return g, nil
}

// take sends the command that takes the key. It returns:
//
//   - nil and nil: the key is taken.
//   - held: the error that names the key's holder.
//   - err: why the command failed. The key may have been taken all the same;
//     see attempted.
func (b *Backend) take(ctx context.Context, g *grant, ttl time.Duration) (held, err error) {
	switch {
	case b.cfg.Fair:
		refusal, err := b.takeInLine(ctx, g, b.member(g, false), ttl, tries)
		if refusal != nil {
			return refusal.held, nil
		}
		return nil, err
	case b.cfg.Fence:
		taken, err := b.acquire(ctx, g, ttl)
		if err != nil || taken {
			return nil, err
		}
	default:
		reply, err := b.user.Do(ctx, "SET", g.key, g.token, "NX", "PX", millis(ttl))
		if err != nil || reply != nil {
			return nil, err
		}
	}
	return b.held(ctx, g.key), nil
}

// attempted wraps the error of an attempt. If the key may have been taken all
// the same, the result is an UnsureError.
func (b *Backend) attempted(g *grant, err error) error {
	var taken *lock.UnsureError
	if errors.As(err, &taken) {
		return err
	}
	err = trouble("take", g.key, err)
	var unknown *wire.UnknownError
	if errors.As(err, &unknown) {
		b.stats.unsure.Add(1)
		g.unsure(unknown.Pending)
		return &lock.UnsureError{Grant: g, Err: err}
	}
	return err
}

// valid refuses what Redis cannot express.
func valid(key string, ttl time.Duration) error {
	switch {
	case key == "":
		return errors.New("modern: key is empty")
	case names.OwnNoProbe(key) != nil:
		return fmt.Errorf("modern: %w", names.OwnNoProbe(key))
	case len(key) > longestKey:
		return fmt.Errorf("modern: key has %d bytes; Redis allows %d", len(key), longestKey)
	case ttl < time.Millisecond:
		return fmt.Errorf("modern: key %q: TTL is %v; it must be at least 1ms", key, ttl)
	case ttl > longestTTL:
		return fmt.Errorf("modern: key %q: TTL is %v; it must not exceed %v", key, ttl, longestTTL)
	}
	return nil
}

// longestTTL keeps the server's sum of its clock and a TTL far from overflow.
const longestTTL = 100 * 365 * 24 * time.Hour

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// newGrant returns a grant of key with a new token, which holds nothing yet.
func (b *Backend) newGrant(key string) (*grant, error) {
	token := b.cfg.Token()
	// Scripts cut the token at a blank.
	if len(token) < shortestToken || strings.ContainsFunc(token, unicode.IsSpace) {
		return nil,
			fmt.Errorf(
				"modern: Config.Token made %q; a token has at least %d bytes and no blank, tab or line end", token, shortestToken)
	}
	return &grant{b: b, key: key, token: token + b.suffix}, nil
}

// newToken draws 128 bits: 22 characters of base64url. Every attempt and
// hand-over gets a new token, so that no delayed command can affect another
// grant.
func newToken() string {
	var raw [16]byte
	rand.Read(raw[:]) // never fails
	var text [22]byte
	base64.RawURLEncoding.Encode(text[:], raw[:])
	return string(text[:])
}

// trouble adds what was tried, and on which key, to err.
func trouble(what, key string, err error) error {
	return fmt.Errorf("modern: could not %s key %q: %w", what, key, wire.Judged(err))
}

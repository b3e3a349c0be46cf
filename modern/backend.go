// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Backend is a server for token locks, Redis or Valkey, or a cluster of them,
// as a program opened it. [lock.New] makes a Client of it, and quorum.New a
// member of a quorum. Leases are renewed in batches, and waiters are woken and
// queue on the server.
type Backend struct {
	name   string
	engine contract
}

// contract is what a Backend calls: an engine, or a cluster of them.
type contract interface {
	backend.Backend
	io.Closer

	Inspect(ctx context.Context, key string) (Info, error)
	ForceRelease(ctx context.Context, key, value string) (bool, error)
	counts() Stats
}

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// String returns Config.Name.
func (b *Backend) String() string { return b.name }

// Inspect looks at a key and takes nothing.
func (b *Backend) Inspect(ctx context.Context, key string) (Info, error) {
	return b.engine.Inspect(ctx, key)
}

// ForceRelease gives the key up if its value is exactly value, also if a client
// holds it: the first waiter gets it, or it is deleted. It reports whether the
// key had that value. It does not ask the holder. If the holder is a getsetlock
// client, its lease ends at once where the server reports changes, else at its
// next renewal.
func (b *Backend) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	return b.engine.ForceRelease(ctx, key, value)
}

// Stats returns the counts of events since New.
func (b *Backend) Stats() Stats { return b.engine.counts() }

// Close ends the connections and joins every goroutine. Keys that are still
// held free themselves. A [lock.Client] closes its Backend.
func (b *Backend) Close() error { return b.engine.Close() }

// engine is the contract of a Backend on one server.
type engine struct {
	cfg     Config
	user    *wire.Mux     // connection for attempts, releases and looks
	own     *wire.Mux     // connection for renewals, apart from user traffic, and for watches
	patient *wire.Mux     // connection for WAIT, which delays all commands sent after it
	rounds  rounds        // replies to WAIT, shared between callers
	native  native        // what the server can do, as far as it was tried
	habits  habits        // what other clients did to keys of this Backend
	notices *wire.Notices // calls of this process's places in the queue
	waits   *waits        // those places
	cluster *fleet        // the cluster in which the server is a node, or nil
	process string        // name of this Backend in the channel of its notices
	suffix  string        // text after every token: a blank and the note, or nothing
	fence   string        // beginnings of the names of a lock's own keys: the counter of
	order   string        // fencing numbers of its slot, and the two keys of its queue
	alive   string
	stats   stats
	admit   func(redis.Conn) error // as a member of a quorum: what asks who answers
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
	b, err := newEngine(pool, cfg, &waits{places: make(map[string]*place)}, nil)
	if err != nil {
		return nil, err
	}
	return &Backend{cfg.Name, b}, nil
}

// newEngine is New for a Config that is complete. The nodes of a cluster share
// their waits.
func newEngine(pool *redis.Pool, cfg Config, w *waits, of *fleet) (b *engine, err error) {
	namespace := scope.InName(cfg.Namespace)
	b = &engine{cfg: cfg, process: newToken(), waits: w, cluster: of, fence: "gsl:fence:" + namespace + ":",
		order: "gsl:queue:" + namespace + ":", alive: "gsl:alive:" + namespace + ":"}
	if cfg.Note != "" {
		b.suffix = " " + cfg.Note
	}
	// A new connection may lead to another server at the same address. So most
	// of what is known about the server is found out again then.
	opts := wire.Options{Timeout: cfg.Timeout, Setup: b.admitted, Lost: func(error) { b.forget() }}
	if b.user, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	if b.own, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	if b.patient, err = wire.New(pool, opts); err != nil {
		return nil, fmt.Errorf("modern: %w", err)
	}
	b.notices = b.own.Notices("gsl:turn:"+b.process, wire.Ears{
		Told: b.told, Missed: b.waits.missed, Wanted: b.waits.any})
	return b, nil
}

func (b *engine) counts() Stats {
	return Stats{Unsure: b.stats.unsure.Load(), ReplicasMissing: b.stats.replicasMissing.Load()}
}

// forget drops what is known about the server, so that it is found out again.
func (b *engine) forget() {
	b.native.forget()
	b.notices.Anew()
}

var (
	_ backend.Store         = (*Backend)(nil)
	_ backend.Backend       = (*engine)(nil)
	_ backend.BatchExtender = (*engine)(nil)
	_ backend.Queuer        = (*engine)(nil)
	_ backend.Waker         = (*engine)(nil)
	_ backend.Keeper        = (*engine)(nil)
	_ backend.Advisor       = (*engine)(nil)
	_ backend.Inspector     = (*engine)(nil)
	_ io.Closer             = (*engine)(nil)
	_ backend.Sharer        = (*grant)(nil)
	_ backend.Fenced        = (*grant)(nil)
)

// Close is that of the Backend.
func (b *engine) Close() error {
	err := b.own.Close() // no more gifts come
	b.waits.close()
	err = errors.Join(err, b.user.Close(), b.patient.Close())
	b.rounds.close()
	return err
}

// Timeout is the longest wait of a Release for one reply. It needs a second one
// if the first says that the key is lost, or if the server refuses a script
// that it used to accept.
func (b *engine) Timeout() time.Duration { return b.user.Timeout() }

// Try makes one attempt: one command when the key is free. It returns:
//
//   - a grant: the key is taken.
//   - a [*backend.HeldError]: another client has the key.
//   - a [*backend.UnsureError]: the key may have been taken, or too few
//     replicas have acknowledged it. Its grant undoes that.
//   - another error: nothing was taken.
func (b *engine) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, bare, err := b.attempt(ctx, key, ttl)
	if bare {
		err = b.held(ctx, key)
	}
	return g, err
}

// First is Try, but its HeldError may not say who has the key.
func (b *engine) First(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, _, err := b.attempt(ctx, key, ttl)
	return g, err
}

// attempt is First. bare says that the HeldError does not say who has the key.
func (b *engine) attempt(ctx context.Context, key string, ttl time.Duration) (granted backend.Grant,
	bare bool,
	err error) {
	if err := valid(key, ttl); err != nil {
		return nil, false, err
	}
	g, err := b.newGrant(key)
	if err != nil {
		return nil, false, err
	}
	g.written(backend.Term{Sent: backend.ReadClock(ctx), TTL: ttl})
	held, err := b.take(ctx, g, ttl)
	switch {
	case err != nil:
		return nil, false, b.attempted(g, err)
	case held != nil:
		return nil, held.Owner == "" && held.Protocol == "", held
	}
	granted, err = b.granted(ctx, g)
	return granted, false, err
}

// granted ends an attempt that took the key. With Config.Replicas it waits for
// the replicas; without enough of them the error is an UnsureError.
func (b *engine) granted(ctx context.Context, g *grant) (backend.Grant, error) {
	if b.cfg.Replicas > 0 {
		if err := b.replicated(ctx, g); err != nil {
			// The Client releases the grant, in the background.
			return nil, &backend.UnsureError{Grant: g, Err: err}
		}
	}
	return g, nil
}

// take sends the command that takes the key. It returns:
//
//   - nil and nil: the key is taken.
//   - held: the key is held; only the fair form names the holder.
//   - err: why the command failed. The key may have been taken all the same;
//     see attempted.
func (b *engine) take(ctx context.Context, g *grant, ttl time.Duration) (held *backend.HeldError,
	err error) {
	taken, number := false, int64(0)
	switch {
	case b.cfg.Fair:
		var refusal *refusal
		number, refusal, err = b.takeInLine(ctx, g, b.member(g, false, ttl), ttl, tries)
		if refusal != nil {
			return refusal.held, nil
		}
		taken = true
	case b.cfg.Fence:
		var reply any
		reply, err = b.drawn(ctx, acquireScript, g.key, b.counter(g.key), g.token, millis(ttl), fenceBlock)
		number, _ = reply.(int64)
		taken = number > 0
	default:
		var reply any
		reply, err = b.user.Do(ctx, "SET", g.key, g.token, "NX", "PX", millis(ttl))
		taken = reply != nil
	}
	switch {
	case err != nil:
		return nil, err
	case !taken:
		return &backend.HeldError{Key: g.key}, nil
	case b.cfg.Fence:
		g.numbered(number)
	}
	return nil, nil
}

// attempted wraps the error of an attempt. If the key may have been taken all
// the same, the result is an UnsureError.
func (b *engine) attempted(g *grant, err error) error {
	var taken *backend.UnsureError
	if errors.As(err, &taken) {
		return err
	}
	err = trouble("take", g.key, err)
	var unknown *wire.UnknownError
	if errors.As(err, &unknown) {
		b.stats.unsure.Add(1)
		g.unsure(unknown.Pending)
		return &backend.UnsureError{Grant: g, Err: err}
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
func (b *engine) newGrant(key string) (*grant, error) {
	token := b.cfg.Token()
	// Scripts cut the token at a blank.
	if len(token) < shortestToken || strings.ContainsFunc(token, unicode.IsSpace) {
		return nil,
			fmt.Errorf(
				"modern: Config.Token made %q; a token has at least %d bytes and no blank, tab or line end", token, shortestToken)
	}
	return &grant{b: b, key: key, token: token + b.suffix}, nil
}

// newToken draws 128 bits: 22 characters of base64url. Every attempt gets a new
// token, so that no delayed command can affect another grant.
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

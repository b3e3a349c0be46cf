// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/getsetlock/getsetlock/internal/sessions"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// LeastTTL is the shortest TTL. etcd makes shorter leases longer, by its
// election timeout.
const LeastTTL = 2 * time.Second

// longestTTL is etcd's own bound of a lease.
const longestTTL = 9_000_000_000 * time.Second

// defaultTimeout is that of Config.
const defaultTimeout = 5 * time.Second

// Config holds the choices of a Backend. The zero Config is right for most
// programs.
type Config struct {
	// Note follows the nonce in the value of each key, for people who look at
	// keys: a host's name, for example.
	Note string

	// Timeout is the longest wait for one reply. Defaults to 5 s.
	Timeout time.Duration

	// Clock makes the pauses between the Backend's own renewals. Times of
	// leases are read from the clock of the lock.Client. Defaults to
	// [lock.Machine].
	Clock lock.Clock

	// Logger gets a warning for each server whose version may grant a lock
	// twice, or is too old. Defaults to that of Options.Lock in [Open], and to
	// slog.Default.
	Logger *slog.Logger
}

// Backend is an etcd cluster for locks, as a program opened it. [lock.New]
// makes a Client of it. Waiters stand in etcd's own queue.
type Backend struct{ engine *engine }

// Contract returns what [lock.New] calls.
func (b *Backend) Contract() backend.Backend { return b.engine }

// Held returns a comparison for a transaction of your own. It is true while the
// lock that was acquired with this fencing number is held, and false for ever
// after:
//
//	fence, _ := lease.Fence()
//	client.Txn(ctx).If(backend.Held(fence)).Then(clientv3.OpPut("stock", "41")).Commit()
//
// For a number of no lock that this Backend holds, it is never true.
func (b *Backend) Held(fence int64) clientv3.Cmp { return b.engine.isHeld(fence) }

// Close revokes the sessions without held locks, ends every watch, and joins
// every goroutine. Locks that are still held free themselves after their TTL,
// since their holders may still be at work. A [lock.Client] closes its Backend.
func (b *Backend) Close() error { return b.engine.Close() }

var (
	_ backend.Store         = (*Backend)(nil)
	_ backend.Backend       = (*engine)(nil)
	_ backend.BatchExtender = (*engine)(nil)
	_ backend.Queuer        = (*engine)(nil)
	_ backend.Waker         = (*engine)(nil)
	_ backend.Advisor       = (*engine)(nil)
	_ backend.Inspector     = (*engine)(nil)
	_ io.Closer             = (*engine)(nil)
	_ backend.Place         = (*place)(nil)
	_ backend.Fenced        = (*grant)(nil)
)

// engine is the contract of a Backend.
type engine struct {
	sessions.Pool[*session] // its Work: keepers, watches, and helpers

	client  *clientv3.Client
	owned   bool // Close closes the client
	watcher watcher
	signs   signs
	cfg     Config
	next    chan func()    // commands for helpers that wait
	spare   chan struct{}  // one for each helper that waits
	refused sessions.Names // at which the last attempt was refused

	// Guarded by the Pool's mutex.
	full   bool // etcd refused a key, since its database is full
	named  bool // the servers' versions were asked for
	modern bool // a server is new enough
}

// New returns a Backend that uses client. The Backend never closes client, and
// has watches of its own. Nothing is sent until the first call.
func New(client *clientv3.Client, cfg Config) (*Backend, error) {
	switch {
	case client == nil:
		return nil, errors.New("etcd: the client is nil")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("etcd: Config.Timeout is %v; it must be positive", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Clock == nil {
		cfg.Clock = lock.Machine
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	b := &engine{
		client: client, cfg: cfg,
		next: make(chan func()), spare: make(chan struct{}, mostSpare),
	}
	b.Begin()
	b.signs.b = b
	b.watcher = watcher{b: b, watches: map[int64]*watch{}, more: make(chan struct{}, 1)}
	return &Backend{b}, nil
}

// Close is that of the Backend.
func (b *engine) Close() error {
	err := b.End((*session).close)
	if b.owned {
		err = errors.Join(err, b.client.Close())
	}
	return err
}

// Advise leaves every field to package lock: its defaults suit etcd.
func (b *engine) Advise(cfg backend.Settings) backend.Settings { return cfg }

// Fits refuses a TTL below [LeastTTL].
func (b *engine) Fits(ttl, _, _ time.Duration) error { return fits(ttl) }

func fits(ttl time.Duration) error {
	switch {
	case ttl < LeastTTL:
		return fmt.Errorf("etcd: Config.TTL is %v; an etcd lease lasts at least %v", ttl, LeastTTL)
	case ttl > longestTTL:
		return fmt.Errorf("etcd: Config.TTL is %v; an etcd lease lasts at most %v", ttl, longestTTL)
	}
	return nil
}

// Timeout says nothing: a Release may have to wait for a new leader.
func (b *engine) Timeout() time.Duration { return 0 }

// valid refuses names and TTLs that make no lock.
func valid(name string, ttl time.Duration) error {
	switch {
	case name == "":
		return errors.New("etcd: the name is empty")
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf(
			"etcd: the name %q ends with a slash; it would share its keys with %q: leave the slash out", name,
			strings.TrimRight(name, "/"))
	}
	return fits(ttl)
}

// Try makes one attempt. If the name was held at the last attempt, a read goes
// first, which costs etcd no write. It returns:
//
//   - a grant: the lock is taken.
//   - a [*backend.HeldError]: another key stands under the name.
//   - a [*backend.UnsureError]: the reply was lost. Its grant undoes what may
//     have been done, and so does the Backend by itself.
//   - another error: nothing was taken.
func (b *engine) Try(ctx context.Context, name string, ttl time.Duration) (backend.Grant, error) {
	if err := valid(name, ttl); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if b.looksFirst(name) {
		if err := b.look(ctx, name); err != nil {
			return nil, err
		}
	}
	return sessions.Retried(tooShort, func() (backend.Grant, error) {
		s, err := b.session(ctx, name, ttl)
		if err != nil {
			return nil, trouble("take", name, err)
		}
		return s.take(ctx, name, ttl)
	})
}

// tooShort is the error of an attempt that found three sessions over.
const tooShort = "etcd: three new leases in a row ended before they could be used: the TTL is too short, or etcd answers too late"

// looksFirst reports whether an attempt at name begins with a read.
func (b *engine) looksFirst(name string) bool {
	b.Lock()
	full := b.full
	b.Unlock()
	return full || b.refused.Has(name)
}

// look returns a HeldError if any key stands under the name.
func (b *engine) look(ctx context.Context, name string) error {
	call, cancel := b.call(ctx)
	defer cancel()
	prefix := name + "/"
	got, err := b.client.Get(call, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithKeysOnly())
	if err != nil {
		return trouble("look at", name, err)
	}
	if len(got.Kvs) > 0 {
		return held(name, "", string(got.Kvs[0].Key))
	}
	return nil
}

// held returns the error of a refused attempt. owner is the key that holds the
// lock, empty if unknown; seen is any key under the name.
func held(name, owner, seen string) *backend.HeldError {
	e := &backend.HeldError{Key: name, Owner: strings.TrimPrefix(owner, name+"/"), Protocol: "etcd"}
	switch rest := strings.TrimPrefix(seen, name+"/"); {
	case !ofLock(rest) && !strings.Contains(rest, "/"):
		e.Protocol = fmt.Sprintf(
			"etcd, through the key %q, which no lock has written: delete it, or choose another name", seen)
	case strings.Contains(rest, "/"):
		longer := seen[:strings.LastIndex(seen, "/")]
		e.Protocol = fmt.Sprintf(
			"etcd, through the name %q, of which %q is a path prefix: rename one of them",
			longer, name)
	}
	return e
}

// ofLock reports whether a lock may have written a key that ends so: with the
// number of its lease, in hexadecimal. getsetlock may add a dot and a number.
func ofLock(end string) bool {
	number, _, _ := strings.Cut(end, ".")
	id, err := strconv.ParseInt(number, 16, 64)
	return err == nil && number == strconv.FormatInt(id, 16)
}

// call bounds one call by Config.Timeout. A member that has no leader refuses
// the call at once.
func (b *engine) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return b.within(ctx, b.cfg.Timeout)
}

// within is call with another bound, if that is less.
func (b *engine) within(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), min(most, b.cfg.Timeout))
	return undated{bounded}, cancel
}

// undated hides the deadline of a context, which ends all the same. gRPC would
// send the deadline in a header and keep a timer on the server, which takes 3 %
// of the time of an acquisition. The server does not need it: what was proposed
// to Raft is not taken back.
type undated struct{ context.Context }

func (undated) Deadline() (at time.Time, ok bool) { return time.Time{}, false }

// mostSpare is how many goroutines wait for the next command.
const mostSpare = 8

// start carries do out on another goroutine, if possible on one whose stack has
// grown already. Called with b locked, before Close.
func (b *engine) start(do func()) {
	select {
	case b.next <- do:
	default:
		b.Work.Go(func() { b.helper(do) })
	}
}

// helper carries do out, and then what start gives it.
func (b *engine) helper(do func()) {
	for {
		do()
		select {
		case b.spare <- struct{}{}:
		default:
			return
		}
		select {
		case do = <-b.next:
			<-b.spare
		case <-b.Life.Done():
			return
		}
	}
}

// isHeld is Held of the Backend.
func (b *engine) isHeld(fence int64) clientv3.Cmp {
	b.Lock()
	defer b.Unlock()
	for _, s := range b.All() {
		if key := s.keyOf(fence); key != "" {
			return clientv3.Compare(clientv3.CreateRevision(key), "=", fence)
		}
	}
	return clientv3.Compare(clientv3.Version("getsetlock"), "<", 0) // no version is negative
}

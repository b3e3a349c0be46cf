// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Client takes leases through one Backend. Its methods are safe for concurrent
// use.
type Client struct {
	core  *core
	cfg   Config
	given given
}

// given records which fields the caller set itself, as opposed to those that
// were derived from other fields.
type given struct{ renewEvery, margin bool }

// core is the state that a Client shares with the Clients made from it by With.
type core struct {
	store
	lifetime
	keeper  keeper
	sched   *scheduler
	renewer *workers // renewals
	watches watches  // watches of held keys
	janitor *workers // releases and undos in the background
	hooks   teller   // of all Clients on the Backend
	refused sparing  // limits the log lines about failed renewals
	stuck   sparing  // limits the log lines about keys that were not given back
	undos   undos

	mu      sync.Mutex // guards queues, and lifetime from live to closed
	queues  map[string]*queue
	tickets sync.Pool // *ticket

	answered atomic.Bool // the store has answered this Client
}

// store is a Backend and what it can do besides.
type store struct {
	backend backend.Backend
	waker   backend.Waker         // nil: waiters poll
	pacer   backend.Pacer         // nil: the Client's own pace
	queuer  backend.Queuer        // nil: no queue on the store
	batch   backend.BatchExtender // nil: one message for each renewal
	prompt  time.Duration         // longest time that a Release of the backend takes; 0: unknown
}

func newStore(b backend.Backend) store {
	s := store{backend: b}
	s.waker, _ = b.(backend.Waker)
	s.pacer, _ = b.(backend.Pacer)
	s.queuer, _ = b.(backend.Queuer)
	s.batch, _ = b.(backend.BatchExtender)
	if p, ok := b.(backend.Advisor); ok {
		s.prompt = p.Timeout()
	}
	return s
}

// lifetime is what Close waits for, and what it ends.
type lifetime struct {
	live   int           // leases and attempts under way
	idle   chan struct{} // made by Close; closed when live next falls to 0
	rested bool          // idle was closed
	closed bool

	closing  chan struct{} // closed by Close; ends all waiting for the store
	hurry    atomic.Bool   // set when Close's context ended: nothing new begins
	ending   sync.Once     // the first Close that gets there starts finish
	finished chan struct{} // closed when nothing of the Client runs any more
	failed   error         // error of the backend's Close; read it after finished is closed

	life context.Context    // context of calls in the background
	die  context.CancelFunc // ends life; called by Close
}

// New returns a Client on an opened backend, such as a *modern.Backend. If
// times do not fit each other, or do not fit the backend, the error names both
// fields. From here on the backend belongs to the Client: New refuses a second
// Client on it until the first was closed.
func New(s backend.Store, cfg Config) (*Client, error) {
	b, err := own(s)
	if err != nil {
		return nil, err
	}
	asked := given{cfg.RenewEvery != 0, cfg.Margin != 0}
	if cfg, err = cfg.complete(b); err != nil {
		disown(b)
		return nil, err
	}
	k := &core{
		store:   newStore(b),
		keeper:  newKeeper(cfg.Clock),
		renewer: newWorkers(4),
		watches: watches{workers: newWorkers(4)},
		janitor: newWorkers(undoTogether),
		hooks:   teller{log: loud(cfg.Logger)},
		refused: sparing{most: 1},
		stuck:   sparing{most: 16},
		queues:  make(map[string]*queue),
	}
	k.closing, k.finished = make(chan struct{}), make(chan struct{})
	k.life, k.die = context.WithCancel(context.Background())
	k.sched = newScheduler(&k.keeper, cfg.Logger, k.serve)
	return &Client{core: k, cfg: cfg, given: asked}, nil
}

// With returns a Client with a changed Config that shares everything else with
// c: the queues of local waiters, renewals, connections. change sees c's Config
// with its defaults filled in. If change sets another TTL, RenewEvery and
// Margin are derived from it again unless the caller had set them. A value that
// the caller set stays, and With returns an error if it does not fit. The Clock
// cannot be changed. If Go cannot compare two clocks of one type, With keeps
// the first.
func (c *Client) With(change func(*Config)) (*Client, error) {
	cfg := c.cfg
	change(&cfg)
	if !sameClock(cfg.Clock, c.cfg.Clock) {
		return nil, errors.New("lock: With: Config.Clock cannot be changed; make another Client with New")
	}
	cfg.Clock = c.cfg.Clock
	asked := given{
		c.given.renewEvery || cfg.RenewEvery != c.cfg.RenewEvery,
		c.given.margin || cfg.Margin != c.cfg.Margin,
	}
	if cfg.TTL != c.cfg.TTL {
		if !asked.renewEvery {
			cfg.RenewEvery = 0
		}
		if !asked.margin {
			cfg.Margin = 0
		}
	}
	asked.renewEvery, asked.margin = asked.renewEvery && cfg.RenewEvery != 0, asked.margin && cfg.Margin != 0
	cfg, err := cfg.complete(c.core.backend)
	if err != nil {
		return nil, err
	}
	return &Client{core: c.core, cfg: cfg, given: asked}, nil
}

// sameClock compares two clocks that Go may not be able to compare.
func sameClock(a, b Clock) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() {
		return false
	}
	return !x.Comparable() || !y.Comparable() || x.Equal(y)
}

// TryAcquire makes one attempt. It waits neither for the key nor for goroutines
// of this process that wait for the key.
func (c *Client) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	return c.acquire(ctx, key, true)
}

// Acquire takes key and waits for it at most [Config.Wait]. If the store does
// not answer, Acquire returns a tenth of a second after the end of the wait. It
// undoes in the background what it may have sent. Only an attempt that has
// taken the key may end later: its backend may have to wait before the key
// counts as granted.
//
// The context bounds the wait only. The lease lives on when the context ends,
// until it is released. If the context has ended when the store grants the key,
// Acquire undoes the grant and returns the context's cause.
//
// The error is one of:
//
//   - [ErrHeld]: a single attempt found the key held.
//   - [ErrWaitEnded].
//   - The cause of the context.
//   - The store's trouble.
//
// Trouble that may pass, such as a lost connection or a server that is loading,
// is retried until the wait ends. If nothing bounds the wait and the store has
// never answered this Client, Acquire retries for 10 s. Trouble that waiting
// cannot mend, such as a wrong password, ends Acquire at once.
func (c *Client) Acquire(ctx context.Context, key string) (*Lease, error) {
	// A backend with a pace of its own sleeps even after a single attempt; see
	// Pacer.
	return c.acquire(ctx, key, c.cfg.Wait < 0 && c.core.pacer == nil)
}

func (c *Client) acquire(ctx context.Context, key string, once bool) (*Lease, error) {
	if key == "" {
		return nil, errors.New("lock: key is empty")
	}
	if err := names.Own(key); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock: key %q: %w", key, context.Cause(ctx))
	}
	if heldBy(ctx, c.core, key) != nil {
		return nil, fmt.Errorf("lock: key %q: %w", key, ErrNested)
	}
	a := attempt{client: c, core: c.core, key: key, once: once}
	if c.cfg.Wait > 0 || c.core.pacer != nil || c.cfg.Hooks.Acquired != nil {
		a.began = c.core.keeper.nowReading()
	}
	lease, err := a.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return lease, nil
}

// Do runs fn while it holds key, and gives the key back when fn returns or
// panics. fn gets a child of ctx that also ends with the lease. If fn goes on
// after the end of that context, it keeps the key.
//
// The error is fn's, joined with what went wrong with the lease. If [ErrLost]
// is in it, another holder may have had the key while fn ran. The end of ctx
// adds nothing to the error.
//
// A Do on the same key with fn's context joins the lease, on whatever
// goroutine, and counts as part of fn until fn returns. After fn has returned,
// such a Do acquires the key anew.
func (c *Client) Do(ctx context.Context, key string, fn func(context.Context) error) (err error) {
	if l := heldBy(ctx, c.core, key); l != nil {
		err := fn(l.Context(ctx))
		if ended := l.Err(); ended != nil && !errors.Is(err, ended) {
			err = errors.Join(err, fmt.Errorf(
				"lock: key %q: the lease that Do joined ended before its func: %w", key, ended))
		}
		return err
	}
	l, err := c.Acquire(ctx, key)
	if err != nil {
		return err
	}
	defer func() {
		released := l.Release()
		if errors.Is(released, ErrLost) && errors.Is(err, l.Err()) {
			released = nil // fn has reported the loss already
		}
		if released != nil {
			err = errors.Join(err, released)
		}
	}()
	return fn(l.Context(ctx))
}

// Result is what Request delivers.
type Result struct {
	Lease *Lease
	Err   error
}

// Request acquires key in the background and delivers one Result, for select
// loops. ctx governs until the Result is received: if ctx ends before that, the
// lease is given back and the channel delivers the error. If a lease is not
// received within one TTL, Request gives it back and queues again. The channel
// is closed after the one Result.
func (c *Client) Request(ctx context.Context, key string) <-chan Result {
	// Capacity 1: an error that nobody receives blocks neither a goroutine nor
	// Close.
	out := make(chan Result, 1)
	k := c.core
	if !k.begin() {
		out <- Result{Err: fmt.Errorf("lock: key %q: %w", key, ErrClosed)}
		close(out)
		return out
	}
	go func() {
		defer k.end()
		defer close(out)
		for {
			l, err := c.Acquire(ctx, key)
			out <- Result{Lease: l, Err: err}
			if err != nil {
				return
			}
			select {
			case <-k.keeper.clock.After(c.cfg.TTL):
			case <-l.Done():
			case <-ctx.Done():
			case <-k.closing:
			}
			select {
			case <-out: // taken back: no caller has seen this lease
				_ = l.release(0) // background trouble is logged
			default:
				return // received
			}
		}
	}()
	return out
}

// Close refuses new leases, ends all waiting, and waits until every lease was
// released or ctx ends. It does not tell holders to stop: end the work, let it
// release, then call Close with a bounded context.
//
// If a lease was lost and not released, Close waits until its key's TTL has
// passed: its holder may still be stopping. Close waits at most one second for
// hooks, since a hook may be what called it.
//
// When ctx ends first, Close begins nothing new and returns within a tenth of a
// second. Leases that are still held then end with [ErrClosed]. Close does not
// give their keys back, since their holders may still be at work; the keys free
// themselves after their TTL. Close cancels the context of every background
// call of the store. A call that ignores its context goes on after Close has
// returned. Close leaves an Acquire or Release that is under way to its caller.
//
// Close closes the backend too, and may be called again.
func (c *Client) Close(ctx context.Context) error {
	k := c.core
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		k.idle = make(chan struct{})
		close(k.closing)
		k.sendAway()
		k.rest()
	}
	idle := k.idle
	k.mu.Unlock()

	left := k.awaitIdle(ctx, idle)
	k.ending.Do(func() { go k.finish() })
	if !within(ctx, k.finished) {
		return errors.Join(left, fmt.Errorf("lock: Close: a background call of the store has not ended: %w",
			context.Cause(ctx)))
	}
	hooks, cancel := context.WithTimeout(ctx, hookWait)
	defer cancel()
	within(hooks, k.hooks.silence())
	return errors.Join(left, k.failed)
}

// hookWait is how long Close waits for hooks. A hook that calls Close waits for
// itself that long.
const hookWait = time.Second

// finish joins every goroutine except that of the hooks, and closes the
// backend. It runs on a goroutine of its own, so that Close can return when its
// context ends.
func (k *core) finish() {
	// The scheduler ends first, since it hands work to the others: nothing
	// would wait for work that it began after their end.
	k.sched.close()
	k.renewer.close()
	k.watches.workers.close()
	k.janitor.close()
	k.die()
	k.giveUp()
	if closer, ok := k.backend.(io.Closer); ok {
		k.failed = closer.Close()
	}
	disown(k.backend)
	close(k.finished)
}

// awaitIdle waits until nothing is under way. When ctx ends first, it ends what
// it can and returns an error that says what was left.
func (k *core) awaitIdle(ctx context.Context, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	default:
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	k.hurry.Store(true)
	k.die()
	if n := k.sched.endAll(ErrClosed); n > 0 {
		return fmt.Errorf(
			"lock: Close: %d leases were still held (%w); their keys free themselves after their TTL", n,
			context.Cause(ctx))
	}
	return fmt.Errorf("lock: Close: calls that were under way had not ended: %w", context.Cause(ctx))
}

// shut reports whether Close was called.
func (k *core) shut() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// begin counts an attempt or a lease in. It returns false when the Client is
// closed.
func (k *core) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.live++
	return true
}

// countIn counts in something that must be completed even after the Client was
// closed.
func (k *core) countIn() {
	k.mu.Lock()
	k.live++
	k.mu.Unlock()
}

func (k *core) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.countOut()
}

// countOut is end for a caller that holds k.mu.
func (k *core) countOut() {
	k.live--
	k.rest()
}

// rest closes k.idle, for which Close waits, if nothing is left. Called with
// k.mu held. A Release after Close may count in and out once more.
func (k *core) rest() {
	if k.live == 0 && k.closed && !k.rested {
		k.rested = true
		close(k.idle)
	}
}

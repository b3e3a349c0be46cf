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
)

// Client takes leases through one Backend. Its methods are safe for concurrent use.
type Client struct {
	core  *core
	cfg   Config
	given given
}

// given is what a Config asked for by itself, and did not follow from other
// fields.
type given struct{ renewEvery, margin bool }

// core is what a Client shares with those made from it by With.
type core struct {
	backend Backend
	keeper  keeper
	sched   *scheduler
	renewer *workers // renewals
	watches watches  // of held keys
	janitor *workers // releases and undoing in the background
	hooks   teller   // of all Clients
	refused sparing  // lines about renewals that failed
	stuck   sparing  // lines about keys that could not be given back
	undos   undos

	waker  Waker         // nil: poll
	pacer  Pacer         // nil: our own pace
	passer Passer        // nil: every release goes to the store
	queuer Queuer        // nil: no fair queue
	batch  BatchExtender // nil: one message a renewal
	prompt time.Duration // how long a Release of the backend takes at most; 0: not known

	mu      sync.Mutex
	queues  map[string]*queue
	tickets sync.Pool     // *ticket
	live    int           // leases and attempts under way
	idle    chan struct{} // made by Close; closed when live falls to 0 after that
	rested  bool          // idle was closed
	closed  bool
	closing chan struct{} // closed by Close: who waits for the store stops
	hurry   atomic.Bool   // Close's context ended: nothing new is begun

	answered atomic.Bool   // the store has answered this Client
	ending   sync.Once     // the first Close that comes so far starts finish
	finished chan struct{} // closed when nothing of the Client runs any more
	failed   error         // of the backend's Close; to be read when finished is closed

	life context.Context    // of calls in the background
	die  context.CancelFunc // by Close
}

// New returns a Client on b. Times that do not fit each other, or the backend, are errors that name
// both fields. From here on the backend belongs to the Client: a second Client on it is an error until the
// first was closed.
func New(b Backend, cfg Config) (*Client, error) {
	if err := own(b); err != nil {
		return nil, err
	}
	asked := given{cfg.RenewEvery != 0, cfg.Margin != 0}
	cfg, err := cfg.complete(b)
	if err != nil {
		disown(b)
		return nil, err
	}
	k := &core{
		backend: b,
		keeper:  newKeeper(cfg.Clock),
		renewer: newWorkers(4),
		watches: watches{workers: newWorkers(4)},
		janitor: newWorkers(undoTogether),
		hooks:   teller{log: loud(cfg.Logger)},
		refused: sparing{most: 1},
		stuck:   sparing{most: 16},
		queues:  make(map[string]*queue),
		closing: make(chan struct{}),

		finished: make(chan struct{}),
	}
	k.life, k.die = context.WithCancel(context.Background())
	k.waker, _ = b.(Waker)
	k.pacer, _ = b.(Pacer)
	k.passer, _ = b.(Passer)
	k.queuer, _ = b.(Queuer)
	k.batch, _ = b.(BatchExtender)
	if p, ok := b.(Tuned); ok {
		k.prompt = p.Timeout()
	}
	k.sched = newScheduler(&k.keeper, cfg.Logger, k.serve)
	return &Client{core: k, cfg: cfg, given: asked}, nil
}

// With returns a Client with a changed Config that shares everything else with c: the queues of
// local waiters, renewals, connections. Fields at zero in c's Config were filled in by New; change
// sees them filled. With another TTL, RenewEvery and Margin follow from that where nobody set them; what
// was set stays, and is an error where it does not fit. The Clock cannot be changed; of two clocks of one
// type that Go cannot compare, With keeps the first.
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

// TryAcquire makes one attempt. It does not wait for the key, nor for goroutines of this process
// that do.
func (c *Client) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	return c.acquire(ctx, key, true)
}

// Acquire takes key, waiting for it at most [Config.Wait]. A store that does not answer is left a tenth of a
// second later, and what may have been sent to it is undone in the background; only an attempt that has
// taken the key and waits out what its Backend has to ends later than that (see [Decided]). The
// context bounds the wait only: the lease lives on when it ends, until it is released. If the context has
// ended when the store grants the key, the grant is undone and Acquire returns the context's cause.
//
// The error tells why: [ErrHeld] (a single attempt found the key held), [ErrWaitEnded], the cause of
// the context, or the trouble of the store. Trouble that may pass, such as a lost connection or a server
// that is loading, is retried until the wait ends. Where nothing bounds the wait and the store has never
// answered this Client, that is 10 s. Trouble that waiting cannot mend, such as a wrong password, ends
// Acquire at once.
func (c *Client) Acquire(ctx context.Context, key string) (*Lease, error) {
	// A backend with a pace of its own sleeps even after an only attempt; see Pacer.
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
		a.began = c.core.keeper.nowStamp()
	}
	lease, err := a.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return lease, nil
}

// Do runs fn while it holds key, and gives the key back when fn returns or panics. fn gets a child of ctx
// that also ends with the lease. A fn that goes on after the end of that context keeps the key.
//
// The error is fn's, joined with what went wrong with the lease: with [ErrLost] in it fn may not have
// been alone. The end of ctx adds nothing to it.
//
// A Do on the same key with fn's context joins the lease, on whatever goroutine, and counts as part of fn
// until fn returns. Called later it takes the key anew.
func (c *Client) Do(ctx context.Context, key string, fn func(context.Context) error) (err error) {
	if l := heldBy(ctx, c.core, key); l != nil {
		err := fn(l.Context(ctx))
		if ended := l.Err(); ended != nil && !errors.Is(err, ended) {
			err = errors.Join(err, fmt.Errorf("lock: key %q: the lease that Do joined ended before its func: %w", key, ended))
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
			released = nil // fn has said so already
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

// Request acquires key in the background and delivers one Result, for select loops. ctx governs until the
// Result is received: if it ends before that, the lease is given back and the error is what can be
// received. A lease that is not received within one TTL is given back and queued for again. The channel
// is closed after the one Result.
func (c *Client) Request(ctx context.Context, key string) <-chan Result {
	// With room for one, an error nobody waits for holds up neither a goroutine nor Close.
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
			case <-out: // taken back: nobody has seen this lease
				_ = l.Release() // background trouble is logged
			default:
				return // received
			}
		}
	}()
	return out
}

// Close refuses new leases, ends all waiting, and waits until every lease was released or ctx ends. It
// tells no holder to stop: end the work, let it release, then Close with a bounded context.
//
// A lease that was lost and not released is waited for until its key's TTL is over: its holder may still
// be stopping. Close waits for hooks for a second at most, since it may be called by one.
//
// When ctx ends first, Close begins nothing new and returns within a tenth of a second. Leases still held
// then end with [ErrClosed]. Their keys are not given back, since their holders may still be at work; they
// free themselves after their TTL. Calls of the store in the background are told to end; one that does not
// goes on after Close has returned. An Acquire or Release that is under way Close leaves to its caller.
//
// Close closes the Backend if it is an [io.Closer], and may be called again.
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

	left := k.settle(ctx, idle)
	k.ending.Do(func() { go k.finish() })
	if !within(ctx, k.finished) {
		return errors.Join(left, fmt.Errorf("lock: Close: a call of the store in the background has not ended: %w", context.Cause(ctx)))
	}
	hooks, cancel := context.WithTimeout(ctx, hookWait)
	defer cancel()
	within(hooks, k.hooks.silence())
	return errors.Join(left, k.failed)
}

// hookWait is how long Close waits for hooks. One that calls Close waits for
// itself so long.
const hookWait = time.Second

// finish joins every goroutine but that of the hooks, and closes the backend.
// It is a goroutine of its own, so that Close need not outlive its context with
// it.
func (k *core) finish() {
	// First who hands the others work: what it began behind their end nobody would wait for.
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

// settle waits until nothing is under way. When ctx ends before, it ends what it can.
func (k *core) settle(ctx context.Context, idle <-chan struct{}) error {
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
		return fmt.Errorf("lock: Close: %d leases were still held (%w); their keys free themselves after their TTL", n, context.Cause(ctx))
	}
	return fmt.Errorf("lock: Close: what was under way had not ended: %w", context.Cause(ctx))
}

// begin counts an attempt or a lease in; false when the Client is closed.
func (k *core) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.live++
	return true
}

// countIn counts something in that has to be seen to the end, be the Client
// closed or not.
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

// rest tells Close that nothing is left. A Release after Close may count in and out once more.
func (k *core) rest() {
	if k.live == 0 && k.closed && !k.rested {
		k.rested = true
		close(k.idle)
	}
}

// call returns the context for one call of the backend.
func (k *core) call(ctx context.Context) context.Context {
	if k.keeper.machine {
		return ctx // Mark reads the machine's clock by itself
	}
	return &call{Context: ctx, keeper: &k.keeper}
}

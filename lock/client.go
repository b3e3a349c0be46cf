package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/hashed"
)

// Client takes leases through one Backend. Its methods are safe for concurrent use.
type Client struct {
	core *core
	cfg  Config
}

// core is what a Client shares with those made from it by With.
type core struct {
	backend Backend
	keeper  keeper
	sched   *scheduler
	renewer *workers // renewals
	guards  guards   // watches of held keys
	janitor *workers // releases and undoing in the background
	ties    ties     // the contexts of leases

	waker  Waker         // nil: poll
	pacer  Pacer         // nil: our own pace
	passer Passer        // nil: every release goes to the store
	queuer Queuer        // nil: no fair queue
	batch  BatchExtender // nil: one message a renewal
	prompt time.Duration // how long a Release of the backend takes at most; 0: not known

	mu      sync.Mutex
	queues  hashed.Table[queue]
	tickets sync.Pool     // *ticket
	live    int           // leases and attempts under way
	idle    chan struct{} // made by Close; closed when live falls to 0 after that
	rested  bool          // idle was closed
	closed  bool
	closing chan struct{} // closed by Close: who waits for the store stops
	hurry   atomic.Bool   // Close's context ended: what is being undone gets one more try
}

// New returns a Client on b. Times that do not fit each other, or the backend, are errors that name
// both fields. From here on the backend belongs to the Client.
func New(b Backend, cfg Config) (*Client, error) {
	if b == nil {
		return nil, errNilBackend
	}
	cfg, err := cfg.complete(b)
	if err != nil {
		return nil, err
	}
	k := &core{
		backend: b,
		keeper:  newKeeper(cfg.Clock),
		renewer: newWorkers(4),
		guards:  guards{workers: newWorkers(4)},
		janitor: newWorkers(4),
		closing: make(chan struct{}),
	}
	k.waker, _ = b.(Waker)
	k.guards.batch, _ = b.(BatchWaker)
	k.pacer, _ = b.(Pacer)
	k.passer, _ = b.(Passer)
	k.queuer, _ = b.(Queuer)
	k.batch, _ = b.(BatchExtender)
	if p, ok := b.(Prompt); ok {
		k.prompt = p.Timeout()
	}
	k.sched = newScheduler(&k.keeper, cfg.Logger, k.serve)
	return &Client{core: k, cfg: cfg}, nil
}

// With returns a Client with a changed Config that shares everything else with c: the queues of
// local waiters, renewals, connections. Fields at zero in c's Config were filled in by New; change
// sees them filled. The Clock cannot be changed.
func (c *Client) With(change func(*Config)) (*Client, error) {
	cfg := c.cfg
	change(&cfg)
	if cfg.Clock != c.cfg.Clock {
		return nil, errors.New("lock: With: Config.Clock cannot be changed; make another Client with New")
	}
	// What followed from the old TTL follows from the new one, unless it was changed as well.
	if cfg.TTL != c.cfg.TTL {
		if cfg.RenewEvery == c.cfg.RenewEvery && cfg.RenewEvery > 0 {
			cfg.RenewEvery = 0
		}
		if cfg.Margin == c.cfg.Margin && cfg.Margin > 0 {
			cfg.Margin = 0
		}
	}
	cfg, err := cfg.complete(c.core.backend)
	if err != nil {
		return nil, err
	}
	return &Client{core: c.core, cfg: cfg}, nil
}

// TryAcquire makes one attempt. It does not wait for the key, nor for goroutines of this process
// that do.
func (c *Client) TryAcquire(ctx context.Context, key string) (*Lease, error) {
	return c.acquire(ctx, key, true)
}

// Acquire takes key, waiting for it at most [Config.Wait], which it may exceed by one attempt. The
// context is the lifetime of the lease: when it ends, the lease is given back.
//
// The error tells why: [ErrHeld] (a single attempt found the key held), [ErrWaitEnded], the cause of
// the context, or the trouble of the store. Trouble at the first attempt returns at once; later on
// it is retried until the wait ends.
func (c *Client) Acquire(ctx context.Context, key string) (*Lease, error) {
	// A backend with a pace of its own sleeps even after an only attempt; see Pacer.
	return c.acquire(ctx, key, c.cfg.Wait < 0 && c.core.pacer == nil)
}

func (c *Client) acquire(ctx context.Context, key string, once bool) (*Lease, error) {
	if key == "" {
		return nil, errors.New("lock: key is empty")
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

// Do runs fn while it holds key. fn gets the lease's context, which ends when the lease does. A Do
// on the same key inside fn, with that context, joins the lease. The key is given back when fn
// returns or panics. The error is fn's, joined with what went wrong with the lease: with [ErrLost]
// in it fn may not have been alone.
func (c *Client) Do(ctx context.Context, key string, fn func(context.Context) error) (err error) {
	if l := heldBy(ctx, c.core, key); l != nil {
		if err := l.Err(); err != nil {
			return fmt.Errorf("lock: joining the lease on %q: %w", key, err)
		}
		return fn(ctx)
	}
	l, err := c.Acquire(ctx, key)
	if err != nil {
		return err
	}
	defer func() {
		early := context.Cause(ctx) // the key was given back when ctx ended, not when fn did
		released := l.Release()
		if errors.Is(released, ErrLost) && errors.Is(err, ErrLost) {
			released = nil // fn has said so already
		}
		if released != nil {
			err = errors.Join(err, released)
		} else if early != nil && err == nil {
			err = fmt.Errorf("lock: key %q was given back while its func still ran: %w", key, early)
		}
	}()
	return fn(l.Context())
}

// Result is what Request delivers.
type Result struct {
	Lease *Lease
	Err   error
}

// Request acquires key in the background and delivers one Result, for select loops. A lease that is
// not received within one TTL is given back and queued for again. When ctx ends the request is
// abandoned, and its error is what can be received. The channel is closed behind the one Result.
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

// Close refuses new leases, ends all waiting, and waits until every lease was released or ctx ends.
// Leases still held then end with [ErrClosed]; their keys are not given back, since their holders
// may still be at work, and free themselves after their TTL. Close joins every goroutine of the
// Client, closes the Backend if it is an [io.Closer], and may be called again.
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

	var left error
	select {
	case <-idle:
	case <-ctx.Done():
		k.hurry.Store(true)
		k.sched.hasten()
		if n := k.sched.endAll(ErrClosed); n > 0 {
			left = fmt.Errorf("lock: Close: %d leases were still held (%w); their keys free themselves after their TTL", n, context.Cause(ctx))
		}
		<-idle
	}
	// First who hands the others work: what it began behind their end nobody would wait for.
	k.sched.close()
	k.renewer.close()
	k.guards.workers.close()
	k.janitor.close()
	if closer, ok := k.backend.(io.Closer); ok {
		return errors.Join(left, closer.Close())
	}
	return left
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

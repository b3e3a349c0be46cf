// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func init() {
	protocols["legacy"] = protocolKind{
		about:   "old clients (verbatim) and new clients (hardened) share the keys",
		dialect: true,
		groups:  mixed,
		rules:   legacyRules,
		overrun: pastLease,
	}
	protocols["bare"] = protocolKind{
		about: "SETNX of a constant, and DEL: a dead holder keeps it for ever",
		groups: func(p Plan) []groupSpec {
			return []groupSpec{{name: "bare", protocol: "verbatim", clients: p.Clients, kind: oldClient,
				make: oldLocker}}
		},
		rules: legacyRules,
	}
}

// mixed returns half of each kind. If the number is odd, there is one more old
// client.
func mixed(p Plan) []groupSpec {
	return []groupSpec{
		{name: "old", protocol: "verbatim", clients: (p.Clients + 1) / 2, kind: oldClient, make: oldLocker},
		{name: "new", protocol: "hardened", clients: p.Clients / 2, kind: newClient, make: newLocker},
	}
}

// spoken returns the plan's dialect, as changed by its flags.
func (p Plan) spoken() dialect.Dialect {
	d := p.Dialect
	if p.Protocol == "bare" {
		d = dialect.Bare()
	}
	if p.Poll > 0 {
		d.Poll = p.Poll
	}
	return d
}

// presetSpan is how long a preset's clocks drift and step before the new
// clients know the clock spread. The verb skew asks the law about the same
// span.
const presetSpan = 24 * time.Hour

// messages of an attempt, from the clock reading to the GETSET
const messages = 5

// terms returns what the new clients know of the old ones: the truth, if a
// client can be configured for it. Otherwise the new clients use their
// defaults, and the verdict excuses what follows.
func (p Plan) terms() (dialect.Terms, error) {
	d := p.spoken()
	assumed, err := d.Terms(dialect.Terms{Lease: p.Lease})
	switch {
	case errors.Is(err, dialect.ErrNoLease):
		return assumed, fmt.Errorf("--lease: %w", err)
	case err != nil:
		return assumed, fmt.Errorf("--lease, --spread: %w", err)
	}
	spread, gap := p.Spread, messages*p.Latency.Most()
	if p.Preset != "" {
		clocks := p.faults()
		spread = clocks.Spread(presetSpan)
		for _, stop := range clocks.Pauses {
			gap = max(gap, messages*p.Latency.Most()+stop.For)
		}
	}
	spread, gap = max(spread, assumed.Spread), max(gap, assumed.Gap)
	// The server's clock is one of the clocks in the spread. Where the spread
	// cannot be given, nothing is claimed of how far clocks are behind it. How
	// far they are ahead shortens no lease, so it is always told: otherwise a
	// fast clock looks like a long lease, and takeovers wait for that.
	type told struct{ spread, behind, gap time.Duration }
	choices := []told{{spread, spread, gap}, {spread, spread, assumed.Gap}}
	if p.Preset != "" {
		choices = append(choices, told{assumed.Spread, 0, gap}, told{assumed.Spread, 0, assumed.Gap})
	}
	for _, c := range choices {
		var t dialect.Terms
		if t, err = d.Terms(dialect.Terms{
			Lease: p.Lease, Spread: c.spread, Gap: c.gap, Behind: c.behind, Ahead: spread,
		}); err != nil {
			err = fmt.Errorf("--lease, --spread: %w", err)
			continue
		}
		if err = p.fits(t); err == nil {
			return t, nil
		}
	}
	return assumed, err
}

func legacyRules(p Plan) (rules, error) {
	d := p.spoken()
	t, err := p.terms()
	if err != nil {
		return rules{}, err
	}
	r := rules{sharing: !d.Excludes(), told: t.DefaultTTL(), margin: t.DefaultMargin(t.DefaultTTL())}
	if d.HasTakeover() {
		r.lease, r.spread, r.gap = t.Lease, t.Spread, t.Gap
	}
	if longest, bound := d.LongestLease(t); bound {
		r.honest = longest
	} else if d.ServerExpires() {
		r.honest = t.Lease
	}
	return r, nil
}

// pastLease is long enough for other clients to have taken over and to be in
// the middle of their jobs.
func pastLease(p Plan) time.Duration {
	t, _ := p.terms()
	return t.Lease + t.Lease/4
}

// locker sells under a lock.
type locker struct {
	*worker
	client   *lock.Client
	patience time.Duration
	careful  bool            // it stops when its lease ends, as programs written for leases do
	leave    func(dead bool) // runs when the client is closed
	ttl      time.Duration   // 0: the store's own

	// Lock names, by product. Defaults to the names that old clients use.
	names map[string]string
}

func oldLocker(w *worker) (seller, error) { return w.legacy(legacy.Verbatim) }
func newLocker(w *worker) (seller, error) { return w.legacy(legacy.Hardened) }

func (w *worker) legacy(mode legacy.Mode) (seller, error) {
	p := w.fleet.plan
	terms, err := p.terms()
	if err != nil {
		return nil, err
	}
	store, err := p.legacy(mode, terms, w.link.pool(), w.host)
	if err != nil {
		return nil, err
	}
	return w.locker(store, terms, locker{careful: mode == legacy.Hardened})
}

// locker returns a program that locks in a store, which it closes. The program
// is like the given one.
func (w *worker) locker(store backend.Store, terms dialect.Terms, l locker) (seller, error) {
	var err error
	l.worker, l.patience = w, w.fleet.plan.patience(terms)
	l.client, err = w.fleet.plan.client(store, lock.Config{TTL: l.ttl, Wait: l.patience, Clock: w.host,
		Jitter: w.jitter()})
	return &l, err
}

// replyWithin is how long the server may take for an answer.
const replyWithin = 2 * time.Second

// replyWithin is how long a program waits for an answer. Its timer also runs
// while the machine is paused, so the longest pause is added.
func (p Plan) replyWithin() time.Duration {
	most := replyWithin + 2*p.Latency.Most()
	for _, stop := range p.faults().Pauses {
		most = max(most, replyWithin+2*p.Latency.Most()+stop.For)
	}
	return most
}

// legacy opens a store of legacy locks as any program does. It sends nothing
// yet.
func (p Plan) legacy(mode legacy.Mode, terms dialect.Terms, pool *redis.Pool,
	clock lock.Clock) (backend.Store, error) {
	return legacy.New(pool, legacy.Config{Mode: mode, Dialect: p.spoken(), Terms: terms, Clock: clock,
		Timeout: p.replyWithin()})
}

// client makes a client, or closes the store.
func (p Plan) client(store backend.Store, cfg lock.Config) (*lock.Client, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	client, err := lock.New(store, cfg)
	if c, ok := store.Contract().(io.Closer); ok && err != nil {
		err = errors.Join(err, c.Close())
	}
	return client, err
}

// fits reports whether clients can be made with these times, before a fleet is
// made.
func (p Plan) fits(terms dialect.Terms) error {
	nowhere := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errDead }}
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		if mode == legacy.Hardened && p.Protocol == "bare" {
			break
		}
		store, err := p.legacy(mode, terms, nowhere, nil)
		var client *lock.Client
		if err == nil {
			client, err = p.client(store, lock.Config{Wait: p.patience(terms)})
		}
		if err != nil {
			return fmt.Errorf("--lease, --spread: no %v client can be configured with these: %w", mode, err)
		}
		client.Close(context.Background())
	}
	return nil
}

// patience is long enough for a dead holder's lease to end, and for the ghosts
// after it to end. Ghosts are values that losers leave on a key that nobody
// holds, in dialects whose clients GETSET a missing key.
func (p Plan) patience(t dialect.Terms) time.Duration {
	if p.Patience > 0 {
		return p.Patience
	}
	return max(10*t.Lease, 30*time.Second)
}

func (l *locker) sell(ctx context.Context, t *task) error {
	asked, sent := l.fleet.now(), l.link.own.Load()
	lease, err := l.acquire(ctx, t)
	if err != nil {
		return err
	}
	taking := l.link.own.Load() - sent
	h, n := l.fleet.book.begin(l.team.number, t.SKU, l.waited(asked))
	h.host = l.host
	key := l.fleet.keys[t.SKU]
	took := l.link.last("asked", key)
	if at := took.Sub(l.fleet.began); at >= 0 && at < h.start {
		h.asked = at
	}
	alive := ctx
	if l.careful {
		alive = lease.Context(ctx)
	}
	end := l.team.fates[n]
	if next := l.team.next.take(); next != lives {
		end = next
	}
	sold, _, err := l.deduct(alive, t, end, h, false)
	h.stop = l.fleet.now()
	if errors.Is(err, errDead) {
		h.freed = h.stop
		l.fleet.book.orphan(t.SKU)
		if end == takesAllDown {
			l.fleet.redeploy(l.worker, t.SKU)
		}
		return errDead
	}
	sent = l.link.own.Load()
	h.lost = errors.Is(lease.Release(), lock.ErrLost)
	h.freed = l.fleet.now()
	h.commands = taking + l.link.own.Load() - sent
	h.deletes = l.link.last("freed", key).After(took)
	if h.lost {
		l.fleet.book.count(l.team.number, func(t *tally) { t.lost++ })
	}
	switch {
	case err == nil:
		l.fleet.book.ends(h, t.Order, sold)
	case errors.Is(err, lock.ErrLost):
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return err
}

// acquire waits for the key as long as its program has patience. Some old
// clients give up, or throw, long before. Then their callers try again.
func (l *locker) acquire(ctx context.Context, t *task) (*lock.Lease, error) {
	until := l.fleet.now() + l.patience
	name, ok := l.names[t.SKU]
	if !ok {
		name = l.fleet.names.lock(t.SKU)
	}
	for {
		lease, err := l.client.Acquire(ctx, name)
		switch {
		case err == nil:
			return lease, nil
		case errors.Is(err, lock.ErrClosed):
			return nil, errRetired
		case !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrWaitEnded) &&
			!errors.Is(err, backend.ErrNoRetry):
			return nil, err
		case l.fleet.now() >= until:
			return nil, errAside
		}
		if err := pause(ctx, tryAgain); err != nil {
			return nil, err
		}
	}
}

// tryAgain is the time after which a program whose client gave up tries again.
const tryAgain = 100 * time.Millisecond

// close gives a job under way all the time that it may need. A dead program's
// job needs none.
func (l *locker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	if l.link.isDead() {
		cancel()
	}
	l.client.Close(ctx)
	if l.leave != nil {
		l.leave(l.link.isDead())
	}
}

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// forRedis are the flags that mean nothing in another store.
var forRedis = append([]string{"protocol", "replicas", "namespace"}, forLegacy...)

// checkTarget is check for a store other than Redis.
func (f *runFlags) checkTarget(cmd *cobra.Command) error {
	if err := f.target.Refuse(cmd, forRedis...); err != nil {
		return err
	}
	return f.checkTimes(cmd)
}

// targetKeeper keeps the lock of run in a store other than Redis.
type targetKeeper struct {
	*clientKeeper
	conn   backing.Conn
	env    *out.Env
	flags  *runFlags
	asked  context.Context // ends when a signal asks the process to end
	linger time.Duration   // of --keep
	short  string          // says that the TTL is shorter than was asked for; empty: it is not
	took   atomic.Bool     // acquire had success
	left   atomic.Bool     // the lock is left to its TTL, so that close waits for nothing
}

// openTarget connects to the store of --target. While that is away, it tries
// again until --wait is over.
func openTarget(e *out.Env, ctx context.Context, f *runFlags, command []string) (keeper, error) {
	f.target.Options.Note = noteOf(e, command)
	began := e.Clock.Now()
	conn, longest, err := f.connect(e, ctx)
	if err != nil {
		return nil, err
	}
	k := &targetKeeper{conn: conn, env: e, flags: f, asked: ctx, linger: f.keep}
	plain := *f
	plain.keep = 0 // a session cannot outlive its process, so the process stays
	if ttl := f.targetTTL(conn); longest < ttl {
		plain.ttl = longest
		k.short = fmt.Sprintf("%s keeps a session for at most %s, so the lock lasts that long after its last renewal, and not %s: lower --ttl, or raise the servers' limit",
			f.target.Name, out.Short(longest), out.Short(ttl))
	}
	if f.wait.d > 0 {
		plain.wait.d = max(f.wait.d-e.Clock.Now().Sub(began), time.Millisecond)
	}
	k.clientKeeper, err = newKeeper(e, &plain, conn.Backend(), f.target.Where(), k.told)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return k, nil
}

// targetTTL is the TTL that is asked for.
func (f *runFlags) targetTTL(conn backing.Conn) time.Duration {
	asked := backend.Settings{TTL: f.ttl}
	if a, ok := conn.Backend().Contract().(backend.Advisor); ok {
		asked = a.Advise(asked)
	}
	return cmp.Or(asked.TTL, defaultTTL)
}

// reach connects to the store and asks for the longest TTL that it grants.
func (f *runFlags) reach(ctx context.Context) (backing.Conn, time.Duration, error) {
	conn, err := f.target.Connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	longest, err := conn.Longest(ctx, f.targetTTL(conn))
	if err != nil {
		err = out.CouldNot(out.ToldBy(conn, err), "connecting to %s", f.target.Where())
		return nil, 0, errors.Join(err, conn.Close())
	}
	return conn, longest, nil
}

// connect waits for the store as long as --wait allows. After a while it says
// why it waits.
func (f *runFlags) connect(e *out.Env, ctx context.Context) (backing.Conn, time.Duration, error) {
	began, said := e.Clock.Now(), false
	for {
		conn, longest, err := f.reach(ctx)
		gone := e.Clock.Now().Sub(began)
		limit := f.wait.d
		if f.wait.forever {
			limit = firstAnswer
		}
		switch {
		case err == nil:
			return conn, longest, nil
		case gone >= limit || !out.Passing(err):
			return nil, 0, err
		case gone >= firstWord && !said:
			e.Say(f.server.Quiet, "waiting: %v", err)
			said = true
		}
		select {
		case <-e.Clock.After(min(lookEvery, limit-gone)):
		case <-ctx.Done():
			return nil, 0, out.CouldNot(context.Cause(ctx), "connecting to %s", f.target.Where())
		}
	}
}

// told adds to an error what to do about it in this store.
func (k *targetKeeper) told(err error) error {
	var held *lock.HeldError
	if errors.As(err, &held) {
		return err
	}
	return out.ToldBy(k.conn, err)
}

// defaultTTL is that of package lock.
const defaultTTL = 30 * time.Second

// briefly bounds a question that is a courtesy.
const briefly = time.Second

// acquire takes the lock, unless its name gets in the way of another name.
func (k *targetKeeper) acquire(ctx context.Context, key string) (held, error) {
	if why := k.unfit(ctx, key); why != "" {
		return nil, errors.New(why)
	}
	lease, err := k.clientKeeper.acquire(ctx, key)
	var who *lock.HeldError
	if errors.As(err, &who) {
		return nil, k.named(ctx, who)
	}
	if err != nil {
		return nil, err
	}
	k.took.Store(true)
	return &sessionHeld{held: &tokenHeld{lease}, k: k, key: key, until: k.env.Clock.Now().Add(k.linger)}, nil
}

// unfit says why the name must not be taken. It says nothing where the store
// cannot be asked: the attempt then says what is wrong, or waits until it is
// over.
func (k *targetKeeper) unfit(ctx context.Context, key string) string {
	ctx, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	why, _ := k.conn.Unfit(ctx, key)
	return why
}

// named names the holder as ls does.
func (k *targetKeeper) named(ctx context.Context, e *lock.HeldError) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
	defer cancel()
	seen, err := k.look(ctx, e.Key)
	if err != nil || seen.who == nil {
		return e
	}
	seen.who.Protocol = e.Protocol
	return seen.who
}

// sessionHeld is a lease that lives with this process. --keep lets the process
// stay.
type sessionHeld struct {
	held
	k     *targetKeeper
	key   string
	until time.Time // end of --keep
}

// Release waits for the end of --keep and gives the lock back. A signal ends
// the wait; the lock is then left to its TTL, as --keep asks for.
func (h *sessionHeld) Release() error {
	rest := h.until.Sub(h.k.env.Clock.Now())
	if rest <= 0 {
		return h.held.Release()
	}
	h.k.env.Say(h.k.flags.server.Quiet, "holding %q for another %s (--keep)", h.key, out.Rounded(rest))
	select {
	case <-h.k.env.Clock.After(rest):
	case <-h.held.Done():
	case <-h.k.asked.Done():
		h.k.left.Store(true)
		return nil
	}
	return h.held.Release()
}

func (h *sessionHeld) free() error { return h.held.free() }

func (k *targetKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	found, err := k.conn.Look(ctx, key)
	return found != nil && found.Owner == token, k.told(err)
}

func (k *targetKeeper) look(ctx context.Context, key string) (sight, error) {
	found, err := k.conn.Look(ctx, key)
	if found == nil || err != nil {
		return sight{free: err == nil}, k.told(err)
	}
	held := &lock.HeldError{Key: key, Owner: found.Owner, Left: max(found.Left, 0)}
	if found.Note != "" {
		held.Owner = found.Note
	}
	return sight{who: held}, nil
}

// stored is for spellings of Redis keys.
func (k *targetKeeper) stored(context.Context, string) (bool, error) { return false, errNoLook }

func (k *targetKeeper) encoding() dialect.Encoding { return dialect.Plain }

// warnings says nothing for wait, which takes no lock.
func (k *targetKeeper) warnings(context.Context) []string {
	if k.short == "" || !k.took.Load() {
		return nil
	}
	return []string{k.short}
}

func (k *targetKeeper) close(wait time.Duration) {
	if k.left.Load() {
		wait = 0
	}
	k.clientKeeper.close(wait)
	_ = k.conn.Close()
}

var _ keeper = (*targetKeeper)(nil)

package legacy

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// hardened holds L with the dialect's own bytes and M with a token, both
// written by one script. The rules named by number here are those of
// docs/protocol.md.
type hardened struct {
	*server
	watch  *watcher               // what looks at the keys have shown
	timed  atomic.Pointer[timing] // scripts' arguments for the TTL that was asked for last
	period atomic.Int64           // the Clients' longest RetryEvery, in nanoseconds
	margin atomic.Int64           // the Clients' greatest trust margin, in nanoseconds
}

func newHardened(s *server) *hardened {
	h := &hardened{server: s}
	h.watch = newWatcher(h.poll(), max(s.cfg.Terms.Greatest, s.cfg.Terms.Lease), s.cfg.Clock != lock.Machine)
	h.period.Store(int64(h.poll()))
	return h
}

// poll returns the dialect's own pause between attempts, or the default.
func (h *hardened) poll() time.Duration {
	if h.dialect.Poll > 0 {
		return h.dialect.Poll
	}
	return defaultPoll
}

// defaultPoll is for dialects whose clients do not sleep between attempts.
const defaultPoll = 100 * time.Millisecond

// Advise fills in times that suit the old clients' fleet. It also notes how
// often the Client will look at a held key. A value between whose looks more
// than three such periods pass does not count as unchanged.
func (h *hardened) Advise(cfg backend.Settings) backend.Settings {
	terms := h.cfg.Terms
	if cfg.TTL == 0 {
		cfg.TTL = terms.DefaultTTL()
	}
	if cfg.Margin == 0 {
		cfg.Margin = terms.DefaultMargin(cfg.TTL)
	}
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery = h.poll()
	}
	raise(&h.period, cfg.RetryEvery)
	return cfg
}

// raise stores d at at, unless that has at least d.
func raise(at *atomic.Int64, d time.Duration) {
	for {
		have := at.Load()
		if int64(d) <= have || at.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

// Fits refuses times under which exclusion would not hold. It checks the lease
// rule (rule 4), what a settle must leave of a lease (rule 5), and how often L
// is looked at (rule 7).
func (h *hardened) Fits(ttl, renewEvery, margin time.Duration) error {
	terms := h.cfg.Terms
	if err := h.dialect.Fits(ttl, renewEvery, margin, terms); err != nil {
		return fmt.Errorf("legacy: %w", err)
	}
	raise(&h.margin, margin)
	if h.byTTL { // a silent connection is left while there is time for a renewal on another one
		h.mux.Shorten(ttl / 4)
	}
	if _, bound := h.dialect.LongestLease(terms); !bound {
		return nil
	}
	unseen, field := renewEvery, "RenewEvery"
	if unseen <= 0 {
		unseen, field = ttl, "TTL without renewal"
	}
	if most := terms.Lease / 3; unseen > most {
		return fmt.Errorf(
			"legacy: %s %v exceeds %v, a third of Lease %v: a holder must look at the key that often", field,
			unseen, most, terms.Lease)
	}
	return nil
}

// Try makes one attempt: one round trip when the key is free or held, two and
// the settle when it takes over. It returns:
//   - a grant: both keys were written;
//   - a [*backend.HeldError] or [*TypeError]: the key is taken;
//   - a [*backend.UnsureError]: the key may have been taken, and the error's
//     grant undoes that;
//   - another error: nothing was taken.
func (h *hardened) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	k, err := h.keys(key)
	if err != nil {
		return nil, err
	}
	t, err := h.timing(ttl)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	g := h.newGrant(k, t)
	took, seen, err := h.acquire(ctx, g, "")
	if err == nil && took == 0 {
		seen = h.judge(ctx, h.mux, k, seen, ttl)
		if h.mayTakeOver(seen) {
			took, seen, err = h.acquire(ctx, g, seen.Value)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case took == 0:
		return nil, h.held(k, seen)
	}
	h.watch.forget(k.l)
	if took == tookOver {
		h.count.takeovers.Add(1)
	}
	if h.settles(took) {
		if err := h.settle(ctx, g); err != nil {
			return nil, err
		}
	}
	h.count.acquired.Add(1)
	return g, nil
}

// Statuses in the acquire script's reply.
const (
	tookFree = 1
	tookOver = 2

	tookReply = 5 // the length of a reply with one of them
)

// acquire runs the script once. If seen is not empty, it replaces exactly that
// value on L. It returns:
//   - took > 0: the key is taken, as tookFree or tookOver;
//   - took == 0 without an error: the key is held, as o shows;
//   - a [*backend.UnsureError]: the script may have run;
//   - another error: nothing was taken.
func (h *hardened) acquire(ctx context.Context, g *grant, seen string) (took int64, o Observation,
	err error) {
	at := h.clock.begin()
	g.term.Sent = backend.ReadClock(ctx)
	reply, err := h.stamping(ctx, acquireScript, acquireClock, g.acquisition(seen)...)
	at = h.clock.end(at)
	if err != nil {
		err = trouble(g.k, "take", err)
		if unknown, may := wire.MayBeSent(err); may {
			h.count.unsure.Add(1)
			g.pending = unknown.Pending
			return 0, o, &backend.UnsureError{Grant: g, Err: err}
		}
		return 0, o, err
	}
	f, _ := reply.([]any)
	if len(f) == 2 && number(f[0]) == 0 {
		o, err = h.look(g.k, f[1], at)
		if err == nil {
			h.note(&o)
		}
		return 0, o, err
	}
	if len(f) != tookReply {
		return 0, o, trouble(g.k, "take", errOddReply)
	}
	g.taken(f)
	g.turn = h.watch.polite.Took(g.k.l, at.sent)
	h.sawClock(at, g.server.UnixMicro())
	return number(f[0]), o, nil
}

// mayTakeOver reports whether an attempt may replace the value that its look
// showed. A value that is not a plausible stamp is never replaced (rule 2).
// Nothing is replaced while M exists (rule 8).
func (h *hardened) mayTakeOver(o Observation) bool {
	if o.MarkExists || !o.Exists || o.Err != nil || !h.dialect.HasTakeover() {
		return false
	}
	return h.cfg.Takeover.Expired(o)
}

// settles reports whether this acquisition needs another look before it is a
// grant. That is so after a takeover (rule 5), and after every acquisition
// where old clients take what they think is their own (rule 6).
func (h *hardened) settles(took int64) bool {
	return took == tookOver || h.dialect.HasTakeover() && (h.dialect.NeedsSettleEvery() || h.cfg.SettleAlways)
}

// settle waits for longer than an old client can be between its clock reading
// and its GETSET, and looks again. By then every old client that judged the
// former value has written. The end of [lock.Config.Wait] does not cut the wait
// short; the end of the context given to Acquire does. It returns:
//
//   - nil: L is unchanged, and the attempt is granted.
//   - a [*backend.HeldError]: L has changed, and the attempt is undone.
//   - a [*backend.UnsureError]: whether L has changed is unknown, or the
//     attempt could not be undone. The error's grant undoes it.
func (h *hardened) settle(ctx context.Context, g *grant) error {
	ctx = backend.IgnoreWait(ctx)
	select {
	case <-h.clock.After(h.cfg.Terms.Settle()):
	case <-ctx.Done():
		return &backend.UnsureError{Grant: g,
			Err: fmt.Errorf("legacy: settling key %q: %w", g.k.name, context.Cause(ctx))}
	}
	err := g.check(ctx)
	var lost *LostError
	if !errors.As(err, &lost) {
		if err != nil {
			return &backend.UnsureError{Grant: g, Err: err}
		}
		return nil
	}
	h.count.clobbered.Add(1)
	seen := lost.Seen
	if !lost.Mark {
		seen.MarkExists = false // the token on M is this grant's, and about to be deleted
	}
	held := h.held(g.k, seen)
	if err := g.Release(ctx); err != nil && !errors.Is(err, backend.ErrLost) {
		return &backend.UnsureError{Grant: g, Err: held}
	}
	return held
}

// Observe is that of the server, with what this mode saw on all keys.
func (h *hardened) Observe(ctx context.Context, key string) (Observation, error) {
	o, err := h.server.Observe(ctx, key)
	o.Seen = h.watch.contradictions()
	return o, err
}

// Describe is that of the server, with what this mode knows of a holder.
func (h *hardened) Describe(ctx context.Context, key string) (backend.Info, error) {
	return h.describe(ctx, key, h.held)
}

// held returns the error that names the key's holder: a [*backend.HeldError],
// or a [*TypeError] if L has a type that no old client's lock can have.
func (h *hardened) held(k keys, o Observation) error {
	e := &backend.HeldError{Key: k.name, Protocol: h.dialect.Name}
	var wrong *TypeError
	switch {
	case errors.As(o.Err, &wrong) && !o.MarkExists:
		h.count.foreign.Add(1)
		return wrong
	case o.MarkExists:
		if left, ok := o.left(); ok {
			e.Vacant, e.Left, e.Until, e.Protocol = true, left, o.Local.Add(left),
				"left to old clients of "+h.dialect.Name
			return e
		}
		e.Owner, _, _ = o.Token()
		e.Protocol = "getsetlock alongside " + h.dialect.Name
		if !o.Ours() { // rule 8: the holder then never renews the rest of M
			e.Protocol += "; another client removed or replaced its value, and it has not released yet"
			e.Final = true
		}
		e.Left, e.Until = o.MarkPTTL, o.Local.Add(o.MarkPTTL)
		return e
	case !o.Exists:
		return e // the key has been freed meanwhile
	}
	if o.HasTTL {
		e.Left, e.Until = o.PTTL, o.Local.Add(o.PTTL)
	}
	switch {
	case !h.dialect.HasStamp():
		if h.dialect.Shape != dialect.ShapeConstant {
			e.Owner = o.Value
		}
	case o.Err != nil:
		h.count.foreign.Add(1)
		e.Protocol = o.Err.Error()
	default:
		h.heldByStamp(e, o)
	}
	return e
}

// heldByStamp fills in e for a stamp on L without an M. Such a stamp is an old
// client's, or what a getsetlock client left when its M was lost.
func (h *hardened) heldByStamp(e *backend.HeldError, o Observation) {
	e.Owner = o.Stamp.ID
	e.Passed = h.wantsLook(o)
	if uses[byTerms](h.cfg.Takeover) && h.dialect.HasTakeover() {
		e.Why = o.Doubt(h.cfg.Terms)
	}
	if p, ok := h.cfg.Takeover.(patient); ok && h.dialect.HasTakeover() {
		e.Left = least(e.Left, p.left(o))
	}
	if o.HasTTL && !h.dialect.ServerExpires() {
		// A getsetlock client wrote it, since its old clients set no TTL. No
		// client renews it without M.
		e.Until, e.Final = o.Local.Add(e.Left), true
	} else {
		e.Stamp = o.Stamp.Expiry
	}
	if o.Unremembered != nil {
		e.Protocol += fmt.Sprintf(", and a look at it could not be remembered: %v", o.Unremembered)
	} else if !uses[unchanged](h.cfg.Takeover) {
		return
	}
	period := time.Duration(h.period.Load())
	e.Again = period
	if o.Sparse > 0 {
		e.Protocol += fmt.Sprintf(", last looked at %v ago, which is too seldom: to see that it does not change, look at least every %v",
			o.Sparse.Round(time.Millisecond), samples*period)
	}
}

// newToken draws 128 bits: 22 characters of base64url. Every attempt gets a new
// token, which is never used again, so no delayed command can hit another
// grant.
func newToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

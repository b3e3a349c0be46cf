package legacy

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// grant is one acquisition of hardened. It does not keep its bytes on L: M's
// value has them, even after a reply was lost.
type grant struct {
	h        *hardened
	k        keys
	t        *timing
	token    string
	tokenArg any // boxed once, like the keys
	head     any // what precedes the number on L; the token itself in dialects without a stamp
	term     backend.Term

	watched atomic.Int32  // watches that are armed
	server  time.Time     // the server's clock when it took the key
	pending *wire.Pending // the reply of an attempt of unknown outcome, until it is known

	turn *polite.Turn  // this holding of the key, for politeness; nil until the key is known to be taken
	gap  *polite.Watch // watch of the key that was left to old clients; nil before

	mu    sync.Mutex
	lost  error // what the first look found after a loss; from then on the grant is not renewed (rule 8)
	asked bool  // a release was sent whose outcome is unknown
	over  bool  // the server said for certain that nothing is held
}

func (h *hardened) newGrant(k keys, t *timing) *grant {
	g := &grant{h: h, k: k, t: t, token: newToken(), head: ""}
	g.tokenArg = g.token
	switch {
	case h.dialect.Shape == dialect.ShapeUUIDNumber:
		var b [16]byte
		rand.Read(b[:])
		// No old client ever drew this uuid, so none takes the lock for its
		// own.
		g.head = h.dialect.NewID(b) + ":"
	case !h.dialect.HasStamp():
		g.head = g.tokenArg
	}
	return g
}

// acquisition returns the keys and arguments of the acquire script, which
// replaces seen.
func (g *grant) acquisition(seen any) []any {
	args := append(g.args(seen), nil) // room for the third key
	copy(args[3:], args[2:])
	args[2] = g.k.argLook
	return args
}

// args returns the keys and arguments of the renew script. acquire differs only
// in the last one.
func (g *grant) args(last any) []any {
	d := &g.h.dialect
	unit := any(unitArgs[d.Unit])
	if !d.HasStamp() {
		unit = unitArgs[dialect.UnitNone]
	}
	args := make([]any, 0, 14)
	return append(args, g.k.argL, g.k.argM, g.tokenArg, g.t.m, g.t.l, unit, g.t.sec, g.t.usec, g.head,
		encodingArgs[d.ValueEncoding], "", "", last)
}

// Names that the scripts use, boxed once for all commands.
var (
	unitArgs = map[dialect.Unit]any{
		dialect.UnitMillis: "ms", dialect.UnitSeconds: "s", dialect.UnitFloatSeconds: "float_s",
		dialect.UnitNanos: "ns", dialect.UnitTicks: "ticks", dialect.UnitNone: "none",
	}
	encodingArgs = map[dialect.Encoding]any{dialect.Plain: "plain", dialect.JDK: "jdk", dialect.JSON: "json"}
)

// taken reads the acquire script's reply: status, the server's clock, PTTLs of
// L and M.
func (g *grant) taken(f []any) {
	g.server = time.Unix(number(f[1]), number(f[2])*1000)
	g.term.TTL = shorter(f[3], f[4])
}

// shorter returns the lesser of two PTTL replies: trust never goes beyond what
// the server keeps (rule 9).
func shorter(l, m any) time.Duration {
	return time.Duration(max(min(number(l), number(m)), 0)) * time.Millisecond
}

func (g *grant) Token() string      { return g.token }
func (g *grant) Term() backend.Term { return g.term }

func (g *grant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.h.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews grants in one batch of messages.
func (h *hardened) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration) ([]backend.Term,
	[]error) {
	terms, errs := make([]backend.Term, len(grants)), make([]error, len(grants))
	t, err := h.timing(ttl)
	var live []int
	for i := range grants {
		g, ok := grants[i].(*grant)
		switch {
		case !ok:
			errs[i] = fmt.Errorf("legacy: the grant belongs to another backend (%T)", grants[i])
		case err != nil:
			errs[i] = fmt.Errorf("key %q: %w", g.k.name, err)
		default:
			if errs[i] = g.gone(); errs[i] == nil {
				live = append(live, i)
			}
		}
	}
	if len(live) > 0 {
		h.renew(ctx, grants, live, t, terms, errs)
	}
	return terms, errs
}

// renew sends the renewals of the grants at the indices live. It repeats those
// that an old server refused because their script calls TIME.
func (h *hardened) renew(ctx context.Context, grants []backend.Grant, live []int, t *timing,
	terms []backend.Term,
	errs []error) {
	sentAt, took := backend.ReadClock(ctx), h.clock.begin()
	sec, usec := any(""), any("")
	old := h.oldServer.Load()
	if old {
		var err error
		if sec, usec, err = h.time(ctx); err != nil {
			for _, i := range live {
				errs[i] = trouble(grants[i].(*grant).k, "renew", err)
			}
			return
		}
	}
	cmds := make([]wire.Command, len(live))
	for n, i := range live {
		g := grants[i].(*grant)
		args := g.args(t.gap)
		args[3], args[4], args[6], args[7] = t.m, t.l, t.sec, t.usec
		args[renewClock], args[renewClock+1] = sec, usec
		cmds[n] = renewScript.Cmd(args...)
		if g.watched.Load() > 0 {
			// The script's own writes end the server's tracking of these keys.
			// Its reads after the writes, sent with tracking, begin it anew.
			cmds[n] = cmds[n].Tracked()
		}
	}
	var refused []int
	replies := h.mux.Batch(ctx, cmds)
	took = h.clock.end(took)
	for n, r := range replies {
		i := live[n]
		if wire.RefusesTime(r.Err) && !old {
			refused = append(refused, i)
			continue
		}
		terms[i], errs[i] = grants[i].(*grant).renewed(r, sentAt, took)
	}
	if len(refused) > 0 {
		h.oldServer.Store(true)
		h.renew(ctx, grants, refused, t, terms, errs)
	}
}

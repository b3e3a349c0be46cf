package legacy

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// grant is one acquisition of hardened. What its bytes on L are is not kept here: M's value says so,
// also after a reply was lost.
type grant struct {
	h        *hardened
	k        keys
	t        *timing
	token    string
	tokenArg any // boxed once, like the keys
	head     any // what stands before the number on L; in dialects without one the token itself
	term     lock.Term

	watched atomic.Int32  // watches that are armed
	server  time.Time     // the server's clock when it took the key
	pending *wire.Pending // of an attempt whose outcome is not known, until it is

	turn *polite.Turn  // that it counts for, nil while it is not known to hold
	gap  *polite.Watch // of the key that it left to old clients, nil before

	mu    sync.Mutex
	lost  error // what the server said when it was found lost: it is not renewed any more (rule 8)
	asked bool  // a release was sent whose outcome is not known
	over  bool  // the server said for certain that nothing is held
}

func (h *hardened) newGrant(k keys, t *timing) *grant {
	g := &grant{h: h, k: k, t: t, token: newToken(), head: ""}
	g.tokenArg = g.token
	switch {
	case h.dialect.Shape == dialect.ShapeUUIDNumber:
		var b [16]byte
		rand.Read(b[:])
		// A uuid that no old client ever drew: none takes the lock for its own.
		g.head = h.dialect.NewID(b) + ":"
	case !h.dialect.HasStamp():
		g.head = g.tokenArg
	}
	return g
}

// acquisition are the keys and arguments of the acquire script, which replaces seen.
func (g *grant) acquisition(seen any) []any {
	args := append(g.args(seen), nil) // room for the third key
	copy(args[3:], args[2:])
	args[2] = g.k.argLook
	return args
}

// args are those of the renew script; last is the one in which acquire differs.
func (g *grant) args(last any) []any {
	d := &g.h.dialect
	unit := any(unitArgs[d.Unit])
	if !d.HasStamp() {
		unit = unitArgs[dialect.UnitNone]
	}
	args := make([]any, 0, 14)
	return append(args, g.k.argL, g.k.argM, g.tokenArg, g.t.m, g.t.l, unit, g.t.sec, g.t.usec, g.head, encodingArgs[d.ValueEncoding], "", "", last)
}

// Names as the scripts know them, boxed once.
var (
	unitArgs = map[dialect.Unit]any{
		dialect.UnitMillis: "ms", dialect.UnitSeconds: "s", dialect.UnitFloatSeconds: "float_s",
		dialect.UnitNanos: "ns", dialect.UnitTicks: "ticks", dialect.UnitNone: "none",
	}
	encodingArgs = map[dialect.Encoding]any{dialect.Plain: "plain", dialect.JDK: "jdk", dialect.JSON: "json"}
)

// taken reads the acquire script's reply: status, clock, TTLs of L and M.
func (g *grant) taken(f []any) {
	g.server = time.Unix(number(f[1]), number(f[2])*1000)
	g.term.TTL = shorter(f[3], f[4])
}

// shorter is the lesser of two PTTL replies: trust never goes beyond what the server keeps (rule 9).
func shorter(l, m any) time.Duration {
	return time.Duration(max(min(number(l), number(m)), 0)) * time.Millisecond
}

func (g *grant) Token() string   { return g.token }
func (g *grant) Term() lock.Term { return g.term }

func (g *grant) Extend(ctx context.Context, ttl time.Duration) (lock.Term, error) {
	terms, errs := g.h.ExtendAll(ctx, []lock.Grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews grants in messages that travel together.
func (h *hardened) ExtendAll(ctx context.Context, grants []lock.Grant, ttl time.Duration) ([]lock.Term, []error) {
	terms, errs := make([]lock.Term, len(grants)), make([]error, len(grants))
	t, err := h.timing(ttl)
	var live []int
	for i := range grants {
		g, ok := grants[i].(*grant)
		switch {
		case !ok:
			errs[i] = fmt.Errorf("legacy: a grant of another backend (%T)", grants[i])
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

// renew sends the renewals of the grants whose indices are given, again where the server turned out
// to be an old one.
func (h *hardened) renew(ctx context.Context, grants []lock.Grant, live []int, t *timing, terms []lock.Term, errs []error) {
	sentAt, took := lock.Mark(ctx), h.clock.begin()
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
			// Our own writes end the server's memory of who watches the keys; what the script reads
			// after them, under tracking, begins it anew.
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

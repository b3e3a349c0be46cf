// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// openLegacy opens a server on which old clients take the lock. Nothing is
// sent.
func (f *runFlags) openLegacy(e *out.Env) (*opening, error) {
	d, err := f.dialect.Pick()
	if err != nil {
		return nil, err
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	cfg := legacy.Config{Mode: legacy.Hardened, Dialect: d, Terms: f.terms, Timeout: e.Timeout,
		Clock: e.Clock}
	if f.mode == "verbatim" {
		cfg.Mode = legacy.Verbatim
	}
	b, err := legacy.New(pool, cfg)
	if err != nil {
		return nil, out.WrongUse("%w", f.words(err))
	}
	o := &opening{store: b, where: address, encoding: b.Dialect().KeyEncoding}
	if cfg.Mode == legacy.Verbatim {
		err = f.asVerbatim(o, b)
	} else {
		o.refuse = refuseNode(pool, address)
		err = f.asHardened(o, b, e.Clock)
	}
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return o, nil
}

// refuseNode refuses to take any lock for old clients on one node of a cluster:
// a slot that moves would take the lock away.
func refuseNode(pool *redis.Pool, address string) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error {
		ctx, cancel := context.WithTimeout(ctx, briefly)
		defer cancel()
		return out.RefuseNode(ctx, pool, address)
	}
}

// asVerbatim completes an opening that sends only what an old client sends.
// Only to join a lock does it read the key in one more way.
func (f *runFlags) asVerbatim(o *opening, b *legacy.Backend) error {
	lease := f.advisedTTL(b)
	if f.keep > lease {
		return out.WrongUse("--keep %v is longer than the lease (%v), after which a verbatim lock ends: give a longer --lease",
			f.keep, lease)
	}
	o.verbatim = true
	o.warnings = func() []string {
		return []string{fmt.Sprintf("--mode verbatim does not renew the lock: it ends after its lease (%v), and a command that still runs then is ended", lease)}
	}
	o.look = func(ctx context.Context, key string) (sight, error) {
		seen, err := b.Observe(ctx, key)
		return sight{token: seen.Value}, err
	}
	return nil
}

// asHardened completes an opening whose token is on key M.
func (f *runFlags) asHardened(o *opening, b *legacy.Backend, clock lock.Clock) error {
	seen := &looks{clock: clock}
	o.look = func(ctx context.Context, key string) (sight, error) {
		o, err := b.Observe(ctx, key)
		if err != nil {
			return sight{}, err
		}
		s := seen.sight(key, o, b.Terms())
		if !o.Ours() {
			s.token = ""
		}
		return s, nil
	}
	o.stored = func(ctx context.Context, raw string) (bool, error) {
		all, errs := b.ObserveRaw(ctx, []string{raw})
		return all[0].Exists, errs[0]
	}
	// A token lock on the key follows no rule of the old clients.
	o.name = func(ctx context.Context, who *lock.HeldError) *lock.HeldError {
		o, err := b.Observe(ctx, who.Key)
		if _, _, ok := out.TokenLock(o); err != nil || !ok {
			return nil
		}
		return &lock.HeldError{
			Key: who.Key, Owner: o.Value, Left: o.PTTL, Until: o.Local.Add(o.PTTL),
			Protocol: "a getsetlock client's token; use --protocol modern to share this lock",
		}
	}
	return f.fitKeep(b.Dialect(), b.Terms())
}

// fitKeep refuses a --keep that old clients would not respect.
func (f *runFlags) fitKeep(d dialect.Dialect, terms dialect.Terms) error {
	if longest, bound := d.LongestLease(terms); bound && f.keep > 0 && f.keep > longest {
		return out.WrongUse("--keep %v is longer than %v: an old client that lost a race may end a longer one early; if the old clients' smallest lease is longer than %v, give it by --lease",
			f.keep, longest, terms.Lease)
	}
	return nil
}

// looks are the looks of one process at the keys of old clients. A verb's own
// look and that of a waiting message may end together.
type looks struct {
	clock lock.Clock

	mu    sync.Mutex
	value string    // bytes that the last look saw
	since time.Time // first look that saw them
	at    time.Time // the server's clock at the last look
	seen  dialect.Seen
}

// sight judges a look. An old client's time that is past frees the key by the
// rules of a takeover: by more than Behind, or where that is unknown, when this
// process or another has seen the same bytes for long enough.
func (l *looks) sight(key string, o legacy.Observation, terms dialect.Terms) sight {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := time.Time{} // the value was written later, by the server's clock
	if o.Value != l.value || l.since.IsZero() {
		l.value, l.since, changed = o.Value, now, l.at
	}
	if at := o.ServerNow(); !at.Before(l.at) {
		l.at = at
		if o.OfOldClient() {
			l.seen.Add(o.Dialect, terms, o.Stamp, changed, at)
		}
	}
	o.Seen.Behind = max(o.Seen.Behind, l.seen.Behind)
	o.Seen.Greatest = max(o.Seen.Greatest, l.seen.Greatest)
	token, _, _ := o.Token()
	who := heldOf(key, o)
	if who != nil && !who.Stamp.IsZero() && o.OfOldClient() {
		who.Why = inFlags(o.Doubt(terms))
	}
	return sight{who: who, free: isFree(o, terms.Against(o.Seen), now.Sub(l.since)), token: token}
}

// heldOf describes the holder of a lock by the name that ls shows, from a look
// at the keys of old clients. It returns nil where no client holds the lock:
// nothing is stored, or a tombstone keeps old clients out.
func heldOf(key string, o legacy.Observation) *lock.HeldError {
	held := &lock.HeldError{Key: key}
	if token, _, ok := o.Token(); ok {
		held.Owner, held.Protocol, held.Left = token, "a getsetlock client's token", o.MarkPTTL
		return held
	}
	if token, note, ok := out.TokenLock(o); ok {
		held.Owner, held.Left = cmp.Or(note, token), o.PTTL
		return held
	}
	switch {
	case o.MarkExists: // left to old clients for a moment
		held.Vacant, held.Left = true, o.MarkPTTL
	case !o.Exists, isTombstone(o):
		return nil
	case o.Type != "string":
		held.Protocol = "a " + o.Type + ", not a lock"
	case o.Err == nil && o.Dialect.HasStamp():
		held.Owner, held.Stamp = o.Stamp.ID, o.Stamp.Expiry
		held.Protocol = "an old client's timestamp, " + o.Dialect.Name
	default:
		held.Owner = out.Shortened(o.Value, 40)
		if o.HasTTL {
			held.Left = o.PTTL
		}
	}
	return held
}

// isFree reports whether a getsetlock client could take the lock now: nothing
// is stored, or an old client's time is past for long enough. same is how long
// this process has seen the same bytes.
func isFree(o legacy.Observation, terms dialect.Terms, same time.Duration) bool {
	if o.MarkExists {
		return false
	}
	if heldOf("", o) == nil {
		return true
	}
	if o.Err != nil || !o.Dialect.HasStamp() || !o.OfOldClient() ||
		!o.Dialect.PastBy(o.Stamp, o.ServerNow(), terms.TakeoverMargin()) {
		return false
	}
	_, known := dialect.Claimed(terms.Behind)
	age, aged := terms.LookAge(o.Dialect)
	return known || aged && max(same, o.Looked) > age
}

func isTombstone(o legacy.Observation) bool {
	text, err := o.Dialect.DecodeValue(o.Value)
	return err == nil && text == o.Dialect.Tombstone()
}

package runverb

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// legacyKeeper keeps run's lock beside old clients.
type legacyKeeper struct {
	*clientKeeper
	backend legacy.Backend
}

// openLegacy makes the keeper of a command line. Nothing is sent.
func openLegacy(e *out.Env, f *runFlags) (keeper, error) {
	d, err := f.dialect.Pick()
	if err != nil {
		return nil, err
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return nil, err
	}
	mode := legacy.Hardened
	if f.mode == "verbatim" {
		mode = legacy.Verbatim
	}
	backend, err := legacy.New(pool, legacy.Config{Mode: mode, Dialect: d, Terms: f.terms, Timeout: e.Timeout, Clock: e.Clock})
	if err != nil {
		return nil, out.WrongUse("%w", f.words(err))
	}
	common, err := newKeeper(e, f, backend, address, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	k := &legacyKeeper{common, backend}
	if err := k.fitKeep(f); err != nil {
		k.close(0)
		return nil, out.WrongUse("%w", f.words(err))
	}
	return k, nil
}

// fitKeep checks --keep against what old clients would make of it.
func (k *legacyKeeper) fitKeep(f *runFlags) error {
	if f.keep == 0 {
		return nil
	}
	if ttl := k.times.TTL; k.backend.Mode() == legacy.Verbatim {
		if f.keep > ttl {
			return fmt.Errorf("--keep %v exceeds the lease (%v), after which a verbatim lock ends: give a longer --lease", f.keep, ttl)
		}
		return nil
	}
	if longest, bound := k.backend.Dialect().LongestLease(k.backend.Terms()); bound && f.keep > longest {
		return fmt.Errorf("--keep %v exceeds %v: beyond that an old client that lost a race may end it early; if the old clients' smallest lease is longer than %v, say so by --lease",
			f.keep, longest, k.backend.Terms().Lease)
	}
	return nil
}

// acquire tells a token lock, which is not read by any old client's rules, from other strange values.
// Verbatim does not look: it sends what the old client would.
func (k *legacyKeeper) acquire(ctx context.Context, key string) (held, error) {
	lease, err := k.clientKeeper.acquire(ctx, key)
	if err == nil || !errors.Is(err, lock.ErrHeld) || k.backend.Mode() == legacy.Verbatim {
		return lease, err
	}
	o, trouble := k.backend.Observe(ctx, key)
	if _, _, ok := out.TokenLock(o); trouble != nil || !ok {
		return nil, err
	}
	return nil, &lock.HeldError{
		Key: key, Owner: o.Value, Left: o.PTTL, Until: o.Local.Add(o.PTTL),
		Protocol: "a token of ours; such locks are taken turns with by --protocol modern",
	}
}

// holds asks the server. A token of ours stands beside the key; the old client's only token is the
// value on it.
func (k *legacyKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	o, err := k.backend.Observe(ctx, key)
	if err != nil {
		return false, err
	}
	if k.backend.Mode() == legacy.Verbatim {
		return o.Exists && o.Value == token, nil
	}
	on, _, _ := o.Token()
	return o.Ours() && on == token, nil
}

func (k *legacyKeeper) warning() string {
	if k.renews() {
		return ""
	}
	return fmt.Sprintf("--mode verbatim: the lock is not renewed and ends after its lease (%v); a command that still runs then is ended", k.times.TTL)
}

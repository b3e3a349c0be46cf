package runverb

import (
	"context"
	"errors"
	"fmt"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// legacyKeeper keeps a lock that run shares with old clients.
type legacyKeeper struct {
	*clientKeeper
	backend *legacy.Backend
	seen    *looks
}

// openLegacy returns the keeper for a command line. Nothing is sent.
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
	backend, err := legacy.New(pool,
		legacy.Config{Mode: mode, Dialect: d, Terms: f.terms, Timeout: e.Timeout, Clock: e.Clock})
	if err != nil {
		return nil, out.WrongUse("%w", f.words(err))
	}
	common, err := newKeeper(e, f, backend, address, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	k := &legacyKeeper{common, backend, &looks{clock: e.Clock}}
	if err := k.fitKeep(f); err != nil {
		k.close(0)
		return nil, out.WrongUse("%w", f.words(err))
	}
	return k, nil
}

// fitKeep refuses a --keep that old clients would not respect.
func (k *legacyKeeper) fitKeep(f *runFlags) error {
	if f.keep == 0 {
		return nil
	}
	if ttl := k.times.TTL; k.backend.Mode() == legacy.Verbatim {
		if f.keep > ttl {
			return fmt.Errorf("--keep %v is longer than the lease (%v), after which a verbatim lock ends: give a longer --lease", f.keep, ttl)
		}
		return nil
	}
	if longest, bound := k.backend.Dialect().LongestLease(k.backend.Terms()); bound && f.keep > longest {
		return fmt.Errorf("--keep %v is longer than %v: an old client that lost a race may end a longer one early; if the old clients' smallest lease is longer than %v, give it by --lease",
			f.keep, longest, k.backend.Terms().Lease)
	}
	return nil
}

// acquire recognizes a token lock on the key, which no old client's rules can
// read, and names it in the error. Verbatim mode does not look: it sends only
// the old client's commands.
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
		Protocol: "a getsetlock client's token; use --protocol modern to share this lock",
	}
}

// holds asks the server whether token holds the key. In hardened mode the token
// lies on key M. In verbatim mode the value on key L is the only token.
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

// look reads both keys of the lock. Verbatim mode does not look: it sends only
// the old client's commands.
func (k *legacyKeeper) look(ctx context.Context, key string) (sight, error) {
	if k.backend.Mode() == legacy.Verbatim {
		return sight{}, errNoLook
	}
	o, err := k.backend.Observe(ctx, key)
	if err != nil {
		return sight{}, err
	}
	return k.seen.sight(key, o, k.backend.Terms()), nil
}

func (k *legacyKeeper) stored(ctx context.Context, raw string) (bool, error) {
	if k.backend.Mode() == legacy.Verbatim {
		return false, errNoLook
	}
	all, errs := k.backend.ObserveRaw(ctx, []string{raw})
	return all[0].Exists, errs[0]
}

func (k *legacyKeeper) encoding() dialect.Encoding { return k.backend.Dialect().KeyEncoding }

func (k *legacyKeeper) warnings(context.Context) []string {
	if k.renews() {
		return nil
	}
	return []string{fmt.Sprintf("--mode verbatim does not renew the lock: it ends after its lease (%v), and a command that still runs then is ended", k.times.TTL)}
}

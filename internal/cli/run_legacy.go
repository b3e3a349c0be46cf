package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// legacyKeeper keeps run's lock beside old clients.
type legacyKeeper struct {
	backend legacy.Backend
	client  *lock.Client
	server  string      // for people
	times   lock.Config // as the client completed it
	keep    *keeping    // nil: nothing is kept
	graced  time.Duration
}

// openLegacy makes the keeper of a command line, and checks the times against each other. Nothing is
// sent.
func (e *Env) openLegacy(f *runFlags, mode legacy.Mode, graceGiven bool) (keeper, error) {
	d, err := f.dialect.pick()
	if err != nil {
		return nil, err
	}
	pool, address, err := f.server.open(e)
	if err != nil {
		return nil, err
	}
	backend, err := legacy.New(pool, legacy.Config{Mode: mode, Dialect: d, Terms: f.terms, Clock: e.Clock})
	if err != nil {
		return nil, wrongUse("%w", inFlags(err))
	}
	k := &legacyKeeper{backend: backend, server: address}
	var shown lock.Backend = backend
	if f.keep > 0 {
		k.keep = &keeping{Backend: backend, keep: f.keep, clock: e.Clock}
		shown = k.keep.backend()
	}
	k.client, err = lock.New(shown, lock.Config{
		TTL: f.ttl, Wait: f.wait.config(), Clock: e.Clock, Logger: e.logger(f.server.quiet),
		Hooks: lock.Hooks{Waiting: func(ev lock.Event) { e.say(f.server.quiet, "waiting: %v", ev.Cause) }},
	})
	if err != nil {
		_ = backend.Close()
		return nil, wrongUse("%w", inFlags(err))
	}
	// With is the one place where a Client shows the times that it completed.
	if _, err = k.client.With(func(c *lock.Config) { k.times = *c }); err == nil {
		err = k.fit(f, graceGiven)
	}
	if err != nil {
		k.close(0)
		return nil, wrongUse("%w", inFlags(err))
	}
	return k, nil
}

// fit checks the times that only run has.
func (k *legacyKeeper) fit(f *runFlags, graceGiven bool) error {
	ttl, margin, renew := k.times.TTL, max(k.times.Margin, 0), max(k.times.RenewEvery, 0)
	k.graced = f.grace
	if !graceGiven {
		k.graced = child.DefaultGrace(ttl)
	}
	if err := child.CheckGrace(k.graced, ttl, renew, margin); err != nil {
		return fmt.Errorf("--grace: %w", err)
	}
	if f.keep == 0 {
		return nil
	}
	if k.backend.Mode() == legacy.Verbatim {
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

// inFlags rewrites the names of fields as those of the flags that set them.
func inFlags(err error) error {
	text := err.Error()
	for _, name := range fieldFlags {
		text = strings.ReplaceAll(text, name[0], name[1])
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

var fieldFlags = [][2]string{
	{"lock: ", ""}, {"legacy: ", ""},
	{"Config.Terms.", ""}, {"Config.Terms: ", ""}, {"Config.", ""},
	{"Lease ", "--lease "}, {"Spread ", "--spread "}, {"Gap ", "--gap "},
	{"TTL ", "--ttl "}, {"(TTL)", "(--ttl)"}, {"Margin ", "trust margin "}, {"RenewEvery ", "renewal "},
}

func (k *legacyKeeper) acquire(ctx context.Context, key string) (held, error) {
	// The lease lives as long as its context. Ours has to outlive the waiting, and its end is not
	// an end of the lease; what ends the waiting is ctx.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	lease, err := k.client.Acquire(life, key)
	if err != nil {
		stop()
		end(nil)
		return nil, err
	}
	if !stop() {
		// Interrupted in the very moment: the lease ends by its context.
		_ = lease.Release()
		end(nil)
		return nil, context.Cause(ctx)
	}
	return &legacyHeld{lease, k.keep}, nil
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

func (k *legacyKeeper) where() string { return k.server }

func (k *legacyKeeper) grace() time.Duration { return k.graced }

func (k *legacyKeeper) renews() bool { return k.times.RenewEvery > 0 }

func (k *legacyKeeper) warning() string {
	if k.renews() {
		return ""
	}
	return fmt.Sprintf("--mode verbatim: the lock is not renewed and ends after its lease (%v); a command that still runs then is ended", k.times.TTL)
}

func (k *legacyKeeper) close(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_ = k.client.Close(ctx)
}

// legacyHeld is a lease of run.
type legacyHeld struct {
	*lock.Lease
	keep *keeping
}

func (h *legacyHeld) free() error {
	if h.keep != nil {
		h.keep.off.Store(true)
	}
	return h.Release()
}

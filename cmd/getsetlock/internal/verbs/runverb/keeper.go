package runverb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// clientKeeper keeps the lock of run with a Client over one backend.
// legacyKeeper, modernKeeper and movingKeeper add what differs between
// protocols.
type clientKeeper struct {
	client *lock.Client
	server string      // address without password, for messages
	times  lock.Config // the client's configuration with its defaults filled in
	keep   *keeping    // nil: a release frees the key at once
	graced time.Duration

	silence *silence // ends a single attempt; nil: none

	waker backend.Waker
	began chan error // why the client waits; holds one

	// explain rewords the reason why a key is held, in terms of the command
	// line.
	explain func(error) error
}

// newKeeper makes the Client of a backend and checks the times against each
// other. It takes over the backend and closes it on errors. Nothing is sent.
func newKeeper(e *out.Env, f *runFlags, store backend.Store, address string, explain func(error) error,
) (*clientKeeper, error) {
	b, ok := store.Contract().(keepable)
	if !ok {
		return nil, fmt.Errorf("the backend of %s, a %T, lacks what run needs", address, store.Contract())
	}
	k := &clientKeeper{server: address, explain: explain, waker: b, began: make(chan error, 1),
		silence: f.silence}
	if f.keep > 0 {
		k.keep = &keeping{keepable: b, keep: f.keep, clock: e.Clock}
		store = backend.Of(k.keep.backend())
	}
	var err error
	k.client, err = lock.New(store, lock.Config{
		TTL: f.ttl, Wait: f.wait.config(), LongestHold: -1, Clock: e.Clock, Logger: e.Logger(f.server.Quiet),
		Hooks: lock.Hooks{Waiting: func(ev lock.Event) {
			select {
			case k.began <- explain(ev.Cause):
			default: // the client waits for the second time, and that is known
			}
		}},
	})
	if err != nil {
		_ = b.Close()
		return nil, out.WrongUse("%w", f.words(err))
	}
	// With is the only method that shows a Client's completed configuration.
	if _, err = k.client.With(func(c *lock.Config) { k.times = *c }); err == nil {
		err = k.setGrace(f)
	}
	if err != nil {
		k.close(0)
		return nil, out.WrongUse("%w", f.words(err))
	}
	return k, nil
}

func (k *clientKeeper) setGrace(f *runFlags) error {
	ttl, margin, renew := k.times.TTL, max(k.times.Margin, 0), max(k.times.RenewEvery, 0)
	k.graced = f.grace
	if !f.graceGiven {
		k.graced = child.DefaultGrace(ttl)
		if f.target != nil { // a backend may ask for late renewals
			k.graced = min(k.graced, (ttl-margin-renew)/2)
		}
	}
	if err := child.CheckGrace(k.graced, ttl, renew, margin); err != nil {
		return fmt.Errorf("--grace: %w", err)
	}
	return nil
}

// words rewords an error as InFlags does, and marks times of the old clients
// that nobody claimed as assumed.
func (f *runFlags) words(err error) error {
	text := out.InFlags(err).Error()
	for name, field := range map[string]time.Duration{"--spread": f.terms.Spread, "--gap": f.terms.Gap} {
		if _, claimed := dialect.Claimed(field); !claimed {
			text = regexp.MustCompile(name+` [0-9][0-9.a-zµ]*`).ReplaceAllString(text, "$0 (assumed)")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

func (k *clientKeeper) acquire(ctx context.Context, key string) (held, error) {
	ctx, rest := k.silence.during(ctx)
	lease, err := k.client.Acquire(ctx, key)
	rest()
	if err != nil {
		return nil, k.explain(err)
	}
	return &clientHeld{lease, k.keep}, nil
}

func (k *clientKeeper) await(ctx context.Context, key string, wake func()) (func(), bool, error) {
	return k.waker.Await(ctx, key, wake)
}

func (k *clientKeeper) waits() <-chan error { return k.began }

func (k *clientKeeper) where() string { return k.server }

func (k *clientKeeper) grace() time.Duration { return k.graced }

func (k *clientKeeper) renews() bool { return k.times.RenewEvery > 0 }

func (k *clientKeeper) close(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_ = k.client.Close(ctx)
}

// clientHeld is the lease of a run.
type clientHeld struct {
	*lock.Lease
	keep *keeping
}

func (h *clientHeld) free() error {
	if h.keep != nil {
		h.keep.off.Store(true)
	}
	return h.Release()
}

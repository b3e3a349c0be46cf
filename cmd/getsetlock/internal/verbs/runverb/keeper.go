// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// keeper takes and keeps the lock of one command line, by a Client over the
// store of its [opening].
type keeper struct {
	*opening
	env    *out.Env
	flags  *runFlags
	asked  context.Context // ends when a signal asks the process to end
	client *lock.Client    // nil: it could not be made
	waker  backend.Waker

	silence *silence      // watches a single attempt; nil: the wait is bounded by itself
	began   chan error    // why the client waits; holds one
	ttl     time.Duration // with its default filled in
	grace   time.Duration // between SIGTERM and SIGKILL, checked against the lease
	renews  bool          // the lock is renewed while it is held
	left    atomic.Bool   // the lock is left to its TTL, so that close waits for nothing
}

// held is a lease.
type held interface {
	Token() string
	Fence() (int64, bool) // false: the lock has no fencing number
	Until() time.Time     // when the lock ends unless it is renewed
	Done() <-chan struct{}
	Err() error // nil while the lock is held
	Release() error

	// free releases the lock even with --keep: the command was never started.
	free() error
}

// newKeeper opens the store, makes its Client, and checks the times against
// each other. asked ends when a signal asks the process to end.
func newKeeper(e *out.Env, asked context.Context, f *runFlags, command []string) (*keeper, error) {
	k := &keeper{env: e, flags: f, asked: asked, began: make(chan error, 1)}
	if f.wait.config() < 0 {
		k.silence = &silence{within: cmp.Or(e.Timeout, answerWithin),
			tls: strings.HasPrefix(f.server.Addresses(e)[0], "rediss")}
		f.server.Dial = k.silence.dial
	}
	var err error
	if k.opening, err = f.open(e, asked, command); err != nil {
		return nil, err
	}
	k.waker = k.store.Contract().(backend.Waker)
	if k.client, err = k.newClient(); err != nil {
		_ = k.store.Contract().(io.Closer).Close()
	} else {
		err = k.setTimes()
	}
	if err != nil {
		k.close(0)
		return nil, out.WrongUse("%w", f.words(err))
	}
	return k, nil
}

// newClient makes the Client. Nothing is sent.
func (k *keeper) newClient() (*lock.Client, error) {
	f, wait := k.flags, k.flags.wait
	if wait.d > 0 {
		wait.d = max(wait.d-k.late, time.Millisecond)
	}
	var politeness time.Duration
	if f.keep > 0 {
		politeness = -1 // a key that was kept from other hosts is not left to old clients besides
	}
	return lock.New(k.store, lock.Config{
		TTL: cmp.Or(k.granted, f.ttl), Wait: wait.config(), LongestHold: -1, Clock: k.env.Clock,
		Politeness: politeness, Logger: k.env.Logger(f.server.Quiet),
		Hooks: lock.Hooks{Waiting: func(ev lock.Event) {
			select {
			case k.began <- k.explained(ev.Cause):
			default: // the client waits for the second time, and that is known
			}
		}},
	})
}

// setTimes reads the Client's times and fits the grace to them.
func (k *keeper) setTimes() error {
	var times lock.Config
	// With is the only method that shows a Client's completed configuration.
	if _, err := k.client.With(func(c *lock.Config) { times = *c }); err != nil {
		return err
	}
	margin, renew := max(times.Margin, 0), max(times.RenewEvery, 0)
	k.ttl, k.renews, k.grace = times.TTL, renew > 0, k.flags.grace
	if !k.flags.graceGiven {
		k.grace = child.DefaultGrace(k.ttl)
		if k.session { // a backend may ask for late renewals
			k.grace = min(k.grace, (k.ttl-margin-renew)/2)
		}
	}
	if err := child.CheckGrace(k.grace, k.ttl, renew, margin); err != nil {
		return fmt.Errorf("--grace: %w", err)
	}
	return nil
}

func (k *keeper) explained(err error) error {
	if k.explain == nil {
		return err
	}
	return k.explain(err)
}

func (k *keeper) acquire(ctx context.Context, key string) (held, error) {
	if k.refuse != nil {
		watched, rest := k.silence.during(ctx)
		err := k.refuse(watched, key)
		rest()
		if err != nil {
			return nil, err
		}
	}
	watched, rest := k.silence.during(ctx)
	lease, err := k.client.Acquire(watched, key)
	rest()
	if err == nil {
		return &clientHeld{lease, k, key, k.env.Clock.Now().Add(k.flags.keep)}, nil
	}
	var who *lock.HeldError
	if k.name != nil && errors.As(err, &who) {
		if better := k.name(ctx, who); better != nil {
			return nil, better
		}
	}
	return nil, k.explained(err)
}

func (k *keeper) close(wait time.Duration) {
	if k.left.Load() {
		wait = 0
	}
	if k.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		_ = k.client.Close(ctx)
	}
	if k.leave != nil {
		k.leave(wait, k.ttl)
	}
}

// clientHeld is the lease of a run.
type clientHeld struct {
	*lock.Lease
	keeper *keeper
	key    string
	until  time.Time // end of --keep
}

// Token returns the part of the value that tells this lease from all others,
// without the note.
func (h *clientHeld) Token() string {
	if h.keeper.verbatim {
		return h.Lease.Token()
	}
	token, _, _ := strings.Cut(h.Lease.Token(), " ")
	return token
}

// Release gives the lock back, and leaves the key taken until the end of
// --keep. A verbatim lock is left as it is: its stamp ends no earlier. A lock
// that would end with this process is held until then. A signal ends that wait;
// the lock is then left to its TTL, as --keep asks for.
func (h *clientHeld) Release() error {
	k := h.keeper
	rest := h.until.Sub(k.env.Clock.Now())
	switch {
	case rest <= 0:
		return h.Lease.Release()
	case k.verbatim:
		k.left.Store(true)
		return nil
	case !k.session:
		return h.ReleaseAfter(k.flags.keep)
	}
	k.env.Say(k.flags.server.Quiet, "holding %q for another %s (--keep)", h.key, out.Rounded(rest))
	select {
	case <-k.env.Clock.After(rest):
	case <-h.Done():
	case <-k.asked.Done():
		k.left.Store(true)
		return nil
	}
	return h.Lease.Release()
}

func (h *clientHeld) free() error { return h.Lease.Release() }

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

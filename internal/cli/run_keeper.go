package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// clientKeeper is what keeps a lock of run, whatever its protocol: a Client over one backend. What is
// different stands in legacyKeeper and modernKeeper.
type clientKeeper struct {
	client *lock.Client
	server string      // for people
	times  lock.Config // as the client completed it
	keep   *keeping    // nil: nothing is kept
	graced time.Duration

	// explain says in the words of the command line why a key is held.
	explain func(error) error
}

// newKeeper makes the Client of a backend, which belongs to it from here on, and checks the times
// against each other. Nothing is sent.
func (e *Env) newKeeper(f *runFlags, b keepable, address string, explain func(error) error) (*clientKeeper, error) {
	k := &clientKeeper{server: address, explain: explain}
	var shown lock.Backend = b
	if f.keep > 0 {
		k.keep = &keeping{keepable: b, keep: f.keep, clock: e.Clock}
		shown = k.keep.backend()
	}
	var err error
	k.client, err = lock.New(shown, lock.Config{
		TTL: f.ttl, Wait: f.wait.config(), Clock: e.Clock, Logger: e.logger(f.server.quiet),
		Hooks: lock.Hooks{Waiting: func(ev lock.Event) { e.say(f.server.quiet, "waiting: %v", explain(ev.Cause)) }},
	})
	if err != nil {
		_ = b.Close()
		return nil, wrongUse("%w", f.words(err))
	}
	// With is the one place where a Client shows the times that it completed.
	if _, err = k.client.With(func(c *lock.Config) { k.times = *c }); err == nil {
		err = k.setGrace(f)
	}
	if err != nil {
		k.close(0)
		return nil, wrongUse("%w", f.words(err))
	}
	return k, nil
}

func (k *clientKeeper) setGrace(f *runFlags) error {
	ttl, margin, renew := k.times.TTL, max(k.times.Margin, 0), max(k.times.RenewEvery, 0)
	k.graced = f.grace
	if !f.graceGiven {
		k.graced = child.DefaultGrace(ttl)
	}
	if err := child.CheckGrace(k.graced, ttl, renew, margin); err != nil {
		return fmt.Errorf("--grace: %w", err)
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

// words rewrites an error as inFlags does, and says which times of the old
// clients nobody claimed.
func (f *runFlags) words(err error) error {
	text := inFlags(err).Error()
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

var fieldFlags = [][2]string{
	{"lock: ", ""}, {"legacy: ", ""}, {"modern: ", ""},
	{"Config.Terms.", ""}, {"Config.Terms: ", ""}, {"Config.", ""},
	{"Lease ", "--lease "}, {"Greatest ", "--greatest "}, {"Spread ", "--spread "}, {"Behind ", "--behind "}, {"Ahead ", "--ahead "}, {"Gap ", "--gap "},
	{"Replicas ", "--replicas "}, {"ReplicaWait ", "the wait for replicas "}, {"Namespace ", "--namespace "},
	{"TTL ", "--ttl "}, {"(TTL)", "(--ttl)"}, {"Margin ", "trust margin "}, {"RenewEvery ", "renewal "},
}

func (k *clientKeeper) acquire(ctx context.Context, key string) (held, error) {
	// The lease lives as long as its context. Ours has to outlive the waiting, and its end is not
	// an end of the lease; what ends the waiting is ctx.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	lease, err := k.take(life, key)
	if err != nil {
		stop()
		end(nil)
		return nil, k.explain(err)
	}
	if !stop() {
		// Interrupted in the very moment: the lease ends by its context.
		_ = lease.Release()
		end(nil)
		return nil, context.Cause(ctx)
	}
	return &clientHeld{lease, k.keep}, nil
}

// take acquires key with as much trust as a command needs from its first moment on. A key that the holder
// before gave to our place in line is trusted for a second or two until it has been renewed. That is less
// than most graces, and SIGTERM would go out at once; so it is renewed before anything is started.
func (k *clientKeeper) take(ctx context.Context, key string) (*lock.Lease, error) {
	client, began := k.client, k.times.Clock.Now()
	for {
		lease, err := client.Acquire(ctx, key)
		if err != nil || !k.renews() || k.roomy(lease) || lease.Renew(ctx) == nil {
			return lease, err
		}
		// Nothing runs yet, so that nobody need be told of a lock that was lost already: the waiting goes on,
		// and says it where the server is away.
		_ = lease.Release()
		if wait := k.times.Wait; wait > 0 {
			rest := wait - k.times.Clock.Now().Sub(began)
			if rest <= 0 {
				rest = -1 // once more, which says how it stands
			}
			if client, err = k.client.With(func(c *lock.Config) { c.Wait = rest }); err != nil {
				return nil, err
			}
		}
	}
}

// roomy reports whether the next renewal in turn comes before SIGTERM would.
func (k *clientKeeper) roomy(lease *lock.Lease) bool {
	return k.times.Clock.Now().Add(k.times.RenewEvery).Before(child.Unrenewed(lease.Until(), k.graced).Term)
}

func (k *clientKeeper) where() string { return k.server }

func (k *clientKeeper) grace() time.Duration { return k.graced }

func (k *clientKeeper) renews() bool { return k.times.RenewEvery > 0 }

func (k *clientKeeper) close(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_ = k.client.Close(ctx)
}

// clientHeld is a lease of run.
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

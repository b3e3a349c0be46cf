// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// arm asks to be woken when the held key changes, if the store can report that.
// It returns true if the key already looks free and should be tried again at
// once.
func (a *attempt) arm(ctx context.Context, err error) (free bool) {
	if a.core.waker == nil && a.place == nil || a.wakeless || a.once || !errors.Is(err, ErrHeld) {
		return false
	}
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
	}
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
	wake := a.wake
	select {
	case <-wake: // a wake-up from the previous watch
	default:
	}
	call, done := a.bound(ctx)
	cancel, free, err := a.await(call, func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if done != nil {
		done()
	}
	switch {
	case err == nil:
		a.cancel = cancel
		// The key was released between the attempt and the watch, or only time
		// frees it.
		return a.core.pacer == nil && a.goOn(free)
	case errors.Is(err, backend.ErrNoWake):
		a.wakeless = true
	}
	return false
}

func (a *attempt) await(ctx context.Context, wake func()) (func(), bool, error) {
	if a.place != nil {
		return a.place.Await(ctx, wake)
	}
	return a.core.waker.Await(ctx, a.key, wake)
}

// mostExtras is how many attempts in a row are made at once because the key
// looked free. In a crowd other waiters are faster. A key that always looks
// free and cannot be acquired is polled after that, not hammered.
const mostExtras = 8

// goOn reports whether to try again at once.
func (a *attempt) goOn(free bool) bool {
	a.free = free
	if !free {
		a.extras = 0
	}
	if !free || a.extras == mostExtras {
		return false
	}
	a.extras++
	return true
}

// recheckEvery is the shortest time for which a waiter relies on being woken;
// the longest is a quarter more. A message can be missed.
const recheckEvery = time.Second

// calmlyEvery is the shortest time for which a waiter with a place in the
// store's queue relies on being called; the longest is twice that. Each look
// costs the store a script, for every process and key that waits.
const calmlyEvery = 5 * time.Second

// rhythm returns the pause before the next attempt if the end of the key is
// unknown, and how much of it is drawn at random.
func (a *attempt) rhythm() (pause, drawn time.Duration) {
	cfg := &a.client.cfg
	told := a.cancel != nil && !a.free
	switch {
	case told && a.place != nil:
		return 2 * calmlyEvery, calmlyEvery
	case told:
		pause = max(recheckEvery, cfg.RetryEvery)
		return pause + pause/4, pause / 4
	case a.place != nil && cfg.RetryEvery > recheckEvery:
		// A place that is not tried lapses.
		return recheckEvery + recheckEvery/4, recheckEvery / 4
	}
	return cfg.RetryEvery, cfg.RetryEvery / 4
}

// pause returns how long to wait before the next attempt, and whether there is
// to be one. Times in the store's answer count from answered.
func (a *attempt) pause(err error, answered time.Duration) (pause time.Duration, more bool) {
	cfg := &a.client.cfg
	if a.core.pacer != nil {
		poll, attempts := a.core.pacer.Pace(cfg.Wait)
		if cfg.Wait < 0 {
			attempts = 1
		}
		return poll, attempts < 1 || a.tries < attempts
	}
	pause, drawn := a.rhythm()
	pause -= cfg.jitter(drawn)
	var held *HeldError
	if errors.As(err, &held) && (held.Left > 0 || held.Again > 0) {
		gone := a.core.keeper.now().Elapsed - answered
		if held.Left > 0 {
			// The server frees the key when its last millisecond is over.
			pause = min(pause, held.Left+time.Millisecond-gone)
		}
		if held.Again > 0 {
			pause = min(pause, held.Again-gone)
		}
	}
	left, limited := a.left()
	if !limited {
		return pause, true
	}
	// The last attempt is made when the wait ends.
	return min(pause, max(left, 0)), left > 0
}

// left returns the remaining wait, if it is limited. A Pacer counts its own
// attempts instead.
func (a *attempt) left() (time.Duration, bool) {
	if a.client.cfg.Wait <= 0 {
		return 0, false
	}
	now := a.core.keeper.now()
	return a.client.cfg.Wait - (now.Elapsed - a.began.elapsed), true
}

// sleep waits for d, or less when woken. An error ends the Acquire.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	var wake chan struct{}
	if a.cancel != nil {
		wake = a.wake
	}
	clock := a.core.keeper.clock
	over, voice := clock.After(d), a.voice(d)
	for {
		select {
		case <-voice:
			a.say()
			voice = nil
			continue
		case <-over:
		case <-wake:
		case <-ctx.Done():
			return a.contextEnded(ctx)
		case <-a.core.closing:
			return ErrClosed
		}
		return nil
	}
}

// voiceAfter is how long an Acquire without Config.Wait waits before the log
// says for what: the key may be one that nobody gives back.
const voiceAfter = 5 * time.Second

// voice returns a channel for when the log is to name what is waited for; nil
// if that is not within d.
func (a *attempt) voice(d time.Duration) <-chan time.Time {
	if a.client.cfg.Wait != 0 || a.spoke {
		return nil
	}
	now := a.core.keeper.now().Elapsed
	if a.quiet == 0 {
		a.quiet = now + voiceAfter
	}
	if a.quiet-now > d {
		return nil
	}
	return a.core.keeper.clock.After(max(a.quiet-now, 0))
}

func (a *attempt) say() {
	a.spoke = true
	loud(a.client.cfg.Logger).Info("still waiting for a key; Config.Wait bounds the wait",
		"key", a.key, "for", voiceAfter, "error", a.last)
}

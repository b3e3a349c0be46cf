// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Advise gives a Client the old client's times: its lease as TTL, no renewal,
// trust to the very end of the lease. A lock that never ends is trusted for a
// year.
func (v *verbatim) Advise(cfg backend.Settings) backend.Settings {
	d := v.Settings.Dialect
	if cfg.TTL == 0 {
		cfg.TTL = v.Settings.Terms.Lease
	}
	if cfg.TTL == 0 {
		cfg.TTL = d.Lease
	}
	if cfg.TTL == 0 && !d.HasStamp() && !d.ServerExpires() {
		cfg.TTL = 365 * 24 * time.Hour
	}
	if cfg.RenewEvery == 0 {
		cfg.RenewEvery = -1
	}
	if cfg.Margin == 0 {
		cfg.Margin = -1
	}
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery, _ = v.Pace(0)
		cfg.RetryEvery = max(cfg.RetryEvery, time.Millisecond)
	}
	return cfg
}

// Fits refuses renewal, and TTLs that the old client could not write.
func (v *verbatim) Fits(ttl, renewEvery, margin time.Duration) error {
	if renewEvery > 0 {
		return fmt.Errorf(
			"legacy: RenewEvery is %v, and a verbatim %s lock is never renewed: set it to a negative value", renewEvery, v.Settings.Dialect.Name)
	}
	if _, err := v.setOptions(ttl); err != nil {
		return err
	}
	_, err := v.stamp(v.Clock.Now(), ttl, "")
	if errors.Is(err, dialect.ErrBadID) {
		return nil // the id is drawn only by an attempt
	}
	return err
}

// Timeout returns how long a Release waits for the server at most: one reply,
// or two where the dialect looks before it deletes.
func (v *verbatim) Timeout() time.Duration {
	if v.Settings.Dialect.ReleaseGets() {
		return 2 * v.Server.Timeout()
	}
	return v.Server.Timeout()
}

// Pace returns the old client's own pause and number of attempts. A dialect
// without a pause between attempts polls every millisecond, about its round
// trip. A dialect that makes a single attempt, in a loop of its callers, polls
// every 100 ms.
func (v *verbatim) Pace(wait time.Duration) (poll time.Duration, attempts int) {
	d := v.Settings.Dialect
	poll = d.Poll
	switch {
	case poll > 0 || d.Attempts > 0:
	case d.WaitsForever:
		poll = time.Millisecond
	default:
		poll = twokey.DefaultPoll
	}
	switch {
	case wait < 0:
		return poll, 1
	case wait > 0 && poll > 0:
		attempts = int(wait/poll) + 1
	}
	if d.Attempts > 0 && (attempts == 0 || attempts > d.Attempts) {
		attempts = d.Attempts
	}
	return poll, attempts
}

// setOptions returns the options of SET key value in the order in which the
// dialect's clients send them; none where they send SETNX. It refuses a lease
// that these options cannot express.
func (v *verbatim) setOptions(lease time.Duration) ([]any, error) {
	acquire := v.Settings.Dialect.Acquire
	whole := lease%time.Second == 0
	switch {
	case lease < time.Millisecond:
		return nil,
			fmt.Errorf("legacy: TTL %v is less than a millisecond: it would end before the reply came", lease)
	case acquire == dialect.AcquireSetNXEX && !whole:
		return nil,
			fmt.Errorf(
				"legacy: TTL %v is not a whole number of seconds, and %s clients send only whole seconds",
				lease, v.Settings.Dialect.Name)
	case acquire == dialect.AcquireSetNXEX:
		return []any{"NX", "EX", int64(lease / time.Second)}, nil
	case acquire == dialect.AcquireSetNXPX:
		return []any{"NX", "PX", lease.Milliseconds()}, nil
	case acquire == dialect.AcquireSetNXGo && whole:
		return []any{"EX", int64(lease / time.Second), "NX"}, nil
	case acquire == dialect.AcquireSetNXGo:
		return []any{"PX", lease.Milliseconds(), "NX"}, nil
	}
	return nil, nil
}

// wholeSeconds returns d in EXPIRE's unit, rounded up, since cutting would end
// the key before its lease.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

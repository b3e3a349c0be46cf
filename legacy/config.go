// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/twokey"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Mode is how a Backend speaks to the server.
type Mode int

const (
	// Hardened, the zero Mode, writes the same bytes with scripts and stores a
	// token of its own on a second key.
	Hardened Mode = iota

	// Verbatim sends the old client's own commands in its order. It needs no
	// scripts, so it runs through proxies and on very old servers. It has every
	// fault of the old client.
	Verbatim
)

// String returns the mode's name.
func (m Mode) String() string {
	if m == Verbatim {
		return "verbatim"
	}
	return "hardened"
}

// Config says which old clients share the keys and how to treat them. The zero
// Config is Hardened, for clients of the dialect Jedis. A dialect without a
// lease of its own needs Terms.Lease.
type Config struct {
	// Mode is Hardened unless Verbatim is asked for by name.
	Mode Mode

	// Dialect is what the old clients write. The caller must configure it, and
	// nothing guesses it: no single value protects against two dialects.
	// Defaults to the dialect Jedis.
	Dialect dialect.Dialect

	// Terms are what is known of the old clients' fleet. Verbatim uses only
	// Lease, as the default of lock.Config.TTL. Defaults are those of
	// [dialect.Terms]. Behind needs a Dialect: only a stated one says that the
	// time in a value is the end of a lease. Where it is the start, a lock that
	// an old client holds looks like one whose lease is over.
	Terms dialect.Terms

	// Takeover decides when Hardened may take over a lock that an old client
	// left behind; Verbatim refuses this field. Defaults to [ServerClock] with
	// the greater of Terms.Spread and Terms.Behind as margin. Where Behind is
	// unknown, an earlier look must also have shown the same bytes more than
	// [dialect.Terms.LookAge] ago. Another process may have made that look.
	// Where the greatest lease is unknown too, nothing is taken over. Stamps
	// that old clients are seen to write void what they contradict: see
	// [Observation.Seen].
	Takeover Takeover

	// SettleAlways makes Hardened look again after every acquisition, not only
	// after a takeover. Some dialects answer a missing key with GETSET. There
	// it turns a job that would be lost into a retry, and costs the gap and 100
	// ms every time. Dialects that need it for exclusion (or-mine) always
	// settle.
	SettleAlways bool

	// Wake makes waiters learn of a release by CLIENT TRACKING, where the
	// server has it. Defaults to [lock.WakeOn] in Hardened and [lock.WakeOff]
	// in Verbatim, which keeps the old client's pace.
	Wake backend.Wake

	// Timeout bounds the wait for each reply of the server, in real time.
	// Defaults to 2 s, and in Hardened to a quarter of the TTL if that is less.
	Timeout time.Duration

	// Clock stamps and judges in Verbatim. In Hardened it measures how long a
	// value stayed unchanged, how old a look is and how long to settle.
	// Defaults to [lock.Machine].
	Clock lock.Clock
}

// settings are those of the engine. Verbatim alone has checks of its own.
func (cfg Config) settings() (twokey.Settings, error) {
	s := twokey.Settings{
		Package: "legacy", Bare: cfg.Mode == Verbatim,
		Dialect: cfg.Dialect, Terms: cfg.Terms, Takeover: cfg.Takeover, SettleAlways: cfg.SettleAlways,
		Wake: cfg.Wake, Timeout: cfg.Timeout, Clock: cfg.Clock,
	}
	switch {
	case cfg.Mode == Hardened:
		return s, nil
	case cfg.Mode != Verbatim:
		return s, fmt.Errorf("legacy: Config.Mode is %d; there are Verbatim and Hardened", int(cfg.Mode))
	case cfg.Takeover != nil:
		return s, errors.New(
			"legacy: Config.Takeover is for Hardened: Verbatim takes over by the old client's own rule")
	case cfg.SettleAlways:
		return s, errors.New("legacy: Config.SettleAlways is for Hardened: the old client does not look again")
	case cfg.Terms.Lease < 0:
		return s, fmt.Errorf("legacy: Config.Terms.Lease is %v; it must be positive", cfg.Terms.Lease)
	}
	return s, nil
}

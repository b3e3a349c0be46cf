// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Settings say which old clients share the keys and how to treat them. The
// fields without a comment are those of legacy.Config.
type Settings struct {
	Package string // that the engine serves, as errors name it
	Bare    bool   // L alone is used, by the old client's own commands

	Dialect      dialect.Dialect
	Terms        dialect.Terms
	Takeover     Takeover
	SettleAlways bool
	Wake         backend.Wake
	Timeout      time.Duration
	Clock        lock.Clock

	Counters string // beginning of the keys of fencing numbers; empty: none are drawn
	Tag      string // end of M's value alongside a guard or a tombstone
	// Extender renews a grant when its Extend is called; nil: the Engine.
	Extender backend.BatchExtender
}

// Complete fills in defaults and checks the fields against each other. The
// error names the field, as one of a Config of the package.
func (s Settings) Complete() (Settings, error) {
	if s.Timeout < 0 {
		return s, s.errorf("Timeout is %v; it must be positive", s.Timeout)
	}
	if s.Dialect == (dialect.Dialect{}) {
		// Only a stated dialect permits takeovers by a claim.
		if _, claimed := dialect.Claimed(s.Terms.Behind); claimed && !s.Bare {
			return s, s.errorf("Terms.Behind needs Config.Dialect, which states that the time in a value is the end of a lease, not its start")
		}
		s.Dialect = dialect.Jedis()
	}
	if err := s.Dialect.Validate(); err != nil {
		return s, s.errorf("Dialect is neither one of dialect.Presets nor complete: %w", err)
	}
	if s.Clock == nil {
		s.Clock = lock.Machine
	}
	if s.Bare {
		return s, nil
	}
	if s.Dialect.SleepsToStamp {
		return s, s.errorf("Dialect: a waiting %s client sleeps until the time on the key (sleeps_to_stamp), and a hardened stamp lies a day beyond its lease: use Verbatim", s.Dialect.Name)
	}
	terms, err := s.Dialect.Terms(s.Terms)
	if err != nil {
		return s, s.errorf("Terms: %w", err)
	}
	s.Terms = terms
	if s.Takeover == nil {
		s.Takeover = newByTerms(s.Dialect, terms)
	}
	if s.Wake == backend.WakeDefault {
		s.Wake = lock.WakeOn
	}
	return s, s.judges()
}

func (s Settings) errorf(format string, args ...any) error {
	return fmt.Errorf(s.Package+": Config."+format, args...)
}

// judges refuses an Unchanged policy where unchanged bytes prove nothing.
func (s Settings) judges() error {
	if !uses[unchanged](s.Takeover) {
		return nil
	}
	d := s.Dialect
	switch {
	case d.TwoWritersMaySameBytes() || !d.HasStamp():
		return s.errorf("Takeover: Unchanged cannot judge %s: two holders may write the same bytes", d.Name)
	case d.Unit == dialect.UnitSeconds && !uses[serverClock](s.Takeover):
		return s.errorf("Takeover: two %s acquisitions within one second write the same bytes, so Unchanged needs ServerClock too: All(ServerClock(…), Unchanged(…))", d.Name)
	}
	greatest := max(s.Terms.Greatest, s.Terms.Lease)
	for _, p := range flatten(s.Takeover) {
		if u, ok := p.(unchanged); ok && u.lease < greatest {
			return s.errorf("Takeover: Unchanged(%v) is less than Config.Terms.Greatest (%v), the greatest lease of the old clients", u.lease, greatest)
		}
	}
	return nil
}

// Strategy is what L carries while a getsetlock client holds the lock. The
// order is that of the phases.
type Strategy int

const (
	// Stamp is the dialect's own bytes, stamped by the server's clock. They lie
	// a day beyond the lease. Where the old clients' values have no time, it is
	// the token.
	Stamp Strategy = iota

	// Guard is a random number that every old client takes for a time far
	// ahead. The release deletes it.
	Guard

	// Tombstone is the one constant that keeps old clients out. The lease
	// depends on the one that is there. Where L is empty or holds an old
	// client's value, a guard is written, and the release leaves the tombstone.
	Tombstone

	// Nothing takes M alone. L is neither read nor written.
	Nothing
)

// Account is what the caller wants to know of one attempt, and of all that
// follows from it. The engine calls it.
type Account interface {
	// Sending says that a write is about to be sent that may keep the lock for
	// ttl.
	Sending(ttl time.Duration)
	// Orphan says that perhaps no one releases the lock: after a loss, and
	// where an outcome is unknown. Its TTL ends it.
	Orphan()
	// Close says that certainly nothing is held.
	Close()
	// Outdated forbids the lock to be handed over in the process.
	Outdated() bool
	// Back reports that the fleet has gone back to a phase in which old clients
	// work: then a release leaves no tombstone.
	Back() bool
}

// unaccounted is the Account of an attempt without one.
type unaccounted struct{}

func (unaccounted) Sending(time.Duration) {}
func (unaccounted) Orphan()               {}
func (unaccounted) Close()                {}
func (unaccounted) Outdated() bool        { return false }
func (unaccounted) Back() bool            { return false }

// errOddReply says that a script's reply was not understood.
var errOddReply = errors.New("the server's reply does not have the form that the script returns")

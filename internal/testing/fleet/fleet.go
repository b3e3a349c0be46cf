// SPDX-License-Identifier: Apache-2.0

// Package fleet is the world of the tests of clock drift. It has one embedded
// server, one lock key, and clients of the old and the new protocols. Each
// client has a clock that the test sets wrong as it likes.
//
// The time is a bubble's. [Fleet.Pass] and [Fleet.Pause] move the server's
// clock and TTLs and every client's clock together, each at its own offset and
// rate; a takeover moves it while it waits to settle. Nothing polls or renews
// by itself: every command that reaches the server is a line of the test. Only
// tests import this package.
package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// Protocol is how a client of a fleet takes and holds its lock.
type Protocol string

// The protocols. Verbatim is the old clients' protocol; the others are
// getsetlock's.
const (
	Verbatim Protocol = "verbatim"
	Hardened Protocol = "hardened"
	Tokens   Protocol = "modern"
	Bridged  Protocol = "bridge" // the bridge in phase dual: a guard on L
)

// Ours are the protocols that must not fail where Verbatim fails. All adds
// Verbatim.
var (
	Ours = []Protocol{Hardened, Tokens, Bridged}
	All  = append([]Protocol{Verbatim}, Ours...)
)

// takes names the command that takes over a dead holder's key: the nth command
// of that name in one poll.
func (p Protocol) takes() (command string, nth int) {
	switch p {
	case Verbatim:
		return "GETSET", 1
	case Tokens:
		return "SET", 1
	}
	return "EVALSHA", 2 // the first EVALSHA only looks
}

// Fleet is a server, a key and some clients.
type Fleet struct {
	*testing.T
	World   *redistest.World
	Dialect dialect.Dialect
	Lease   time.Duration
	Behind  time.Duration // the bound Behind that getsetlock clients are configured with
	TTL     time.Duration // TTL of getsetlock clients
	members []*Member
	Most    int // the greatest number of members that were at work at once
}

// Key is the lock that every client of a fleet tries to take.
const Key = "lock:stock"

// Run runs a test of that name with a fleet on an embedded server.
func Run(t *testing.T, name string, d dialect.Dialect, lease time.Duration, do func(f *Fleet)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { In(t, d, lease, do) })
}

// In calls do with a fleet on an embedded server.
func In(t *testing.T, d dialect.Dialect, lease time.Duration, do func(f *Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &Fleet{T: t, World: redistest.Bubble(t), Dialect: d, Lease: lease, Behind: dialect.Zero,
			TTL: lease / 4}
		f.World.Info(map[string]string{"run_id": "first"})
		do(f)
	})
}

// Member is one client with its own clock, connection and job.
type Member struct {
	f        *Fleet
	protocol Protocol
	Clock    *redistest.Clock
	wire     *redistest.Wire
	client   *lock.Client
	lease    *lock.Lease
	Working  bool
}

// stall is how long a command may be held at most.
const stall = time.Hour

// Join adds a client of protocol p whose clock is wrong by skew.
func (f *Fleet) Join(p Protocol, skew redistest.Skew) *Member {
	f.Helper()
	m := &Member{f: f, protocol: p, Clock: f.World.Clock(skew), wire: f.World.Wire()}
	var backend backend.Store
	var err error
	// no gaps: they have nothing to do with clocks
	cfg := lock.Config{Clock: m.Clock, RenewEvery: -1, TTL: f.TTL, Politeness: -1}
	terms := dialect.Terms{Lease: f.Lease, Behind: f.Behind}
	old := legacy.Config{Dialect: f.Dialect, Terms: terms, Clock: m.Clock, Timeout: stall}
	switch p {
	case Verbatim:
		old.Mode, cfg.TTL = legacy.Verbatim, f.Lease
		backend, err = legacy.New(m.wire.Pool(), old)
	case Hardened:
		backend, err = legacy.New(m.wire.Pool(), old)
	case Tokens:
		backend, err = modern.New(m.wire.Pool(), modern.Config{Timeout: stall})
	case Bridged:
		backend, err = migrate.New(m.wire.Pool(), migrate.Config{Phases: migrate.Fixed(migrate.Dual),
			Dialect: f.Dialect, Terms: terms, Clock: m.Clock, Timeout: stall})
	}
	if err == nil {
		m.client, err = lock.New(backend, cfg)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.client.Close(ctx) // crashed members still hold their leases
	})
	f.members = append(f.members, m)
	return m
}

// Try polls the key once and reports whether the member holds it now.
func (m *Member) Try() bool {
	m.f.Helper()
	lease, err := m.client.TryAcquire(context.Background(), Key)
	var threw *legacy.ThrownError
	if err != nil && !errors.Is(err, lock.ErrHeld) && !errors.As(err, &threw) {
		m.f.Errorf("TryAcquire: %v", err)
	}
	if lease != nil {
		m.lease, m.Working = lease, true
		m.f.look()
	}
	return lease != nil
}

// Stalls begins a poll and holds it just before the command that would take
// over a dead holder's key. Calling resume lets the poll go on and reports
// whether it won.
func (m *Member) Stalls() (resume func() bool) {
	m.f.Helper()
	command, nth := m.protocol.takes()
	gate := redistest.NewGate()
	m.wire.Fault(redistest.Rule{Command: command, Nth: nth, Do: redistest.HoldRequest(gate)})
	won := make(chan bool, 1)
	go func() { won <- m.Try() }()
	select {
	case <-gate.Reached():
	case <-won:
		m.f.Fatalf("the poll ended before its %s", command)
	}
	return func() bool {
		gate.Open()
		return <-won
	}
}

// Must is Try, and fails the test if the poll does not win.
func (m *Member) Must() {
	m.f.Helper()
	if !m.Try() {
		m.f.Fatalf("%s could not take the key", m.protocol)
	}
}

// AtWork reports whether the member's job runs. A getsetlock client's job stops
// when its lease is lost; an old client never checks.
func (m *Member) AtWork() bool {
	if !m.Working {
		return false
	}
	if m.protocol != Verbatim && m.lease.Err() != nil {
		m.Working = false
	}
	return m.Working
}

// Done ends the job and releases the lock, even if the lease has ended.
func (m *Member) Done() {
	m.f.look()
	m.Working = false
	_ = m.lease.Release() // an old client ignores the result
}

// Crash ends the job without a release.
func (m *Member) Crash() { m.Working = false }

// look counts the members at work.
func (f *Fleet) look() {
	n := 0
	for _, m := range f.members {
		if m.AtWork() {
			n++
		}
	}
	f.Most = max(f.Most, n)
}

// Pass moves time by d. Getsetlock clients renew on the way, as they do in
// production.
func (f *Fleet) Pass(d time.Duration) {
	for d > 0 {
		step := min(d, f.TTL/3)
		f.World.Pass(step)
		d -= step
		for _, m := range f.members {
			if m.protocol != Verbatim && m.AtWork() {
				_ = m.lease.Renew(context.Background()) // look notices a loss
			}
		}
		f.look()
	}
}

// Pause moves time by d while every getsetlock client is stopped, so none
// renews.
func (f *Fleet) Pause(d time.Duration) {
	f.World.Pass(d)
	f.look()
}

// Dead sets the key as it is a day after a holder crashed: every clock finds
// its stamp past. A token lock has expired by then, so Dead sets nothing.
func (f *Fleet) Dead(p Protocol) {
	f.Helper()
	if p == Tokens {
		return
	}
	text, err := f.Dialect.Stamp(f.World.Now().Add(-24*time.Hour), f.Lease,
		"00000000-0000-4000-8000-000000000000")
	if err != nil {
		f.Fatal(err)
	}
	if err := f.World.Mini.Set(Key, text); err != nil {
		f.Fatal(err)
	}
}

// Falls runs a scenario once for each protocol. The scenario must go wrong with
// Verbatim and with none of [Ours].
func Falls(t *testing.T, d dialect.Dialect, lease time.Duration,
	scenario func(f *Fleet, p Protocol) (wrong bool)) {
	t.Helper()
	Run(t, "verbatim falls", d, lease, func(f *Fleet) {
		if !scenario(f, Verbatim) {
			f.Error("nothing went wrong")
		}
	})
	for _, p := range Ours {
		Run(t, string(p)+" stands", d, lease, func(f *Fleet) {
			if scenario(f, p) {
				f.Error("it went wrong here too")
			}
		})
	}
}

// Together reports whether two members were ever at work at the same time.
func (f *Fleet) Together() bool {
	f.look()
	return f.Most > 1
}

// Exact is the skew of a clock that shows true time.
var Exact = redistest.Skew{}

// Ahead returns the skew of a clock that is ahead of true time by d.
func Ahead(d time.Duration) redistest.Skew { return redistest.Skew{Offset: d} }

// Behind returns the skew of a clock that is behind true time by d.
func Behind(d time.Duration) redistest.Skew { return redistest.Skew{Offset: -d} }

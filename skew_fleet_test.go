package getsetlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var bg = context.Background()

// protocol is how the clients of a fleet hold their lock.
type protocol string

const (
	verbatim protocol = "verbatim"
	hardened protocol = "hardened"
	tokens   protocol = "modern"
	bridged  protocol = "bridge" // in phase dual: a guard on the old clients' key
)

// ours are the protocols that are to stand where verbatim falls, all is all of them.
var (
	ours = []protocol{hardened, tokens, bridged}
	all  = append([]protocol{verbatim}, ours...)
)

// takes is the command that takes a key which a dead holder left: the nth of that name in a poll.
func (p protocol) takes() (command string, nth int) {
	switch p {
	case verbatim:
		return "GETSET", 1
	case tokens:
		return "SET", 1
	}
	return "EVALSHA", 2 // the first looks
}

// fleet is some clients, one server and one key, in a time that only the test moves. Nobody polls by
// himself and nothing is renewed in the background: every command is a line of the test.
type fleet struct {
	*testing.T
	w       *redistest.World
	dialect dialect.Dialect
	lease   time.Duration
	behind  time.Duration // what getsetlock clients are told of the old clients' distance from the server
	ttl     time.Duration // of ours
	members []*member
	most    int // the greatest number that were at work at once
}

const key = "lock:stock"

func newFleet(t *testing.T, d dialect.Dialect, lease time.Duration) *fleet {
	f := &fleet{T: t, w: redistest.New(t), dialect: d, lease: lease, behind: dialect.Zero, ttl: lease / 4}
	f.w.Run("first")
	return f
}

// member is one client with a clock and a connection of its own, and its job.
type member struct {
	f        *fleet
	protocol protocol
	clock    *redistest.Clock // stamps and judges
	trust    *redistest.Clock // another view of the same, of the Client
	settling <-chan struct{}  // closed when a takeover of ours asks its clock to settle
	wire     *redistest.Wire
	client   *lock.Client
	lease    *lock.Lease
	working  bool
}

func (f *fleet) join(p protocol, skew redistest.Skew) *member {
	f.Helper()
	m := &member{f: f, protocol: p, clock: f.w.Clock(skew), trust: f.w.Clock(skew), wire: f.w.Wire()}
	var backend lock.Backend
	var err error
	cfg := lock.Config{Clock: m.trust, RenewEvery: -1, TTL: f.ttl}
	terms := dialect.Terms{Lease: f.lease, Behind: f.behind}
	switch p {
	case verbatim:
		backend, err = legacy.New(m.wire.Pool(), legacy.Config{Dialect: f.dialect, Terms: terms, Clock: m.clock})
		cfg.TTL = f.lease
	case hardened:
		backend, err = legacy.New(m.wire.Pool(), legacy.Config{Mode: legacy.Hardened, Dialect: f.dialect, Terms: terms, Clock: m.clock})
	case tokens:
		backend, err = modern.New(m.wire.Pool(), modern.Config{})
	case bridged:
		backend, err = migrate.New(m.wire.Pool(), migrate.Config{
			Phases: migrate.Fixed(migrate.Dual), Dialect: f.dialect, Terms: terms, Clock: m.clock,
		})
	}
	if err == nil {
		m.client, err = lock.New(backend, cfg)
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_ = m.client.Close(ctx) // crashed members still hold
	})
	f.members = append(f.members, m)
	return m
}

// try is one poll.
func (m *member) try() bool {
	m.f.Helper()
	return m.end(m.begin())
}

// end awaits a poll, and moves time for the settle of one that took over.
func (m *member) end(got <-chan *lock.Lease) bool {
	var lease *lock.Lease
	select {
	case lease = <-got:
	case <-m.settling:
		m.f.pass(settled)
		lease = <-got
	}
	if lease != nil {
		m.lease, m.working = lease, true
		m.f.look()
	}
	return lease != nil
}

// settled is longer than any settle of these fleets: a gap of a second, and 100 ms.
const settled = 1200 * time.Millisecond

// step moves the member's wall clock.
func (m *member) step(d time.Duration) {
	m.clock.Step(d)
	m.trust.Step(d)
}

// begin starts a poll that a gate may stop on its way.
func (m *member) begin() <-chan *lock.Lease {
	got := make(chan *lock.Lease, 1)
	m.settling = m.clock.AskedTimes(m.clock.Asked() + 1)
	go func() {
		lease, err := m.client.TryAcquire(bg, key)
		var threw *legacy.ThrownError
		if err != nil && !errors.Is(err, lock.ErrHeld) && !errors.As(err, &threw) {
			m.f.Errorf("TryAcquire: %v", err)
		}
		got <- lease
	}()
	return got
}

// stalled begins a poll whose nth command of that name is stopped before it reaches the server. The
// result of resume is whether the poll won in the end.
func (m *member) stalled(command string, nth int) (resume func() bool) {
	m.f.Helper()
	gate := redistest.NewGate()
	m.wire.Fault(redistest.Rule{Command: command, Nth: nth, Do: redistest.HoldRequest(gate)})
	got := m.begin()
	select {
	case <-gate.Reached():
	case lease := <-got:
		m.f.Fatalf("the poll ended before its %s: won %v", command, lease != nil)
	}
	return func() bool {
		gate.Open()
		return m.end(got)
	}
}

// stalls begins a poll that is stopped right before the command that would take what a dead holder left.
func (m *member) stalls() (resume func() bool) {
	m.f.Helper()
	return m.stalled(m.protocol.takes())
}

// must is try where the test is wrong if it fails.
func (m *member) must() {
	m.f.Helper()
	if !m.try() {
		m.f.Fatalf("%s could not take the key", m.protocol)
	}
}

// atWork reports whether the member's job runs. Ours is stopped when its lease is lost; the old
// clients never look.
func (m *member) atWork() bool {
	if !m.working {
		return false
	}
	if m.protocol != verbatim && m.lease.Err() != nil {
		m.working = false
	}
	return m.working
}

// done ends the job and releases, late or not.
func (m *member) done() {
	m.f.look()
	m.working = false
	_ = m.lease.Release() // an old client does not look at what came of it
}

// crash ends the job without a release.
func (m *member) crash() { m.working = false }

// look counts who is at work.
func (f *fleet) look() {
	n := 0
	for _, m := range f.members {
		if m.atWork() {
			n++
		}
	}
	f.most = max(f.most, n)
}

// pass lets time go by; ours renew as they would by themselves.
func (f *fleet) pass(d time.Duration) {
	for d > 0 {
		step := min(d, f.ttl/3)
		f.w.Pass(step)
		d -= step
		for _, m := range f.members {
			if m.protocol != verbatim && m.atWork() {
				_ = m.lease.Renew(bg) // a loss shows by the next look
			}
		}
		f.look()
	}
}

// pause lets time go by in which nobody of ours runs: they are stopped.
func (f *fleet) pause(d time.Duration) {
	f.w.Pass(d)
	f.look()
}

// dead leaves what a holder leaves who crashed long ago: a value whose time is over for every clock, of
// the modern lock nothing any more.
func (f *fleet) dead(p protocol) {
	f.Helper()
	if p == tokens {
		return
	}
	text, err := f.dialect.Stamp(f.w.Now().Add(-24*time.Hour), f.lease, "00000000-0000-4000-8000-000000000000")
	if err != nil {
		f.Fatal(err)
	}
	if err := f.w.Mini.Set(key, text); err != nil {
		f.Fatal(err)
	}
}

// falls runs a scenario under the old rules, where it must go wrong, and under ours, where it must
// not.
func falls(t *testing.T, d dialect.Dialect, lease time.Duration, scenario func(f *fleet, p protocol) (wrong bool)) {
	t.Helper()
	t.Run("verbatim falls", func(t *testing.T) {
		if !scenario(newFleet(t, d, lease), verbatim) {
			t.Error("nothing went wrong")
		}
	})
	for _, p := range ours {
		t.Run(string(p)+" stands", func(t *testing.T) {
			if scenario(newFleet(t, d, lease), p) {
				t.Error("it went wrong here too")
			}
		})
	}
}

// together reports whether two were at work at once.
func (f *fleet) together() bool {
	f.look()
	return f.most > 1
}

var exact = redistest.Skew{}

func ahead(d time.Duration) redistest.Skew { return redistest.Skew{Offset: d} }

func behind(d time.Duration) redistest.Skew { return redistest.Skew{Offset: -d} }

// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
)

// group returns the group of that name.
func (r *Result) group(t *testing.T, name string) Group {
	t.Helper()
	for _, g := range r.Groups {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("no group %q in %+v", name, r.Groups)
	return Group{}
}

func TestOldAndNewClientsSellRightTogether(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Acquisitions = 600 })
	if !res.OK || res.Overlaps != 0 || res.Oversold != 0 || res.Unserved != 0 {
		t.Errorf("%+v", res)
	}
	for _, name := range []string{"old", "new"} {
		if g := res.group(t, name); g.Acquisitions < 40 || g.Commands < int64(g.Acquisitions) ||
			g.WaitP50MS == nil {
			t.Errorf("%+v", g)
		}
	}
	before, after := res.group(t, "old").Takeovers, res.group(t, "new").Takeovers
	if before == 0 || after == 0 || before+after != 4 {
		t.Errorf("of the keys of 4 dead holders old clients took %d over and new ones %d", before, after)
	}
}

// withoutLock is a mixed fleet in which one client only pretends to lock.
func withoutLock(t *testing.T) {
	protocols["test-mutant"] = protocolKind{
		dialect: true,
		groups: func(p Plan) []groupSpec {
			p.Clients--
			return append(mixed(p), groupSpec{
				name: "pretender", protocol: "none", clients: 1, make: newBareHands})
		},
		rules:   legacyRules,
		overrun: pastLease,
	}
	t.Cleanup(func() { delete(protocols, "test-mutant") })
}

func TestOneClientWithoutALockSpoilsTheResult(t *testing.T) {
	withoutLock(t)
	res := rehearse(t, func(p *Plan) { p.Protocol = "test-mutant" })
	if res.OK || res.Oversold == 0 || res.Overlaps == res.OverlapsExcused || res.OversoldExcused != 0 {
		t.Errorf("%+v", res)
	}
}

// The old clients hold for longer than their lease, and the rules know of a
// longer one.
func TestWrongLeaseClaimSpoilsTheResult(t *testing.T) {
	kind := protocols["legacy"]
	kind.rules = func(p Plan) (rules, error) {
		p.Lease = time.Hour
		return legacyRules(p)
	}
	protocols["test-claim"] = kind
	defer delete(protocols, "test-claim")
	res := rehearse(t, func(p *Plan) {
		p.Protocol, p.Lease, p.Acquisitions, p.Poll = "test-claim", 5*time.Second, 60, 500*time.Millisecond
		p.Job = must(dist.Parse("4s..7s"))
	})
	if res.OK || res.Overlaps == res.OverlapsExcused {
		t.Errorf("%+v", res)
	}
}

func TestOverrunIsExcusedAndNoticed(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Overruns, p.Poll = 3, 300*time.Millisecond })
	if !res.OK || res.OverlapsExcused == 0 || len(res.Causes) != 1 || res.Causes[0].Cause != causeOverrun {
		t.Errorf("%+v", res)
	}
	if res.group(t, "old").Lost == 0 {
		t.Errorf("no client noticed a loss: %+v", res)
	}
}

// The new clients go on working after they learned that they lost the lock.
func TestClientsThatIgnoreALossSpoilTheResult(t *testing.T) {
	lost := func(p *Plan) {
		p.Overruns, p.Crashes, p.Acquisitions, p.Clients = 15, 0, 60, 4
		p.Job, p.Poll, p.Patience = must(dist.Parse("7s..8s")), 700*time.Millisecond, time.Hour
		p.Orders = p.Orders[:1]
	}
	res := rehearse(t, lost)
	if !res.OK || res.group(t, "new").Lost == 0 {
		t.Errorf("careful ones: %+v", res)
	}
	kind := protocols["legacy"]
	kind.groups = func(p Plan) []groupSpec {
		specs := mixed(p)
		specs[1].make = func(w *worker) (seller, error) {
			s, err := newLocker(w)
			if err == nil {
				s.(*locker).careful = false
			}
			return s, err
		}
		return specs
	}
	protocols["test-careless"] = kind
	defer delete(protocols, "test-careless")
	res = rehearse(t, func(p *Plan) { lost(p); p.Protocol = "test-careless" })
	if res.OK || res.Overlaps == res.OverlapsExcused {
		t.Errorf("careless ones: %+v", res)
	}
}

func TestBareLockIsSafeUntilItsHolderDies(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol, p.Crashes = "bare", 0 })
	if !res.OK || res.Overlaps != 0 || res.Unserved != 0 {
		t.Errorf("no crash: %+v", res)
	}
	res = rehearse(t, func(p *Plan) { p.Protocol, p.Crashes = "bare", 1 })
	if res.OK || res.Overlaps != 0 || res.Oversold != 0 || res.Unserved == 0 {
		t.Errorf("one crash: %+v", res)
	}
}

// Under the worst clocks, the right ones, and every kind between, every
// guarantee holds, and each violation of the rest has a named cause.
func TestEveryPresetIsBorneOrExcused(t *testing.T) {
	for _, name := range few(simulate.PresetNames()) {
		if preset, _ := simulate.Lookup(name); preset.Clocks.Server.Any() {
			continue // a plan refuses these
		}
		res := rehearse(t, func(p *Plan) {
			p.Preset, p.Lease, p.Poll, p.Acquisitions = name, time.Minute, time.Second, 80
			p.Clients, p.Crashes = 4, 1
		})
		if !res.OK || res.Clocks.Preset != name {
			t.Errorf("%s: %+v", name, res)
		}
		if borne := res.Clocks.SpreadMS <= *res.Clocks.ToldSpreadMS; borne && res.Overlaps > 0 {
			t.Errorf("%s: clocks as the new clients were told, and %d overlaps", name, res.Overlaps)
		}
	}
}

func TestClocksBeyondTheClaimAreExcused(t *testing.T) {
	worst := func(p *Plan) {
		p.Preset, p.Lease, p.Poll, p.Acquisitions = "jepsen", time.Minute, 500*time.Millisecond, 300
		p.Job = must(dist.Parse("100ms..2s"))
	}
	res := rehearse(t, worst)
	if !res.OK || res.OverlapsExcused == 0 || len(res.Causes) != 1 || res.Causes[0].Cause != causeClocks {
		t.Errorf("%+v", res)
	}
	if c := res.Clocks; c.Steps == 0 || c.SpreadMS <= *c.ToldSpreadMS {
		t.Errorf("%+v", c)
	}
	// The same clocks, but the rules believe that the new clients know.
	kind := protocols["legacy"]
	kind.rules = func(p Plan) (rules, error) {
		r, err := legacyRules(p)
		r.spread = 24 * time.Hour
		return r, err
	}
	protocols["test-told"] = kind
	defer delete(protocols, "test-told")
	if res := rehearse(t, func(p *Plan) { worst(p); p.Protocol = "test-told" }); res.OK {
		t.Errorf("%+v", res)
	}
}

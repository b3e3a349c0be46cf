// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
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

// mutate changes a protocol until the test ends.
func mutate(t *testing.T, protocol string, change func(*protocolKind)) {
	was := protocols[protocol]
	mutant := was
	change(&mutant)
	protocols[protocol] = mutant
	t.Cleanup(func() { protocols[protocol] = was })
}

// One client only pretends to lock.
func TestOneClientWithoutALockSpoilsTheResult(t *testing.T) {
	mutate(t, "legacy", func(kind *protocolKind) {
		kind.groups = func(p Plan) []*team {
			p.Clients--
			return append(mixed("hardened", newLocker)(p),
				newTeam("pretender", "none", 1, lockless, bareHands))
		}
	})
	res := rehearse(t, func(*Plan) {})
	if res.OK || res.Oversold == 0 || res.Overlaps == res.OverlapsExcused || res.OversoldExcused != 0 {
		t.Errorf("%+v", res)
	}
}

// The old clients hold for longer than their lease, and the rules know of a
// longer one.
func TestWrongLeaseClaimSpoilsTheResult(t *testing.T) {
	mutate(t, "legacy", func(kind *protocolKind) {
		kind.rules = func(p Plan, _ dialect.Terms) rules {
			p.Lease = time.Hour
			return legacyRules(p, must(p.terms()))
		}
	})
	res := rehearse(t, func(p *Plan) {
		p.Lease, p.Acquisitions, p.Poll = 5*time.Second, 60, 500*time.Millisecond
		p.Job = must(dist.Parse("4s..7s"))
	})
	if res.OK || res.Overlaps == res.OverlapsExcused {
		t.Errorf("%+v", res)
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
	mutate(t, "legacy", func(kind *protocolKind) {
		kind.groups = mixed("hardened", func(w *worker) error {
			err := newLocker(w)
			w.careful = false
			return err
		})
	})
	res = rehearse(t, lost)
	if res.OK || res.Overlaps == res.OverlapsExcused {
		t.Errorf("careless ones: %+v", res)
	}
}

// Under the worst clocks, the right ones, and every kind between, every
// guarantee holds, and each violation of the rest has a named cause.
func TestEveryPresetIsBorneOrExcused(t *testing.T) {
	for _, name := range raced.Few(simulate.PresetNames()) {
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

// The rules believe that the new clients know clocks of which they were not
// told. Without that belief the same clocks are an excuse: docs/guide/clocks.md
// shows such a run.
func TestClocksBeyondTheClaimNeedAnExcuse(t *testing.T) {
	mutate(t, "legacy", func(kind *protocolKind) {
		kind.rules = func(p Plan, t dialect.Terms) rules {
			t.Spread = 24 * time.Hour
			return legacyRules(p, t)
		}
	})
	if res := rehearse(t, func(p *Plan) {
		p.Preset, p.Lease, p.Poll, p.Acquisitions = "jepsen", time.Minute, 500*time.Millisecond, 300
		p.Job = must(dist.Parse("100ms..2s"))
	}); res.OK {
		t.Errorf("%+v", res)
	}
}

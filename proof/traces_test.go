// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

const traces = "testdata/traces/"

// kept reads a trace that the model keeps.
func kept(t *testing.T, file string) model.Trace {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := model.ParseTrace(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// speaks returns the protocol of a scenario's getsetlock clients.
func speaks(t *testing.T, sc model.Scenario) Protocol {
	stays := sc.Ours.To == "" || sc.Ours.To == sc.Ours.Phase
	switch {
	case sc.Ours.Clients == 0:
		return nil
	case sc.Ours.Phase == model.PhaseClean && stays:
		return Modern{}
	case (sc.Ours.Phase == "" || sc.Ours.Phase == model.PhaseObserve) && stays:
		return Hardened{}
	}
	return bridge(t)
}

func bridge(t *testing.T) *Bridge {
	sweep, err := os.ReadFile("../internal/record/sweep.lua")
	if err != nil {
		t.Fatal(err)
	}
	return &Bridge{Sweep: string(sweep)}
}

// Some traces break no getsetlock rule: they are of old clients among
// themselves, or of times that the rules forbid. The real clients follow these
// to their end. Where a rule was broken to find a trace, they follow it as far
// as the rule allows, and then do what the rule says.
func TestEveryKeptTraceReplaysOnTheRealClients(t *testing.T) {
	files, err := filepath.Glob(traces + "*.txt")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		tr := kept(t, file)
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tr.Scenario.Ours.Break != 0 {
				bites(t, tr)
				return
			}
			w, err := model.NewWalk(tr.Scenario)
			if err != nil {
				t.Fatal(err)
			}
			p := NewPlay(t, tr.Scenario, speaks(t, tr.Scenario))
			for _, e := range timed(tr.Events) {
				if leaves(t, e) {
					return
				}
				n := w.Find(e)
				if n < 0 {
					t.Fatalf("the model does not allow %q", e)
				}
				p.Step(w, n)
			}
		})
	}
}

// apart lists the traces that the real clients rightly do not follow, with the
// reason. They are compared up to the event.
var apart = map[string]struct {
	at  model.Event
	why string
}{
	"ClaimThatAWatchContradictsIsVoid-observe": {contradicted, claimed},
	"ClaimThatAWatchContradictsIsVoid-dual":    {contradicted, claimed},
	"EachRuleOfASilencePreventsATrace-an-attempt-that-began-before-it": {
		model.Event{At: 2, Who: "ours1", What: "acquire", Result: "won"}, memberAsks,
	},
	"SilentMemberMeetsNoTarget-an-attempt-that-began-before-it": {
		model.Event{At: 2, Who: "ours2", What: "acquire", Result: "won"}, memberAsks,
	},
	"LookAgeIsOfTheGreatestLease-a-look-a-tick-too-young": {
		model.Event{Who: "old1", What: "clock", Arg: -11, HasArg: true, Result: "greatest"}, oneLease,
	},
	"LookAgeIsOfTheGreatestLease-looks-that-are-as-old-as-the-smallest-lease-asks": {
		model.Event{Who: "old1", What: "clock", Arg: -12, HasArg: true, Result: "greatest"}, oneLease,
	},
	"EachRuleOfHardenedPreventsATrace-trust-from-before-sending": {
		model.Event{At: 6, Who: "ours2", What: "acquire", Result: "takeover"},
		"a takeover is two commands of the real client, and trust counts from the second",
	},
	"TrustBeyondThePTTLReadOutlivesTheMark-observe": {holdersLook, noTracking},
	"TrustBeyondThePTTLReadOutlivesTheMark-dual":    {holdersLook, noTracking},
	"TrustBeyondThePTTLReadOutlivesTheMark-sealed":  {holdersLook, noTracking},
}

var holdersLook = model.Event{Who: "ours1", What: "sample", Result: "kept"}

var contradicted = model.Event{At: 2, Who: "ours1", What: "acquire", Result: "takeover"}

const memberAsks = "a member asks, and the replayed client is given phases without one"

const claimed = "a member reads from the record what contradicts its claim, and the replayed client has its terms alone"

const oneLease = "a real old client has one lease for all its attempts"

const noTracking = "a holder looks between renewals when the server reports a change of its key, and the embedded server has no tracking"

// leaves reports, once for each trace, that it is not followed any further.
func leaves(t *testing.T, e model.Event) bool {
	a, ok := apart[strings.TrimPrefix(t.Name(), "TestEveryKeptTraceReplaysOnTheRealClients/")]
	if ok && a.at == e {
		t.Logf("from %q on the real client behaves differently: %s", e, a.why)
		return true
	}
	return false
}

// timed puts the ticks back between the events.
func timed(events []model.Event) (all []model.Event) {
	now := 0
	for _, e := range events {
		for ; now < e.At; now++ {
			all = append(all, model.Tick)
		}
		all = append(all, e)
	}
	return all
}

// bites follows a trace that was found without a rule, with clients that keep
// the rule.
func bites(t *testing.T, tr model.Trace) {
	full := tr.Scenario
	full.Ours.Break = 0
	w, err := model.NewWalk(full)
	if err != nil {
		t.Fatal(err)
	}
	broken, err := model.NewWalk(tr.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlay(t, full, speaks(t, full))
	for _, e := range timed(tr.Events) {
		if leaves(t, e) {
			return
		}
		if e.What == "sample" && tr.Scenario.Ours.Break == rule("compare and set") {
			p.Halfway(e.Who)
			broken.Take(broken.Find(e))
			continue
		}
		n := w.Find(e)
		if n < 0 {
			instead(t, p, w, e)
			return
		}
		p.Step(w, n)
		broken.Take(broken.Find(e))
		if !same(w.World(), broken.World()) {
			t.Logf("rule %q shows at %q", tr.Scenario.Ours.Break, e)
		}
	}
	t.Logf("every step is one of the full rules, and does no harm")
}

// The kept traces are of phase observe. What is found without the same rules in
// phases dual and sealed is replayed on the bridge.
func TestEachRuleOfHardenedHoldsForTheBridge(t *testing.T) {
	files, err := filepath.Glob(traces + "EachRuleOfHardened*.txt")
	if err != nil {
		t.Fatal(err)
	}
	replayed := 0
	for _, file := range files {
		sc := kept(t, file).Scenario
		if sc.Ours.Break == 0 || sc.Ours.Late {
			continue // times, which are refused; or a late takeover, which the real client does not have
		}
		for _, phase := range []model.Phase{model.PhaseDual, model.PhaseSealed} {
			sc := sc
			sc.Ours.Phase, sc.Ours.NoTombstone = phase, phase == model.PhaseSealed
			x, err := model.Explore(sc)
			if err != nil || !x.Found {
				continue // a rule about stamps
			}
			replayed++
			t.Run(sc.Ours.Break.String()+" in "+string(phase), func(t *testing.T) { bites(t, x.Trace) })
		}
	}
	if replayed < 12 {
		t.Errorf("only %d", replayed)
	}
}

// The token lock alone, with late commands.
func TestEachRuleOfModernPreventsItsTrace(t *testing.T) {
	for _, rule := range []model.Rule{rule("token compared"), rule("trust from before sending")} {
		for _, late := range []bool{false, true} {
			sc := model.Scenario{Olds: model.Olds{Dialect: dialect.Jedis()}}
			sc.Ours = model.Ours{Clients: 3, Phase: model.PhaseClean, TTL: 3, Margin: 1, Stop: 1, Late: late,
				Break: rule}
			x, err := model.Explore(sc)
			if err != nil {
				t.Fatal(err)
			}
			if x.Found {
				t.Run(fmt.Sprint(rule, " late ", late), func(t *testing.T) { bites(t, x.Trace) })
			}
		}
	}
}

// walked takes events by their words.
func walked(t *testing.T, sc model.Scenario, texts ...string) {
	t.Helper()
	w, err := model.NewWalk(sc)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPlay(t, sc, speaks(t, sc))
	for _, text := range texts {
		e := model.Tick
		if text != "tick" {
			tr, err := model.ParseTrace("0 " + text)
			if err != nil {
				t.Fatal(err)
			}
			e = tr.Events[0]
		}
		n := w.Find(e)
		if n < 0 {
			t.Fatalf("no %q among %v", text, w.Next())
		}
		p.Step(w, n)
	}
}

// A release that arrives when its key has ended and another client has it
// leaves that alone. What a late renewal brings is trusted from when it was
// sent.
func TestLateReleasesAndRenewals(t *testing.T) {
	for _, phase := range []model.Phase{model.PhaseClean, model.PhaseObserve, model.PhaseDual} {
		t.Run(string(phase), func(t *testing.T) {
			sc := model.Scenario{Olds: model.Olds{Dialect: dialect.Jedis()}}
			sc.Ours = model.Ours{Clients: 2, Phase: phase, TTL: 3, Stop: 3, Late: true}
			if phase != model.PhaseObserve { // in observe a stamp is left, which has to be taken over
				walked(t, sc, "ours1 send", "ours1 acquire won", "ours1 answer", "tick", "tick", "ours1 stop",
					"tick", "tick",
					"ours2 send", "ours2 acquire won", "ours2 answer", "ours1 release", "ours1 send",
					"ours1 acquire held")
			}
			walked(t, sc, "ours1 send", "ours1 acquire won", "ours1 answer", "tick", "ours1 renew", "tick",
				"ours1 renewed won", "tick", "tick", "ours1 lost")
		})
	}
}

// The model's members all have a phase, unless the rule is broken.
func TestMemberWithoutAPhaseTakesNothing(t *testing.T) {
	sc := kept(t, traces+"EachRuleOfThePhasesPreventsATrace-no-phase-no-lock.txt").Scenario
	sc.Ours.Break = 0
	if err := NewPlay(t, sc, bridge(t)).Phaseless("ours2"); !errors.Is(err, migrate.ErrNoPhase) {
		t.Errorf("a member that never read a record: %v", err)
	}
}

// instead makes the real client do what it does where the rule forbids the
// trace's next event.
func instead(t *testing.T, p *Play, w *model.Walk, e model.Event) {
	for n, o := range w.Next() {
		if o.Who == e.Who && o.What == e.What {
			t.Logf("rule bites at %q: it is %q", e, o)
			p.Step(w, n)
			return
		}
	}
	t.Logf("the full rules have no %q among %v", e, w.Next())
}

func same(a, b model.World) bool {
	if a.L != b.L || a.M != b.M {
		return false
	}
	for i := range a.Ours {
		if a.Ours[i] != b.Ours[i] {
			return false
		}
	}
	return true
}

// rule returns the rule that the model breaks under a name.
func rule(name string) model.Rule {
	r, err := model.RuleOf(name)
	if err != nil {
		panic(err)
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package spec_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// honest is a fleet at the bounds that the rules allow. Old clients' jobs last
// as long as honesty permits, and getsetlock clients have the longest lease of
// the lease rule.
func honest(d dialect.Dialect, old, ours int, p model.Phase, lease, gap, ahead int) model.Scenario {
	sc := model.Scenario{
		Olds: model.Olds{Dialect: d, Old: old, Lease: lease, Gap: gap, Reply: 1, Ahead: ahead}}
	bound := lease
	if d.HasTakeover() {
		bound = lease + slack(d) - ahead - gap
	}
	sc.Job = bound
	// It is known how far the slowest is behind, so that no look is remembered.
	// The explorer forgets looks that have no effect any more, so it would have
	// fewer states than TLC.
	sc.Ours = model.Ours{Clients: ours, Phase: p, TTL: bound, Margin: 1, Stop: 1, Known: true,
		TakeoverMargin: ahead}
	if d.OrMine {
		sc.Ours.Settle = gap + 1
	}
	return sc
}

type change func(*model.Scenario)

func with(sc model.Scenario, changes ...change) model.Scenario {
	for _, c := range changes {
		c(&sc)
	}
	return sc
}

// rule returns the rule that the model breaks under a name.
func rule(name string) model.Rule {
	r, err := model.RuleOf(name)
	if err != nil {
		panic(err)
	}
	return r
}

// goal returns the goal that the model looks for under a name.
func goal(name string) model.Goal {
	var g model.Goal
	if err := g.UnmarshalText([]byte(name)); err != nil {
		panic(err)
	}
	return g
}

func breaks(name string) change   { return func(sc *model.Scenario) { sc.Ours.Break |= rule(name) } }
func upTo(p model.Phase) change   { return func(sc *model.Scenario) { sc.Ours.To = p } }
func longer(sc *model.Scenario)   { sc.Ours.TTL++ }
func longJobs(sc *model.Scenario) { sc.Job++ }
func overrun(what string) change {
	return func(sc *model.Scenario) { sc.Overrun, sc.Goal = true, goal(what) }
}

// toClean is the last step, in which only gates keep old clients away.
func toClean(ours int, change func(*model.Ours)) model.Scenario {
	return with(honest(dialect.Jedis(), 1, ours, model.PhaseModern, 3, 1, 1), upTo(model.PhaseClean),
		func(sc *model.Scenario) { change(&sc.Ours) })
}

func again(o *model.Ours)    { o.Again = true }
func restored(o *model.Ours) { o.Restored = true }
func unheard(o *model.Ours)  { o.Vanishes = true }
func emptied(o *model.Ours)  { o.Empties = true }

// mutant is a world that is harmless with the full rules, and one change that
// must make it harmful.
type mutant struct {
	rule   string // rule of docs/internals/protocol.md §6 or §5, and what the change does to it
	sc     model.Scenario
	change change
}

func mutants() []mutant {
	return slices.Concat(ruleMutants(), settleMutants(), keyMutants(), phaseMutants())
}

// ruleMutants are the mutants of the ten rules, by number.
func ruleMutants() []mutant {
	jedis, pageNil := dialect.Jedis(), dialect.PageNil()
	python, expire := dialect.RedisPy(), dialect.BareExpire()
	observe := honest(jedis, 1, 1, model.PhaseObserve, 4, 1, 1)
	dual := honest(jedis, 1, 1, model.PhaseDual, 4, 1, 1)
	unchanged := with(honest(jedis, 1, 1, model.PhaseDual, 3, 1, 1),
		func(sc *model.Scenario) { sc.Ours.Unchanged, sc.Ours.Sparse = 4, 1 })
	away := with(honest(jedis, 1, 1, model.PhaseDual, 6, 1, 1), func(sc *model.Scenario) {
		sc.Job, sc.Ours.TTL, sc.FleetStep, sc.Rest, sc.Ours.Unchanged, sc.Ours.Sparse = 5, 5, 4, 2, 7, 1
	})
	stepped := func(p model.Phase, undone bool) model.Scenario {
		return with(honest(jedis, 1, 1, p, 6, 1, 1), func(sc *model.Scenario) {
			sc.ServerStep, sc.StepUndone, sc.Ours.Margin = 3, undone, 4
		})
	}
	offset := with(honest(jedis, 2, 1, model.PhaseDual, 3, 1, 1), func(sc *model.Scenario) {
		sc.Behind, sc.Ahead, sc.Ours.Known = 8, -7, false
	})
	fast := with(honest(python, 1, 1, model.PhaseObserve, 4, 1, 1),
		func(sc *model.Scenario) { sc.Behind, sc.Ahead = -2, 3 })
	shortened := func(p model.Phase) model.Scenario {
		return with(honest(jedis, 1, 1, p, 4, 1, 1), func(sc *model.Scenario) { sc.Shorten = sc.Ours.Stop })
	}
	return []mutant{
		{"1: GETSET instead of compare-and-set", observe, breaks("compare and set")},
		{"2: a value that is not a stamp is taken over",
			honest(dialect.Bare(), 1, 1, model.PhaseObserve, 4, 1, 1), breaks("unreadable is held")},
		{"3: a takeover margin a tick too small",
			with(observe, func(sc *model.Scenario) {
				sc.Behind, sc.Ahead, sc.Ours.TakeoverMargin = 2, -1, 1
			}),
			func(sc *model.Scenario) { sc.Ours.TakeoverMargin-- }},
		{"3: a step of the server's clock that is not added, with stamps", stepped(model.PhaseObserve, false),
			breaks("a step is added to behind")},
		{"3: a step of the server's clock that is not added, and is taken back",
			stepped(model.PhaseDual, true), breaks("a step is added to behind")},
		{"3: a takeover at the spread alone, of a fleet that is far behind", offset,
			func(sc *model.Scenario) { sc.Ours.Known = true }},
		{"3: a look a tick too young", offset, func(sc *model.Scenario) { sc.Ours.Look = look(*sc) - 1 }},
		{"4: a stamp that ends with the lease", fast, breaks("stamp beyond every clock")},
		{"3: unchanged for less than the greatest lease", unchanged,
			func(sc *model.Scenario) { sc.Ours.Unchanged -= 2 }},
		{"3: an observation whose last look is too old", away, breaks("fresh samples")},
		{"3: looks that are too far apart", away, func(sc *model.Scenario) { sc.Ours.Sparse = 3 }},
		{"4: a lease a tick longer, with guards", dual, longer},
		{"4: a lease a tick longer, in a dialect that GETSETs a missing key",
			honest(pageNil, 1, 1, model.PhaseDual, 4, 1, 1), longer},
		{"4: a lease a tick longer, in a dialect without slack",
			honest(python, 1, 1, model.PhaseDual, 4, 1, 1), longer},
		{"7: the acquire script looks only at M", observe, breaks("acquire looks at L")},
		{"7: the renewal looks only at M", dual, breaks("renewal looks at L")},
		{"8: M deleted when L is lost",
			with(honest(jedis, 1, 2, model.PhaseObserve, 4, 1, 1), overrun("two of ours hold")),
			breaks("M kept after a loss")},
		{"9: renewals do not restore the tombstone's TTL", honest(expire, 1, 1, model.PhaseSealed, 3, 1, 1),
			breaks("tombstone's TTL restored")},
		{"9: trust beyond the PTTL read, with stamps", shortened(model.PhaseObserve),
			breaks("trust within the PTTL")},
		{"9: trust beyond the PTTL read, with guards", shortened(model.PhaseDual),
			breaks("trust within the PTTL")},
		{"9: trust beyond the PTTL read, with tombstones", shortened(model.PhaseSealed),
			breaks("trust within the PTTL")},
		{"10: the release looks only at M", with(observe, overrun("trampled")), breaks("release looks at L")},
	}
}

// settleMutants are the mutants of rules 5 and 6: what settles and how long.
func settleMutants() []mutant {
	jedis, uuid := dialect.Jedis(), dialect.JedisUUID()
	orMine := honest(uuid, 1, 1, model.PhaseDual, 5, 1, 1)
	orMineStamps := honest(uuid, 1, 1, model.PhaseObserve, 5, 1, 1)
	spared := with(honest(jedis, 1, 1, model.PhaseDual, 5, 1, 1), func(sc *model.Scenario) {
		sc.Goal, sc.Ours.Settle, sc.Ours.SettleAlways = goal("job lost"), 2, true
	})
	return []mutant{
		{"5: no settle, and a job is lost", spared, func(sc *model.Scenario) { sc.Ours.Settle = 0 }},
		{"5: a settle equal to the gap, and a job is lost", spared,
			func(sc *model.Scenario) { sc.Ours.Settle = sc.Gap }},
		{"6: no settle", orMine, func(sc *model.Scenario) { sc.Ours.Settle = 0 }},
		{"6: a settle equal to the gap", orMine, func(sc *model.Scenario) { sc.Ours.Settle = sc.Gap }},
		{"6: a settle only after takeovers", orMine, breaks("settle after every acquisition")},
		{"6: a settle only after takeovers, with stamps", orMineStamps,
			breaks("settle after every acquisition")},
		{"6: an unsettled guard handed over as settled", orMine, breaks("settle passed on")},
		{"6: an unsettled guard replaced by a tombstone", moving(uuid, 4, model.PhaseDual, model.PhaseSealed),
			breaks("unsettled guard deleted")},
	}
}

// keyMutants are the mutants of what proves that a key belongs to a client, for
// how long, and which client gets it next.
func keyMutants() []mutant {
	jedis := dialect.Jedis()
	observe := honest(jedis, 1, 1, model.PhaseObserve, 4, 1, 1)
	// Only a clock that is as far ahead as a getsetlock stamp lies writes its
	// bytes.
	near := func(sc model.Scenario, n int) model.Scenario {
		return with(sc, func(sc *model.Scenario) { sc.Ours.StampAhead = n })
	}
	stamps := near(with(honest(dialect.Gorlock(), 2, 1, model.PhaseObserve, 6, 2, 1),
		func(sc *model.Scenario) { sc.Behind, sc.Ahead = 1, 0 }), 4)
	deaf := with(honest(jedis, 0, 1, model.PhaseObserve, 5, 1, 1), func(sc *model.Scenario) {
		sc.Goal, sc.Ours.Late, sc.Ours.Deaf = goal("lost for nothing"), true, true
	})
	return []mutant{
		{"§4: one key instead of two",
			with(honest(jedis, 1, 2, model.PhaseDual, 4, 1, 1), overrun("two of ours hold")),
			breaks("two keys")},
		{"§4: a client takes any token on M for its own", honest(jedis, 0, 2, model.PhaseObserve, 4, 1, 1),
			breaks("token compared")},
		{"§4: a stamp known by its bytes alone", near(with(observe, overrun("loss unnoticed")), 1),
			breaks("mark has a TTL")},
		{"§4: one token for all attempts", honest(jedis, 0, 2, model.PhaseClean, 3, 0, 0),
			breaks("token new for every attempt")},
		{"§4: with old clients' TTLs, a stamp known by any TTL", with(stamps, overrun("loss unnoticed")),
			breaks("mark ends with M")},
		{"§4: a stamp that M does not remember", deaf, breaks("stamp remembered in M")},
		{"trust: a margin that omits the time to stop", honest(jedis, 0, 2, model.PhaseDual, 4, 1, 1),
			func(sc *model.Scenario) { sc.Ours.Margin = 0 }},
		{"trust: counted from the reply",
			with(honest(jedis, 0, 2, model.PhaseObserve, 4, 1, 1),
				func(sc *model.Scenario) { sc.Ours.Late = true }), breaks("trust from before sending")},
		{"hand-over: of a grant whose release was sent", honest(jedis, 0, 2, model.PhaseObserve, 4, 1, 1),
			breaks("released grant not passed on")},
	}
}

func moving(d dialect.Dialect, lease int, from, to model.Phase, changes ...change) model.Scenario {
	return with(honest(d, 1, 1, from, lease, 1, 1), append(changes, upTo(to))...)
}

// phaseMutants are the mutants of the record, the registry and the gates.
func phaseMutants() []mutant {
	jedis, expire := dialect.Jedis(), dialect.BareExpire()
	return []mutant{
		{"phases: a member that never read the record locks", honest(jedis, 1, 1, model.PhaseDual, 4, 1, 1),
			breaks("no phase, no lock")},
		{"phases: the record moves without its gates", moving(jedis, 3, model.PhaseSealed, model.PhaseClean),
			breaks("one step at a time")},
		{"phases: a gate that does not wait for old clients",
			moving(jedis, 3, model.PhaseModern, model.PhaseClean), breaks("no old client at the gate")},
		{"phases: an old client pauses for longer than the window",
			moving(jedis, 3, model.PhaseModern, model.PhaseClean),
			breaks("a window as long as old clients pause")},
		{"phases: old clients start before the last lease of clean has ended", toClean(1, again),
			breaks("old clients start last after clean")},
		{"phases: members follow a record that is older than theirs", toClean(1, restored),
			breaks("an older record moves nobody")},
		{"phases: an older record opens gates", toClean(1, restored),
			breaks("an older record opens nothing")},
		{"phases: gates that ask only members with heartbeats, and a job is lost",
			with(toClean(2, unheard), func(sc *model.Scenario) { sc.Goal = goal("job lost") }),
			breaks("a vanished member blocks")},
		{"phases: gates that ask only members with heartbeats, and old clients start",
			with(toClean(2, unheard), func(sc *model.Scenario) { sc.Ours.Again = true }),
			breaks("a vanished member blocks")},
		{"phases: an empty registry opens gates, and a job is lost",
			with(toClean(1, emptied), func(sc *model.Scenario) { sc.Goal = goal("job lost") }),
			breaks("an empty registry closes every gate")},
		{"phases: an empty registry opens gates, and old clients start",
			with(toClean(1, emptied), func(sc *model.Scenario) { sc.Ours.Again = true }),
			breaks("an empty registry closes every gate")},
		{"phases: tombstones deleted before the last lease ended",
			moving(jedis, 3, model.PhaseDual, model.PhaseSealed), breaks("tombstones deleted last")},
		{"phases: a tombstone put back without M",
			moving(jedis, 3, model.PhaseDual, model.PhaseSealed, overrun("loss unnoticed")),
			breaks("tombstone put back only with M")},
		{"phases: the long lease before the gap is over",
			moving(jedis, 3, model.PhaseDual, model.PhaseModern,
				func(sc *model.Scenario) { sc.Ours.Long = 6 }),
			breaks("long lease only after the gap")},
		{"phases: with foreign EXPIREs, observe", honest(expire, 1, 1, model.PhaseObserve, 3, 1, 1), longer},
		{"phases: with foreign EXPIREs, dual", honest(expire, 1, 1, model.PhaseDual, 3, 1, 1), longer},
		{"phases: with foreign EXPIREs, sealed", honest(expire, 1, 1, model.PhaseSealed, 3, 1, 1), longer},
		{"phases: with foreign EXPIREs, modern", honest(expire, 1, 1, model.PhaseModern, 3, 1, 1), longer},
	}
}

// Each rule that the model can break is broken here too.
func TestEachRuleHasItsMutant(t *testing.T) {
	var broken model.Rule
	for _, m := range mutants() {
		broken |= with(m.sc, m.change).Ours.Break
	}
	// Only the explorer has these: a look by several machines, and with several
	// commands.
	broken |= rule("a look read after its reply") | rule("a look ages by elapsed time")
	// It also has those that need a state of their own: a key that is left, the
	// time of heartbeats, a verb in three steps.
	broken |= rule("a key that is left is nobody's") | rule("a field before the record") | rule(
		"the record before an attempt") |
		rule("a lost registry waits for leases") | rule("renewals of an unheard member stop") | rule(
		"attempts of an unheard member stop") |
		rule("the record before the registry") | rule("a step by comparing") |
		rule("an attempt asks after it took the lock") | rule("a record read after a silence") | rule(
		"that record read by a registered member") | rule("a lost record by those who were heard")
	// And those of what a watch measures.
	broken |= rule("only a claim permits") | rule("a contradicted claim is void")
	// And those that need a second store.
	broken |= rule("one target at the gate to clean") | rule("one target when clean is written") | rule(
		"no lock beside another target") | rule("target kept while leases of clean run")
	for _, r := range rules() {
		if broken&r == 0 {
			t.Errorf("no world is without %q", r)
		}
	}
}

// TLC finds what the explorer finds, in as many steps. The trace shows what the
// rule prevents (go test -v prints it).
func TestTLCFindsWhatTheExplorerFinds(t *testing.T) {
	t.Parallel()
	var worlds []world
	for _, m := range mutants() {
		worlds = append(worlds, world{m.rule, with(m.sc, m.change)})
	}
	// Without getsetlock clients, the old clients are as in Verbatim.tla.
	worlds = append(worlds,
		world{"old clients alone, a tick too long",
			with(honest(dialect.Jedis(), 2, 0, model.PhaseObserve, 3, 1, 1), longJobs)},
		world{"old clients alone, or mine", honest(dialect.JedisUUID(), 2, 0, model.PhaseObserve, 3, 1, 1)},
	)
	got := asked(t, worlds)
	for n, w := range worlds {
		x := w.explored(t)
		trace := got.traces[n]
		switch {
		case !x.Found:
			t.Errorf("%s: the explorer finds nothing", w.name)
		case trace == nil:
			t.Errorf("%s: TLC finds nothing; the explorer:\n%s", w.name, x.Trace.Words())
		case len(trace)-1 != x.Trace.Length:
			t.Errorf("%s: TLC needs %d steps, the explorer %d\n%s\n%s", w.name, len(trace)-1, x.Trace.Length,
				words(trace), x.Trace.Words())
		default:
			t.Logf("without rule %s, in %d steps:\n%s", w.name, x.Trace.Length, words(trace))
		}
	}
}

// The worlds keep the full rules at their bounds. Where no two clients are of
// one kind, the explorer cannot merge states by their names. So it counts as
// TLC does: the same states, to the last one.
func TestTLCCountsTheExplorersStates(t *testing.T) {
	t.Parallel()
	worlds, want := harmless(t)
	got := asked(t, worlds)
	for n, trace := range got.traces {
		t.Errorf("%s: TLC finds\n%s", worlds[n].name, words(trace))
	}
	if got.states != want {
		t.Errorf("in %d worlds TLC sees %d states, the explorer %d", len(worlds), got.states, want)
	}
	t.Logf("%d worlds, %d states", len(worlds), got.states)
}

// mostStates bounds the worlds that are searched completely, since TLC is slow.
const mostStates = 11_000

// Promise 1: two getsetlock clients, with an old client that is honest or one
// that is not. The numbers of states are not compared: the explorer merges
// states that differ only in the clients' names, TLC does not.
func TestTwoGetsetlockClientsNeverHoldTogether(t *testing.T) {
	t.Parallel()
	var worlds []world
	add := func(name string, sc model.Scenario) {
		w := world{name, sc}
		if x := w.explored(t); x.Found || !x.Safe() {
			t.Errorf("%s: the explorer does not call it safe", name)
		}
		worlds = append(worlds, w)
	}
	for _, p := range []model.Phase{
		model.PhaseObserve, model.PhaseDual, model.PhaseSealed, model.PhaseModern} {
		add(fmt.Sprintf("honest, %s", p), honest(dialect.Jedis(), 1, 2, p, 4, 1, 0))
		add(fmt.Sprintf("overrunning, %s", p),
			with(honest(dialect.Jedis(), 1, 2, p, 4, 1, 0), overrun("two of ours hold")))
	}
	add("members without heartbeats", toClean(2, unheard))
	got := asked(t, worlds)
	for n, trace := range got.traces {
		t.Errorf("%s: TLC finds\n%s", worlds[n].name, words(trace))
	}
	t.Logf("%d worlds, %d states", len(worlds), got.states)
}

// harmless are worlds with at most one client of each kind, each world once.
func harmless(t *testing.T) (all []world, states int) {
	seen := make(map[model.Scenario]bool)
	add := func(name string, sc model.Scenario) {
		w := world{name, sc}
		x := w.explored(t)
		if x.Found {
			t.Errorf("%s: the explorer finds\n%s", name, x.Trace.Words())
		}
		if !seen[sc] && x.States <= mostStates {
			seen[sc] = true
			all, states = append(all, w), states+x.States
		}
	}
	for _, m := range mutants() {
		if m.sc.Old < 2 && m.sc.Ours.Clients < 2 {
			add("full rules, for "+m.rule, m.sc)
		}
	}
	add("a member without heartbeats", toClean(1, unheard))
	add("a member without heartbeats, and a registry that forgets it", toClean(1, func(o *model.Ours) {
		unheard(o)
		emptied(o)
	}))
	add("a registry that forgets, and an older record", toClean(1, func(o *model.Ours) {
		emptied(o)
		restored(o)
	}))
	phases := []model.Phase{model.PhaseObserve, model.PhaseDual, model.PhaseSealed, model.PhaseModern,
		model.PhaseClean}
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisUUID(), dialect.PageNil(), dialect.RedisPy(), dialect.BareExpire()} {
		lease := 4
		if d.OrMine || !d.HasTakeover() {
			lease = 5 // the settle needs the time
		}
		for n, p := range phases[:4] {
			for _, bounds := range [][2]int{{0, 0}, {1, 0}, {1, 1}} {
				sc := honest(d, 1, 1, p, lease, bounds[0], bounds[1])
				add(fmt.Sprintf("%s %s, gap %d, clocks %d apart", d, p, bounds[0], bounds[1]), sc)
			}
			if d.Name != "RedisPy" {
				add(fmt.Sprintf("%s from %s to %s", d, p, phases[n+1]),
					with(honest(d, 1, 1, p, lease-1, 1, 1), upTo(phases[n+1])))
			}
		}
	}
	return all, states
}

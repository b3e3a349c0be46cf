// SPDX-License-Identifier: Apache-2.0

//go:build real

package spec_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// world is one question for TLC and for the explorer.
type world struct {
	name string
	sc   model.Scenario
}

// record returns the world as an element of Worlds in Bridge.tla. It fails if
// the specification cannot express it.
func (w world) record(t *testing.T) string {
	t.Helper()
	d, o := w.sc.Dialect, w.sc.Ours
	last := o.To
	if last == "" {
		last = o.Phase
	}
	fields := []string{
		field("goal", w.sc.Goal.String()), field("without", without(o.Break)),
		field("old", w.sc.Old), field("ours", o.Clients), field("phase", phase(o.Phase)),
		field("to", phase(last)),
		field("lease", w.sc.Lease), field("job", w.sc.Job), field("gap", w.sc.Gap),
		field("reply", w.sc.Reply), field("rest", w.sc.Rest),
		field("behind", w.sc.Behind), field("ahead", w.sc.Ahead), field("fleetStep", w.sc.FleetStep),
		field("overrun", w.sc.Overrun),
		field("serverStep", w.sc.ServerStep), field("stepUndone", w.sc.StepUndone),
		field("shorten", w.sc.Shorten),
		field("deaf", o.Deaf), field("again", o.Again), field("restored", o.Restored),
		field("vanishes", o.Vanishes), field("empties", o.Empties),
		field("ttl", o.TTL), field("long", o.Long), field("margin", o.Margin), field("stop", o.Stop),
		field("settle", o.Settle), field("settleAlways", o.SettleAlways),
		field("takeoverMargin", o.TakeoverMargin),
		field("known", o.Known), field("look", look(w.sc)), field("far", far(w.sc)),
		field("unchanged", o.Unchanged), field("sparse", o.Sparse), field("late", o.Late),
		field("forget", o.Forget),
		field("slack", slack(d)), field("takeover", d.HasTakeover()), field("orMine", d.OrMine),
		field("anew", d.JudgesAnew), field("restamp", d.Restamp),
		field("onNil",
			said(t, d, map[dialect.NilRule]string{
				dialect.NilGetset: "getset", dialect.NilWaits: "waits", dialect.NilNever: "waits",
				dialect.NilError: "waits"}, d.OnNil)),
		field("wins",
			said(t, d, map[dialect.WinRule]string{
				dialect.WinsSameText: "same", dialect.WinsExpiredOrNil: "nil or expired",
				dialect.WinsEqualNumber: "same", dialect.WinsNever: "same"}, d.Wins)),
		field("release",
			said(t, d, map[dialect.ReleaseRule]string{
				dialect.ReleaseDel: "del", dialect.ReleaseValueAtLeastOwn: "at least own"}, d.Release)),
		field("expire", d.KeyTTL == dialect.TTLEverybody), field("keyTTL", winnersExpire(t, d)),
	}
	return "[" + strings.Join(fields, ", ") + "]"
}

func field(name string, value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%s |-> %q", name, v)
	case bool:
		return fmt.Sprintf("%s |-> %s", name, strings.ToUpper(fmt.Sprint(v)))
	case []string:
		return fmt.Sprintf("%s |-> {%s}", name, strings.Join(v, ", "))
	}
	return fmt.Sprintf("%s |-> %v", name, value)
}

func said[K comparable](t *testing.T, d dialect.Dialect, words map[K]string, key K) string {
	t.Helper()
	word, ok := words[key]
	if !ok {
		t.Fatalf("the specification cannot express clients like %s: %v", d, key)
	}
	return word
}

// winnersExpire reports whether old clients' SETNX sets a TTL, which every
// winner sets again.
func winnersExpire(t *testing.T, d dialect.Dialect) bool {
	t.Helper()
	sets := d.Acquire != dialect.AcquireSetnx
	if sets != (d.KeyTTL == dialect.TTLWinExpire) {
		t.Fatalf("the specification cannot express TTLs like those of %s", d)
	}
	return sets
}

// look returns how old a look has to be: the lease, the slack and one unit.
func look(sc model.Scenario) int {
	if sc.Ours.Look > 0 {
		return sc.Ours.Look
	}
	return sc.Lease + slack(sc.Dialect) + 1
}

// far returns how far beyond its lease a getsetlock stamp lies: as far as the
// explorer's, so that states are the same.
func far(sc model.Scenario) int {
	switch {
	case sc.Ours.Break&rule("stamp beyond every clock") != 0:
		return 0
	case sc.Ours.StampAhead > 0:
		return sc.Ours.StampAhead
	}
	return max(sc.Ahead, 0) + max(-sc.ServerStep, 0) + sc.Lease + sc.Gap + 2
}

// slack returns one tick if the dialect has slack.
func slack(d dialect.Dialect) int {
	if d.Slack > 0 {
		return 1
	}
	return 0
}

func phase(p model.Phase) int {
	return 1 +
		slices.Index([]model.Phase{model.PhaseObserve, model.PhaseDual, model.PhaseSealed, model.PhaseModern,
			model.PhaseClean}, p)
}

// rules returns all rules that the model can break.
func rules() []model.Rule {
	var all []model.Rule
	for r := model.Rule(1); r.String() != ""; r <<= 1 {
		all = append(all, r)
	}
	return all
}

func without(broken model.Rule) []string {
	names := []string{}
	for _, r := range rules() {
		if broken&r != 0 {
			names = append(names, fmt.Sprintf("%q", r))
		}
	}
	return names
}

// explored returns the explorer's answer.
func (w world) explored(t *testing.T) model.Exploration {
	t.Helper()
	x, err := model.Explore(w.sc)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	if !x.Found && !x.Complete {
		t.Fatalf("%s: the explorer did not search all of it", w.name)
	}
	return x
}

// answer is TLC's answer about many worlds in one run.
type answer struct {
	traces map[int][]state // traces by the number of the world that failed, from 0
	states int             // number of different states in all worlds
}

// asked lets TLC search all worlds at once, breadth first. A world that has
// failed is searched no further, so each has one trace, a shortest one.
func asked(t *testing.T, worlds []world) answer {
	t.Helper()
	var all []string
	for _, w := range worlds {
		all = append(all, w.record(t))
	}
	out := module{
		files: []string{"Check.tla", "Check.cfg", "Bridge.tla", "Tombstone.tla"}, name: "Check", goesOn: true,
		text: map[string]string{"Worlds.tla": fmt.Sprintf(
			"---- MODULE Worlds ----\nEXTENDS Integers, Sequences\nWorlds == <<\n%s\n>>\n====\n",
			strings.Join(all, ",\n"))},
	}.check(t)
	return parse(t, out)
}

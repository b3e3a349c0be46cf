// SPDX-License-Identifier: Apache-2.0

//go:build unix

package migrateverb

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// timeFlag is a time flag of migrate, with what plan then knows of the fleet.
type timeFlag struct {
	field string // empty where the flag claims nothing
	zero  bool   // 0s is a value
	basis string // without the flag
	says  string // to 0s that is no value: what is right instead
}

var migrateTimes = map[string]timeFlag{
	"lease": {field: "smallest_lease", basis: "default",
		says: "for the lease that is recorded; where none is, the gate to dual asks for it"},
	"greatest": {field: "greatest_lease", basis: "unknown", says: "recorded, or else the smallest"},
	"job": {field: "job", basis: "unknown",
		says: "recorded; where there is none, the gate to dual asks for it"},
	"spread": {field: "spread", basis: "unknown", zero: true},
	"gap":    {field: "gap", basis: "unknown", zero: true},
	"behind": {field: "behind", basis: "unknown", zero: true},
	"ahead":  {field: "ahead", basis: "unknown", zero: true},
	"idle": {field: "idle", basis: "unknown",
		says: "where there is none, the gates to sealed and to clean ask for it"},
	"wait": {zero: true},
}

// For each time flag of migrate, 0s and an absent flag differ.
func TestMigrateTellsZeroFromAnAbsentFlag(t *testing.T) {
	tr := newTroupe(t)
	var names []string
	New(&out.Env{}).Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "duration" {
			names = append(names, f.Name)
		}
	})
	if len(names) != len(migrateTimes) || slices.ContainsFunc(names, func(n string) bool {
		_, known := migrateTimes[n]
		return !known
	}) {
		t.Fatalf("this test goes through %d flags, and migrate has %q", len(migrateTimes), names)
	}
	for name, f := range migrateTimes {
		if f.field == "" {
			tr.ends(1, tr.verb("advance", "--"+name, "0s"))
			tr.ends(out.CodeUse, tr.verb("advance", "--"+name, "-1s"))
			continue
		}
		plan := func(code int, args ...string) clitest.Screen {
			args = append([]string{"plan", "--json", "--dialect", "jedis"}, args...)
			return tr.ends(code, tr.verb(args...))
		}
		wants := func(basis string, ms any, args ...string) {
			a := clitest.AnswerOf(t, plan(0, args...))
			k := "fleet." + f.field
			if time := a.At(k + ".time_ms"); a.At(k+".basis") != basis || time != ms && ms != "some" {
				t.Errorf("%q: %v", args, a.At(k))
			}
		}
		if f.basis == "unknown" {
			wants("unknown", nil)
		} else {
			wants(f.basis, "some")
		}
		plan(out.CodeUse, "--"+name, "-1s")
		wants("claimed", 90000.0, "--"+name, "90s")
		if f.zero {
			wants("claimed", 0.0, "--"+name, "0s")
		} else if s := plan(out.CodeUse, "--"+name, "0s"); !strings.Contains(s.Errors,
			"it must be more than zero; leave the flag out") || !strings.Contains(s.Errors, f.says) {
			t.Errorf("--%s 0s: %s", name, s.Errors)
		}
	}
}

func TestMigrateReadsClaimsOfTheEnvironment(t *testing.T) {
	tr := newTroupe(t)
	tr.Vars[out.EnvBehind], tr.Vars[out.EnvAhead] = "2s", "0s"
	plan := func(field string, args ...string) any {
		return clitest.AnswerOf(t, tr.ends(0, tr.verb(append([]string{"plan", "--json"}, args...)...))).At(
			"fleet." + field + ".time_ms")
	}
	claims := []string{"--behind", "5s", "--dialect", "jedis"}
	if b, a := plan("behind", claims...), plan("ahead", claims...); b != 5000.0 || a != 0.0 {
		t.Errorf("behind %v, ahead %v", b, a)
	}
	// What init recorded without --dialect is a guess.
	if b := plan("behind"); b != nil {
		t.Errorf("behind %v without a dialect", b)
	}
	if s := tr.ends(out.CodeUse, tr.verb("advance", "--behind", "5s")); !strings.Contains(s.Errors,
		"--behind needs --dialect") {
		t.Error(s.Errors)
	}
	tr.Vars[out.EnvBehind] = "soon"
	tr.ends(out.CodeUse, tr.verb("plan"))
	tr.Vars[out.EnvBehind], tr.Vars[out.EnvIdle] = "", "24h"
	if k := plan("idle"); k != 86400000.0 {
		t.Errorf("idle by the environment: %v", k)
	}
	if k := plan("idle", "--idle", "1h"); k != 3600000.0 {
		t.Errorf("idle by the flag: %v", k)
	}
	tr.Vars[out.EnvIdle] = "0s"
	if s := tr.ends(out.CodeUse, tr.verb("plan")); !strings.Contains(s.Errors,
		"unset the variable where the pause is unknown") {
		t.Error(s.Errors)
	}
}

// They are 0 where the member acts by zero.
func TestMembersBoundsAreNullWhileUnknown(t *testing.T) {
	tr := newTroupe(t)
	tr.verb("init")
	m := tr.join("stock", "till")
	a := clitest.AnswerOf(t, tr.ends(0, tr.verb("status", "--json")))
	if a.At("members.0.behind_ms") != nil || a.At("members.0.ahead_ms") != nil {
		t.Error(a)
	}
	b, err := migrate.New(tr.World.Pool(), migrate.Config{
		Phases: m, Dialect: dialect.Jedis(),
		Terms: dialect.Terms{Behind: dialect.Zero, Ahead: 2 * time.Minute},
		Clock: tr.World.Clock(redistest.Skew{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	tr.pass(0)
	a = clitest.AnswerOf(t, tr.ends(0, tr.verb("status", "--json")))
	if a.At("members.0.behind_ms") != 0.0 || a.At("members.0.ahead_ms") != 120000.0 {
		t.Error(a)
	}
}

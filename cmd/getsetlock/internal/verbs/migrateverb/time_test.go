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
	known func(*migrateFleet) *migrateKnown // nil where the flag claims nothing
	zero  bool                              // 0s is a value
	basis string                            // without the flag
	says  string                            // to 0s that is no value: what is right instead
}

var migrateTimes = map[string]timeFlag{
	"lease": {known: func(f *migrateFleet) *migrateKnown { return &f.Lease }, basis: "default",
		says: "for the lease that is recorded; where none is, the gate to dual asks for it"},
	"greatest": {known: func(f *migrateFleet) *migrateKnown { return &f.Greatest }, basis: "unknown",
		says: "recorded, or else the smallest"},
	"job": {known: func(f *migrateFleet) *migrateKnown { return &f.Job }, basis: "unknown",
		says: "recorded; where there is none, the gate to dual asks for it"},
	"spread": {known: func(f *migrateFleet) *migrateKnown { return &f.Spread }, basis: "unknown",
		zero: true},
	"gap": {known: func(f *migrateFleet) *migrateKnown { return &f.Gap }, basis: "unknown", zero: true},
	"behind": {known: func(f *migrateFleet) *migrateKnown { return &f.Behind }, basis: "unknown",
		zero: true},
	"ahead": {known: func(f *migrateFleet) *migrateKnown { return &f.Ahead }, basis: "unknown",
		zero: true},
	"idle": {known: func(f *migrateFleet) *migrateKnown { return &f.Idle }, basis: "unknown",
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
		if f.known == nil {
			tr.ends(1, tr.verb("advance", "--"+name, "0s"))
			tr.ends(out.CodeUse, tr.verb("advance", "--"+name, "-1s"))
			continue
		}
		plan := func(code int, args ...string) (*migrateKnown, clitest.Screen) {
			s := tr.ends(code, tr.verb(append([]string{"plan", "--json", "--dialect", "jedis"}, args...)...))
			if code != 0 {
				return nil, s
			}
			return f.known(answered(t, s).Fleet), s
		}
		if k, s := plan(0); k.Basis != f.basis || (k.Time == nil) != (f.basis == "unknown") {
			t.Errorf("without --%s: %s", name, s.Out)
		}
		plan(out.CodeUse, "--"+name, "-1s")
		if k, s := plan(0, "--"+name, "90s"); k.Basis != "claimed" || k.Time == nil || *k.Time != "90000" {
			t.Errorf("--%s 90s: %s", name, s.Out)
		}
		if !f.zero {
			if _, s := plan(out.CodeUse, "--"+name, "0s"); !strings.Contains(s.Errors,
				"it must be more than zero; leave the flag out") || !strings.Contains(s.Errors, f.says) {
				t.Errorf("--%s 0s: %s", name, s.Errors)
			}
		} else if k, s := plan(0, "--"+name, "0s"); k.Basis != "claimed" || k.Time == nil || *k.Time != "0" {
			t.Errorf("--%s 0s: %s", name, s.Out)
		}
	}
}

func TestMigrateReadsClaimsOfTheEnvironment(t *testing.T) {
	tr := newTroupe(t)
	tr.Vars[out.EnvBehind], tr.Vars[out.EnvAhead] = "2s", "0s"
	f := answered(t, tr.ends(0, tr.verb("plan", "--json", "--behind", "5s", "--dialect", "jedis"))).Fleet
	if f.Behind.Time == nil || *f.Behind.Time != "5000" || f.Ahead.Time == nil || *f.Ahead.Time != "0" {
		t.Errorf("behind %v, ahead %v", f.Behind, f.Ahead)
	}
	// What init recorded without --dialect is a guess.
	if k := answered(t, tr.ends(0, tr.verb("plan", "--json"))).Fleet.Behind; k.Time != nil {
		t.Errorf("behind %+v without a dialect", k)
	}
	if s := tr.ends(out.CodeUse, tr.verb("advance", "--behind", "5s")); !strings.Contains(s.Errors,
		"--behind needs --dialect") {
		t.Error(s.Errors)
	}
	tr.Vars[out.EnvBehind] = "soon"
	tr.ends(out.CodeUse, tr.verb("plan"))
	tr.Vars[out.EnvBehind], tr.Vars[out.EnvIdle] = "", "24h"
	if k := answered(t, tr.ends(0, tr.verb("plan", "--json"))).Fleet.Idle; k.Time == nil ||
		*k.Time != "86400000" {
		t.Errorf("idle by the environment: %+v", k)
	}
	if k := answered(t, tr.ends(0, tr.verb("plan", "--json", "--idle", "1h"))).Fleet.Idle; k.Time == nil ||
		*k.Time != "3600000" {
		t.Errorf("idle by the flag: %+v", k)
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
	a := answered(t, tr.ends(0, tr.verb("status", "--json")))
	if a.Members[0].Behind != nil || a.Members[0].Ahead != nil {
		t.Errorf("%+v", a.Members[0])
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
	a = answered(t, tr.ends(0, tr.verb("status", "--json")))
	if got := a.Members[0]; got.Behind == nil || *got.Behind != "0" || got.Ahead == nil ||
		*got.Ahead != "120000" {
		t.Errorf("%+v", got)
	}
}

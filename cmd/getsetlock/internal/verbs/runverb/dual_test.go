// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// recorded begins a migration and brings it to a phase, without any member.
func recorded(s *clitest.Stage, phase migrate.Phase) {
	s.T.Helper()
	r := migrate.Record{
		Epoch: 7, Phase: phase, Since: s.World.ServerNow(), Dialect: "Jedis", Roster: "nonce",
		Fleet: migrate.Fleet{Lease: migrate.Known{Time: 20 * time.Second, Source: migrate.Claimed}},
	}
	if err := s.World.Mini.Set("gsl:phase:stock", r.String()); err != nil {
		s.T.Fatal(err)
	}
	s.World.Mini.HSet("gsl:roster:stock", "nonce", "nonce")
}

func TestDualHoldsAGuardBesideItsToken(t *testing.T) {
	s := clitest.NewStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.Start(clitest.TokenScript("--protocol dual --lease 1m", "stock:1",
		untilTold(file, `echo "$GETSETLOCK_TOKEN $GETSETLOCK_FENCE"`))...)
	st.Out.Await("\n")
	fields := strings.Fields(st.Out.String())
	guard, _ := s.World.Mini.Get("stock:1")
	mark, _ := s.World.Mini.Get(legacy.MarkKey("stock:1"))
	if len(fields) != 2 || len(guard) != 19 || guard < "4" || mark != fields[0]+" "+guard {
		t.Errorf("printed %q, L %q, M %q", fields, guard, mark)
	}
	s.Want(s.Run(clitest.Script("--wait 0", "stock:1", "echo no")...), 124, "", "is held by")
	touch(t, file)
	s.Want(<-st.Done, 0, st.Out.String(), "")
	wantKeys(s, counterOf("stock:1"))
}

func TestAutoFollowsTheRecordAndSaysGoodbye(t *testing.T) {
	for phase, onL := range map[migrate.Phase]func(string) bool{
		migrate.Observe: func(l string) bool { return len(l) == 13 },
		migrate.Dual:    func(l string) bool { return len(l) == 19 && l < "9223372036854775807" },
		migrate.Sealed:  func(l string) bool { return len(l) == 19 && l < "9223372036854775807" },
		migrate.Clean:   func(l string) bool { return l == "" },
	} {
		s := clitest.NewStage(t)
		recorded(s, phase)
		file := filepath.Join(t.TempDir(), "go")
		st := s.Start(clitest.TokenScript("--protocol auto --namespace stock", "stock:1",
			untilTold(file, `echo "$GETSETLOCK_TOKEN"`))...)
		st.Out.Await("\n")
		if l, _ := s.World.Mini.Get("stock:1"); !onL(l) {
			t.Errorf("%v: key L holds %q", phase, l)
		}
		mark, _ := s.World.Mini.Get(legacy.MarkKey("stock:1"))
		if !strings.HasPrefix(mark, strings.TrimSpace(st.Out.String())) {
			t.Errorf("%v: key M holds %q", phase, mark)
		}
		a := clitest.AnswerOf(t, s.Run("migrate", "status", "--namespace", "stock", "--json"))
		if len(a.All("members")) != 1 || a.At("members.0.name") != "run sh on host7" ||
			a.At("members.0.phase") != phase.String() {
			t.Errorf("%v: members %v", phase, a.At("members"))
		}
		touch(t, file)
		s.Want(<-st.Done, 0, st.Out.String(), "")
		for _, key := range s.World.Mini.Keys() {
			if strings.HasPrefix(key, "gsl:probe:") {
				t.Errorf("%v: left behind: %q", phase, key)
			}
		}
		if n := registered(s); n != 0 {
			t.Errorf("%v: %d members", phase, n)
		}
	}
}

func TestAutoTakesNoLockWithoutARecord(t *testing.T) {
	s := clitest.NewStage(t)
	s.Want(s.Run(clitest.TokenScript("--protocol auto --namespace stock", "stock:1", "echo no")...), 125, "",
		"begin with getsetlock migrate init --namespace stock")
	recorded(s, migrate.Dual)
	s.Want(s.Run(clitest.TokenScript("--protocol auto --namespace stock", "till:1", "echo no")...), 125, "",
		"till:1")
	wantKeys(s, "gsl:phase:stock", "gsl:roster:stock")
}

// The record says that leases are 20 s long, which no lease of a getsetlock
// client may outlast.
func TestAutoKeepsToTheRecordedTimes(t *testing.T) {
	s := clitest.NewStage(t)
	recorded(s, migrate.Dual)
	s.Want(s.Run(clitest.TokenScript("--protocol auto --namespace stock --ttl 30s", "stock:1", "echo no")...),
		125, "", "--ttl 30s is too long")
	s.Want(
		s.Run(clitest.TokenScript("--protocol auto --namespace stock --keep 30s", "stock:1", "echo no")...),
		125, "", "--keep 30s is longer than")
	wantKeys(s, "gsl:phase:stock", "gsl:roster:stock")
}

// registered returns how many members migrate status shows.
func registered(s *clitest.Stage) int {
	status := clitest.AnswerOf(s.T, s.Run("migrate", "status", "--namespace", "stock", "--json"))
	return len(status.All("members"))
}

func TestRunWithKeepStaysRegisteredUntilTheKeyIsFree(t *testing.T) {
	s := clitest.NewStage(t)
	recorded(s, migrate.Dual)
	s.Want(s.Run(clitest.TokenScript("--protocol auto --namespace stock --keep 10s", "stock:1", ":")...), 0,
		"", "")
	if registered(s) != 1 || !s.World.Mini.Exists("stock:1") {
		t.Errorf("left: %q", s.World.Mini.Keys())
	}
	s.World.Pass(13 * time.Second)
	if registered(s) != 0 || s.World.Mini.Exists("stock:1") {
		t.Errorf("left: %q", s.World.Mini.Keys())
	}
}

// The command line's claims take precedence, zero included.
func TestRecordFillsInTheCommandLinesBounds(t *testing.T) {
	recorded := dialect.Terms{Spread: 2, Gap: 3, Behind: 4, Ahead: dialect.Zero}
	got := filled(dialect.Terms{Spread: dialect.Zero, Behind: dialect.Zero}, recorded)
	if want := (dialect.Terms{Spread: dialect.Zero, Gap: 3, Behind: dialect.Zero,
		Ahead: dialect.Zero}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := filled(dialect.Terms{}, recorded); got != recorded {
		t.Errorf("%+v, want %+v", got, recorded)
	}
}

//go:build unix

package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

// recorded begins a migration and brings it to a phase, without any member.
func (s *stage) recorded(phase migrate.Phase) {
	s.t.Helper()
	r := migrate.Record{
		Epoch: 7, Phase: phase, Since: s.world.ServerNow(), Dialect: "Jedis",
		Fleet: migrate.Fleet{Lease: migrate.Known{Time: 20 * time.Second, Source: migrate.Claimed}},
	}
	if err := s.world.Mini.Set("gsl:phase:stock", r.String()); err != nil {
		s.t.Fatal(err)
	}
}

func TestDualHoldsAGuardBesideItsToken(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.start(tokenScript("--protocol dual --lease 1m", "stock:1", untilTold(file, `echo "$GETSETLOCK_TOKEN $GETSETLOCK_FENCE"`))...)
	st.out.await("\n")
	fields := strings.Fields(st.out.String())
	guard, _ := s.world.Mini.Get("stock:1")
	mark, _ := s.world.Mini.Get(legacy.MarkKey("stock:1"))
	if len(fields) != 2 || len(guard) != 19 || guard < "4" || mark != fields[0]+" "+guard {
		t.Errorf("printed %q, L %q, M %q", fields, guard, mark)
	}
	s.want(s.run(script("--wait 0", "stock:1", "echo no")...), 124, "", "is held by")
	touch(t, file)
	s.want(<-st.done, 0, st.out.String(), "")
	s.wantKeys("gsl:fence:")
}

func TestAutoActsByThePhaseOfTheRecordAndSaysGoodbye(t *testing.T) {
	for phase, onL := range map[migrate.Phase]func(string) bool{
		migrate.Observe: func(l string) bool { return len(l) == 13 },
		migrate.Dual:    func(l string) bool { return len(l) == 19 && l < "9223372036854775807" },
		migrate.Sealed:  func(l string) bool { return len(l) == 19 && l < "9223372036854775807" },
		migrate.Clean:   func(l string) bool { return l == "" },
	} {
		s := newStage(t)
		s.recorded(phase)
		file := filepath.Join(t.TempDir(), "go")
		st := s.start(tokenScript("--protocol auto --namespace stock", "stock:1", untilTold(file, `echo "$GETSETLOCK_TOKEN"`))...)
		st.out.await("\n")
		if l, _ := s.world.Mini.Get("stock:1"); !onL(l) {
			t.Errorf("%v: %q stands on the old key", phase, l)
		}
		mark, _ := s.world.Mini.Get(legacy.MarkKey("stock:1"))
		if !strings.HasPrefix(mark, strings.TrimSpace(st.out.String())) {
			t.Errorf("%v: %q stands beside it", phase, mark)
		}
		a := answered(t, s.run("migrate", "status", "--namespace", "stock", "--json"))
		if len(a.Members) != 1 || a.Members[0].Name != "run sh on host7" || *a.Members[0].Phase != phase.String() {
			t.Errorf("%v: members %+v", phase, a.Members)
		}
		touch(t, file)
		s.want(<-st.done, 0, st.out.String(), "")
		for _, key := range s.world.Mini.Keys() {
			if strings.HasPrefix(key, "gsl:member:") || strings.HasPrefix(key, "gsl:probe:") {
				t.Errorf("%v: left behind: %q", phase, key)
			}
		}
	}
}

func TestAutoTakesNoLockWithoutARecordOrOutsideItsNamespace(t *testing.T) {
	s := newStage(t)
	s.want(s.run(tokenScript("--protocol auto --namespace stock", "stock:1", "echo no")...), 125, "", "begin with getsetlock migrate init --namespace stock")
	s.recorded(migrate.Dual)
	s.want(s.run(tokenScript("--protocol auto --namespace stock", "till:1", "echo no")...), 125, "", "till:1")
	s.want(s.run(tokenScript("--protocol auto", "stock:1", "echo no")...), 125, "", "name it by --namespace")
	s.want(s.run(tokenScript("--protocol auto --namespace stock --mode verbatim", "stock:1", "echo no")...), 125, "", "--mode is not for --protocol auto")
	s.want(s.run(tokenScript("--protocol dual --replicas 1", "stock:1", "echo no")...), 125, "", "--replicas is not for --protocol dual")
	s.want(s.run(tokenScript("--protocol fast", "stock:1", "echo no")...), 125, "", "there are modern, legacy, dual, auto")
	s.wantKeys("gsl:phase:stock")
}

// TestAutoGoesByTheRecordedTimes: the record knows of leases of 20 s, which no lock of ours may outlast.
func TestAutoGoesByTheRecordedTimes(t *testing.T) {
	s := newStage(t)
	s.recorded(migrate.Dual)
	s.want(s.run(tokenScript("--protocol auto --namespace stock --ttl 30s", "stock:1", "echo no")...), 125, "", "exceeds")
	s.want(s.run(tokenScript("--protocol auto --namespace stock --keep 30s", "stock:1", "echo no")...), 125, "", "--keep 30s exceeds")
	s.wantKeys("gsl:phase:stock")
}

func TestWhoKeepsTheKeyStaysRegisteredUntilItIsFree(t *testing.T) {
	s := newStage(t)
	s.recorded(migrate.Dual)
	s.want(s.run(tokenScript("--protocol auto --namespace stock --keep 10s", "stock:1", ":")...), 0, "", "")
	registered := func() (n int) {
		for _, key := range s.world.Mini.Keys() {
			if strings.HasPrefix(key, "gsl:member:stock:") {
				n++
			}
		}
		return n
	}
	if registered() != 1 || !s.world.Mini.Exists("stock:1") {
		t.Errorf("left: %q", s.world.Mini.Keys())
	}
	s.world.Pass(13 * time.Second)
	if registered() != 0 || s.world.Mini.Exists("stock:1") {
		t.Errorf("left: %q", s.world.Mini.Keys())
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// onMemory returns a stage without Redis and a store called mem.
func onMemory(t *testing.T) (*clitest.Stage, *clitest.Memory) {
	s := clitest.NewStage(t)
	delete(s.Vars, "GETSETLOCK_REDIS")
	return s, clitest.WithMemory(s)
}

func TestRunHoldsTheLockOfAStore(t *testing.T) {
	s, m := onMemory(t)
	s.Vars["GETSETLOCK_PASSWORD"] = "s3cret"
	got := s.Run("run", "--target", "mem://ann@here/x", "nightly", "--", "sh", "-c",
		`echo "$GETSETLOCK_KEY $GETSETLOCK_TOKEN $GETSETLOCK_TARGET $GETSETLOCK_REDIS."; exit 7`)
	fields := strings.Fields(got.Out)
	if got.Code != 7 || len(fields) != 4 || fields[0] != "nightly" || fields[2] != "mem://ann@here/x" ||
		fields[3] != "." {
		t.Fatalf("%+v", got)
	}
	a, o, closed := m.Opened()
	if a.String() != "mem://ann:***@here:1/x" || o.Password != "s3cret" || o.Note != "host7 sh" ||
		closed != 1 {
		t.Errorf("%v, %+v, closed %d times", a, o, closed)
	}
	if m.Holder("nightly") != "" {
		t.Error("the lock is left behind")
	}
	if keys := s.World.Mini.Keys(); len(keys) != 0 {
		t.Errorf("on Redis: %q", keys)
	}
}

func TestVariableOfAStoreStandsForTheFlag(t *testing.T) {
	s, m := onMemory(t)
	s.Vars["GETSETLOCK_TARGET"] = "mem://here"
	s.Want(s.Run("run", "k", "--", "true"), 0, "", "")
	if a, _, _ := m.Opened(); a.String() != "mem://here:1" {
		t.Errorf("opened %v", a)
	}
}

func TestRunOnABusyLockOfAStoreNamesItsHolder(t *testing.T) {
	s, m := onMemory(t)
	m.Take("k", "other")
	s.Want(s.Run("run", "--target", "mem://here", "--wait", "0", "k", "--", "true"), 124, "",
		`key "k" is held by "a note"`)
	s.Want(s.Run("run", "-q", "--busy-exit", "9", "--target", "mem://here", "--wait", "0", "k", "--", "true"),
		9, "", "")
	s.Want(s.Run("wait", "--target", "mem://here", "--wait", "0", "k"), 124, "",
		`key "k" is held by "a note"`)
	s.Want(s.Run("wait", "--target", "mem://here", "--wait", "0", "free"), 0, "", "")
}

// The outer run's lock may well be held, on the server that it named.
func TestInnerRunElsewhereSaysWhereItAcquires(t *testing.T) {
	const says = "the outer run named another server than "
	s, _ := onMemory(t)
	s.Vars["GETSETLOCK_REDIS"] = "redis://:s3cret@127.0.0.1:1"
	s.Vars[envKey], s.Vars[envToken] = "k", "mine"
	s.Want(s.Run("run", "--target", "mem://here", "k", "--", "echo", "ran"), 0, "ran\n", says+
		"mem://here:1, which does not hold that key for its token; acquiring the lock there too")
	s.Want(s.Run("run", "--redis", s.World.URL(), "k", "--", "echo", "ran"), 0, "ran\n", says+s.World.URL())

	q, _ := clitest.Quorum(t, 3)
	args := []string{"run", "--quorum"}
	for server := range strings.FieldsSeq(q.Vars["GETSETLOCK_REDIS"]) {
		args = append(args, "--redis", server)
	}
	q.Vars["GETSETLOCK_REDIS"], _, _ = strings.Cut(q.Vars["GETSETLOCK_REDIS"], " ")
	q.Vars[envKey], q.Vars[envToken] = "k", "mine"
	q.Want(q.Run(append(args, "k", "--", "echo", "ran")...), 0, "ran\n", says+"a quorum of ")
}

func TestSmallProgramRefusesAStoreAndNamesTheFullOne(t *testing.T) {
	s := clitest.NewStage(t)
	for _, raw := range []string{"etcd://h", "zookeeper://h/x"} {
		s.Want(s.Run("run", "--target", raw, "k", "--", "true"), 125, "",
			"go install github.com/getsetlock/getsetlock/cmd/getsetlock/full/getsetlock@latest")
		s.Want(s.Run("ls", "--target", raw), 2, "", "go install ")
		s.Want(s.Run("unlock", "-y", "--target", raw, "k"), 2, "", "go install ")
	}
}

func TestUnfitNameTakesNothing(t *testing.T) {
	s, m := onMemory(t)
	s.Want(s.Run("run", "--target", "mem://here", "k+", "--", "true"), 125, "",
		`acquiring "k+" on mem://here:1: the name ends with a plus; choose another one`)
	if m.Calls("try") != 0 {
		t.Error("an attempt was made")
	}
}

// A store grants an hour at most. The times of the run fit what is granted.
func TestRunTakesTheLongestTTLOfAStore(t *testing.T) {
	s, _ := onMemory(t)
	s.Want(s.Run("run", "--target", "mem://here", "--ttl", "2h", "k", "--", "true"), 0, "",
		"warning: Memory keeps a session for at most 1h0m0s, so the lock lasts that long after its last renewal, and not 2h0m0s: ")
	s.Want(s.Run("run", "--target", "mem://here", "--ttl", "2h", "--grace", "50m", "k", "--", "true"), 125,
		"", "--grace: 50m0s does not fit a lease of 1h0m0s")
	if got := s.Run("run", "--target", "mem://here", "--ttl", "1h", "k", "--", "true"); got.Errors != "" {
		t.Errorf("%+v", got)
	}
}

// The store is away at first. run asks again every quarter of a second, until
// --wait is over.
func TestRunWaitsForAStoreThatIsAway(t *testing.T) {
	s, m := onMemory(t)
	clock := s.Clock.(*redistest.Clock)
	m.Away(2)
	st := s.Start("run", "--target", "mem://here", "--wait", "1s", "k", "--", "true")
	for range 2 {
		clock.AwaitTimers(1)
		s.World.Tick()
	}
	s.Want(<-st.Done, 0, "", "")

	s, m = onMemory(t)
	clock = s.Clock.(*redistest.Clock)
	m.Away(100)
	st = s.Start("run", "--target", "mem://here", "--wait", "1s", "k", "--", "true")
	for range 4 {
		clock.AwaitTimers(1)
		s.World.Tick()
	}
	s.Want(<-st.Done, 122, "", "connecting to mem://here:1: nobody there")

	s, m = onMemory(t)
	clock = s.Clock.(*redistest.Clock)
	m.Away(14)
	st = s.Start("run", "--target", "mem://here", "--wait", "1m", "k", "--", "true")
	for range 14 {
		clock.AwaitTimers(1)
		s.World.Tick()
	}
	got := <-st.Done
	s.Want(got, 0, "", "waiting: connecting to mem://here:1: nobody there")
	if strings.Count(got.Errors, "waiting:") != 1 {
		t.Errorf("%+v", got)
	}
}

// The question for changes ends with --wait, so that one more look is all that
// may last longer.
func TestWaitGivesUpAStoreThatNeverAnswers(t *testing.T) {
	s, m := onMemory(t)
	m.Silence()
	const says = `asking mem://here:1 whether "k" is free: no answer`
	st := s.Start("wait", "--target", "mem://here", "--wait", "1ms", "k")
	s.Clock.(*redistest.Clock).AwaitTimers(1)
	s.World.Pass(time.Millisecond)
	s.Want(<-st.Done, 122, "", says)
	s.Want(s.Run("wait", "--target", "mem://here", "--wait", "0", "k"), 122, "", says)
}

// A session ends with its process, so the process stays for --keep.
func TestKeepHoldsTheLockOfAStoreLonger(t *testing.T) {
	s, m := onMemory(t)
	st := s.Start("run", "--target", "mem://here", "--keep", "5s", "k", "--", "echo", "done")
	st.Errors.Await("for another 5s (--keep)")
	if m.Holder("k") == "" {
		t.Error("the lock is free")
	}
	// the lock's own, that of the watch over the command, and that of --keep
	s.Clock.(*redistest.Clock).AwaitTimers(3)
	s.World.Pass(5 * time.Second)
	s.Want(<-st.Done, 0, "done\n", "holding")
	if m.Holder("k") != "" {
		t.Error("the lock is left behind")
	}
}

func TestSignalEndsKeepAndLeavesTheLock(t *testing.T) {
	s, m := onMemory(t)
	st := s.Start("run", "--target", "mem://here", "--keep", "5s", "k", "--", "true")
	st.Errors.Await("for another 5s (--keep)")
	s.Signal(syscall.SIGTERM)
	select {
	case got := <-st.Done:
		if got.Code != 0 {
			t.Errorf("%+v", got)
		}
	case <-time.After(redistest.Patience):
		t.Fatal("the signal ended nothing")
	}
	if m.Holder("k") == "" {
		t.Error("the lock was given back")
	}
}

func TestErrorsOfAStoreSayWhatToDo(t *testing.T) {
	s, m := onMemory(t)
	m.Order(locktest.Fault{Op: "try", Err: errors.New("broken")})
	s.Want(s.Run("run", "--target", "mem://here", "--wait", "0", "k", "--", "true"), 125, "",
		`acquiring "k" on mem://here:1: broken; look into the test`)
	s, m = onMemory(t)
	m.Order(locktest.Fault{Op: "try", Err: errors.New(`Config.Chroot "//x" has an empty part`)})
	s.Want(s.Run("run", "--target", "mem://here", "--wait", "0", "k", "--", "true"), 125, "",
		`the chroot "//x" has an empty part`)
}

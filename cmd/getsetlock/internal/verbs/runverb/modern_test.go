// SPDX-License-Identifier: Apache-2.0

//go:build unix

package runverb

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// counterOf returns the key of a lock's fencing numbers, which outlives every
// lock.
func counterOf(key string) string { return names.OfSlot("gsl:fence::", key) }

// untilTold is a shell script that ends when the file exists.
func untilTold(file, before string) string {
	return before + "; until [ -e " + file + " ]; do sleep 0.01; done"
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantKeys(s *clitest.Stage, keys ...string) {
	s.T.Helper()
	if got := s.World.Mini.Keys(); !slices.Equal(got, keys) {
		s.T.Errorf("left behind: %q, want %q", got, keys)
	}
}

func TestModernLockIsATokenWithANote(t *testing.T) {
	s := clitest.NewStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.Start(clitest.TokenScript("", "nightly",
		untilTold(file, `echo "$GETSETLOCK_KEY $GETSETLOCK_TOKEN"`))...)
	st.Out.Await("\n")
	fields := strings.Fields(st.Out.String())
	if len(fields) != 2 || fields[0] != "nightly" || !scope.IsToken(fields[1]) {
		t.Fatalf("%q", fields)
	}
	value, _ := s.World.Mini.Get("nightly")
	if ttl := s.World.Mini.TTL("nightly"); value != fields[1]+" host7 sh" || ttl != 30*time.Second {
		t.Errorf("%q for %v", value, ttl)
	}
	if seen := s.Run("ls"); !strings.Contains(seen.Out, "nightly  held   modern    -        host7 sh") {
		t.Errorf("ls: %s", seen.Out)
	}
	s.Want(s.Run(clitest.TokenScript("--wait 0", "nightly", "echo no")...), 124, "",
		`not acquired at the first try: key "nightly" is held by "`+value+
			`", its lease runs until 12:00:30Z (in 30s) and may be renewed`)
	touch(t, file)
	s.Want(<-st.Done, 0, st.Out.String(), "")
	wantKeys(s, counterOf("nightly"))
}

func TestFlagsOfOldClientsSelectLegacy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours.json")
	if err := os.WriteFile(file, []byte(`{"base": "jedis", "name": "Ours"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, old := range map[string]bool{
		"": false, "--protocol modern": false, "--ttl 20s --namespace n": false,
		"--protocol legacy": true, "--dialect redis-py --lease 1m": true, "--dialect-file " + file: true,
		"--mode hardened": true, "--lease 1m": true, "--spread 1s": true, "--gap 1s": true,
	} {
		s := clitest.NewStage(t)
		st := s.Run(clitest.TokenScript(flags+" --keep 10s", "k", ":")...)
		s.Want(st, 0, "", "")
		if got := s.World.Mini.Exists(legacy.MarkKey("k")); got != old {
			t.Errorf("%q: not legacy: %v", flags, got)
		}
	}
}

func TestFencingNumbersGrowFromRunToRun(t *testing.T) {
	s := clitest.NewStage(t)
	last := int64(0)
	for range 3 {
		got := s.Run(clitest.TokenScript("", "a", `echo "$GETSETLOCK_FENCE"`)...)
		n, err := strconv.ParseInt(strings.TrimSpace(got.Out), 10, 64)
		if err != nil || n <= last || got.Code != 0 {
			t.Fatalf("%d after %d: %+v", n, last, got)
		}
		last = n
	}
	s.Want(s.Run(clitest.TokenScript("--namespace stock", "a", ":")...), 0, "", "")
	wantKeys(s, counterOf("a"), names.OfSlot("gsl:fence:stock:", "a"))
}

func TestEnvironmentHasNothingOfAnotherLock(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_KEY"], s.Vars["GETSETLOCK_TOKEN"], s.Vars["GETSETLOCK_FENCE"] = "outer", clitest.Token,
		"17"
	got := s.Run(clitest.Script("", "k",
		`echo "${GETSETLOCK_FENCE-none} $GETSETLOCK_HELD" | sed "s/$GETSETLOCK_TOKEN/T/"`)...)
	s.Want(got, 0, `none [["outer","`+clitest.Token+`","17"],["k","T",""]]`+"\n", "")
}

func TestTokenLockIsRenewedWhileTheCommandRuns(t *testing.T) {
	s := clitest.NewStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.Start(clitest.TokenScript("", "k", untilTold(file, "echo ready"))...)
	st.Out.Await("ready")
	passTo(s, 95*time.Second)
	if !s.World.Mini.Exists("k") {
		t.Error("the key ended")
	}
	touch(t, file)
	s.Want(<-st.Done, 0, "ready\n", "")
}

func TestKeepLeavesTheRestToTheTokensKey(t *testing.T) {
	s := clitest.NewStage(t)
	got := s.Run(clitest.TokenScript("--keep 90s", "k", `echo "$GETSETLOCK_TOKEN $GETSETLOCK_FENCE"`)...)
	fields := strings.Fields(got.Out)
	value, _ := s.World.Mini.Get("k")
	if ttl := s.World.Mini.TTL("k"); len(fields) != 2 || value != fields[0]+" host7 sh" ||
		ttl != 90*time.Second {
		t.Fatalf("%q for %v; %+v", value, ttl, got)
	}
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo again")...), 124, "", "host7 sh")
	s.World.Pass(90 * time.Second)
	s.Want(s.Run(clitest.TokenScript("--wait 0 --keep 1s", "k", "echo again; kill -KILL $$")...), 137,
		"again\n", "")
	wantKeys(s, counterOf("k"), "k")

	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.Want(s.Run("run", "--keep", "10s", "odd", "--", odd), 126, "", "format")
	wantKeys(s, counterOf("k"), counterOf("odd"), "k")
}

// The waiter is in the queue on the server, and keeps what it gets there.
func TestKeepHoldsForAQueuedWaiter(t *testing.T) {
	s := clitest.NewStage(t)
	s.Clock = lock.Machine // it polls, and no test timer controls that
	s.Patience = -1
	s.World.Mini.Set("k", clitest.Token)
	st := s.Start(clitest.TokenScript("--keep 1h", "k", `echo "$GETSETLOCK_FENCE"`)...)
	st.Errors.Await("waiting: key")
	s.World.Mini.Del("k")
	if got := <-st.Done; got.Code != 0 || len(strings.TrimSpace(got.Out)) < 10 {
		t.Errorf("%+v", got)
	}
	if ttl := s.World.Mini.TTL("k"); ttl <= 30*time.Second || ttl > time.Hour {
		t.Errorf("kept for another %v", ttl)
	}
}

// The value on the key shows that the protocol is the wrong one.
func TestKeyOfTheOtherProtocolIsHeldAndNamed(t *testing.T) {
	s := clitest.NewStage(t)
	stamp := clitest.StampOf(redistest.Start.Add(time.Minute))
	s.World.Mini.Set("old", stamp)
	s.Want(s.Run(clitest.TokenScript("--wait 0", "old", "echo no")...), 124, "", `held by "`+stamp+`" (an old client's timestamp, Jedis or compatible; use --dialect jedis to share this lock, or getsetlock migrate to move off it)`)
	s.World.Mini.Set("uuid", clitest.UUID+":"+stamp)
	s.Want(s.Run(clitest.TokenScript("--wait 0", "uuid", "echo no")...), 124, "",
		"(an old client's timestamp, JedisUUID; use --dialect JedisUUID to")
	s.World.Mini.SetTTL("old", time.Hour)
	s.Want(s.Run(clitest.TokenScript("--wait 0", "old", "echo no")...), 124, "",
		"(an old client's timestamp, Jedis")
	s.World.Mini.Set("ancient", "1072915200000")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "ancient", "echo no")...), 124, "",
		"(an old client's timestamp, of no plausible time; use --dialect to")
	s.World.Mini.HSet("hash", "a", "b")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "hash", "echo no")...), 124, "", "Redisson")
	s.World.Mini.Set("new", clitest.Token+" host8 job")
	s.World.Mini.SetTTL("new", time.Minute)
	s.Want(s.Run(clitest.Script("--wait 0", "new", "echo no")...), 124, "", "(a getsetlock client's token; use --protocol modern to share this lock), its lease runs until 12:01:00Z (in 1m0s) and may be renewed")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "new", "echo no")...), 124, "",
		`held by "`+clitest.Token+` host8 job", its lease runs until 12:01:00Z (in 1m0s) and may be renewed`)
}

func TestErrorNamesABrokenFencingCounter(t *testing.T) {
	s := clitest.NewStage(t)
	s.World.Mini.Set(counterOf("k"), "garbage")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo no")...), 122, "",
		"getsetlock: gsl:fence::{m5p} holds no fencing number")
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo no")...), 122, "",
		"SET it to the greatest number ever drawn, or DEL it")
	s.World.Mini.Del(counterOf("k"))
	s.Want(s.Run(clitest.TokenScript("--wait 0", "k", "echo yes")...), 0, "yes\n", "")
}

// getsetlock's own keys cannot be locks, in any protocol.
func TestRunRefusesKeysOfGetsetlock(t *testing.T) {
	s := clitest.NewStage(t)
	for _, protocol := range []string{"modern", "legacy"} {
		s.Want(s.Run(clitest.TokenScript("--wait 0 --protocol "+protocol, "gsl:fence:", "echo no")...), 125,
			"", "give the lock another name")
	}
	if keys := s.World.Mini.Keys(); len(keys) > 0 {
		t.Errorf("keys were written: %q", keys)
	}
}

// Verbatim sends only what the old client would send, whatever holds the key.
func TestVerbatimDoesNotLookAtTheKey(t *testing.T) {
	s := clitest.NewStage(t)
	s.Clock = lock.Machine // it sleeps after its last attempt too
	s.World.Mini.Set("k", "4102444800000")
	wire := s.World.Wire()
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	s.Want(s.Run(clitest.Script("--mode verbatim --wait 0", "k", "echo no")...), 124, "", "held")
	for _, c := range wire.Sent() {
		if c.Is("EVAL") || c.Is("EVALSHA") {
			t.Errorf("sent %s", c)
		}
	}
}

func TestMissingReplicasAreExitCode122(t *testing.T) {
	s := clitest.NewStage(t)
	w := s.World.Wire(redistest.Rule{
		Command: "WAIT", Times: -1, Do: redistest.Answer("ERR no replicas here")})
	s.Vars["GETSETLOCK_REDIS"] = "redis://" + w.Listen()
	s.Want(s.Run(clitest.TokenScript("--wait 0 --replicas 1", "k", "echo no")...), 122, "",
		"no replicas here")
	if s.World.Mini.Exists("k") {
		t.Error("the key is left")
	}
}

func TestNoteIsPrintableAndFits(t *testing.T) {
	e := &out.Env{Hostname: func() (string, error) { return "h\xff\n", nil }}
	if got := noteOf(e, []string{"/bin/ü b\x01"}); got != "h?? ü b?" {
		t.Errorf("%q", got)
	}
	if got := noteOf(e, []string{"a" + strings.Repeat("é", 200)}); len(got) > longestNote ||
		strings.ContainsRune(got, '\ufffd') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	e.Hostname = func() (string, error) { return "", errors.New("no name") }
	if got := noteOf(e, []string{"sh"}); got != "unknown-host sh" {
		t.Errorf("%q", got)
	}
}

//go:build unix

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// counter is the key of the fencing numbers, which outlives every lock.
const counter = "gsl:fence:"

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

func (s *stage) wantKeys(keys ...string) {
	s.t.Helper()
	if got := s.world.Mini.Keys(); !slices.Equal(got, keys) {
		s.t.Errorf("left behind: %q, want %q", got, keys)
	}
}

func TestWithoutOldClientsTheLockIsATokenWithANote(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.start(tokenScript("", "nightly", untilTold(file, `echo "$GETSETLOCK_KEY $GETSETLOCK_TOKEN"`))...)
	st.out.await("\n")
	fields := strings.Fields(st.out.String())
	if len(fields) != 2 || fields[0] != "nightly" || !scope.IsToken(fields[1]) {
		t.Fatalf("%q", fields)
	}
	value, _ := s.world.Mini.Get("nightly")
	if ttl := s.world.Mini.TTL("nightly"); value != fields[1]+" host7 sh" || ttl != 30*time.Second {
		t.Errorf("%q for %v", value, ttl)
	}
	if seen := s.run("ls"); !strings.Contains(seen.out, "nightly  held   modern    -        host7 sh") {
		t.Errorf("ls: %s", seen.out)
	}
	s.want(s.run(tokenScript("--wait 0", "nightly", "echo no")...), 124, "",
		`not acquired at the first try: key "nightly" is held by "`+value+`", its lease runs until 12:00:30Z (in 30s) and may be renewed`)
	touch(t, file)
	s.want(<-st.done, 0, st.out.String(), "")
	s.wantKeys(counter)
}

func TestTheProtocolFollowsTheCompanyThatTheFlagsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours.json")
	if err := os.WriteFile(file, []byte(`{"base": "jedis", "name": "Ours"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, old := range map[string]bool{
		"": false, "--protocol modern": false, "--ttl 20s --namespace n": false,
		"--protocol legacy": true, "--dialect redis-py --lease 1m": true, "--dialect-file " + file: true,
		"--mode hardened": true, "--lease 1m": true, "--spread 1s": true, "--gap 1s": true,
	} {
		s := newStage(t)
		st := s.run(tokenScript(flags+" --keep 10s", "k", ":")...)
		s.want(st, 0, "", "")
		if got := s.world.Mini.Exists(legacy.MarkKey("k")); got != old {
			t.Errorf("%q: beside old clients: %v", flags, got)
		}
	}
}

func TestFencingNumbersGrowFromRunToRun(t *testing.T) {
	s := newStage(t)
	last := int64(0)
	for _, key := range []string{"a", "a", "b", "a"} {
		got := s.run(tokenScript("", key, `echo "$GETSETLOCK_FENCE"`)...)
		n, err := strconv.ParseInt(strings.TrimSpace(got.out), 10, 64)
		if err != nil || n <= last || got.code != 0 {
			t.Fatalf("%d after %d: %+v", n, last, got)
		}
		last = n
	}
	s.want(s.run(tokenScript("--namespace stock", "a", ":")...), 0, "", "")
	s.wantKeys(counter, counter+"stock")
}

func TestNothingOfAnotherLockIsLeftInTheEnvironment(t *testing.T) {
	s := newStage(t)
	s.vars["GETSETLOCK_KEY"], s.vars["GETSETLOCK_TOKEN"], s.vars["GETSETLOCK_FENCE"] = "outer", aToken, "17"
	got := s.run(script("", "k", `echo "${GETSETLOCK_FENCE-none} $GETSETLOCK_HELD" | sed "s/$GETSETLOCK_TOKEN/T/"`)...)
	s.want(got, 0, `none [["outer","`+aToken+`","17"],["k","T",""]]`+"\n", "")
}

func TestATokenLockTakenByAnotherEndsTheCommandWith123(t *testing.T) {
	s := newStage(t)
	st := s.start(tokenScript("--grace 16s", "k", obeys)...)
	st.out.await("ready")
	s.world.Mini.Set("k", aToken+" host8 job")
	s.passTo(10 * time.Second)
	s.want(<-st.done, 123, "ready\ntold\n", `lease on "k" lost: key "k" is held by another: `)
	if v, _ := s.world.Mini.Get("k"); v != aToken+" host8 job" {
		t.Errorf("another's value became %q", v)
	}
}

func TestATokenLockThatWasDeletedEndsTheCommandWith123(t *testing.T) {
	s := newStage(t)
	st := s.start(tokenScript("--grace 16s", "k", obeys)...)
	st.out.await("ready")
	value, _ := s.world.Mini.Get("k")
	s.want(s.run("unlock", "k", "--value", value), 0, "deleted k\n", "")
	s.passTo(10 * time.Second)
	s.want(<-st.done, 123, "ready\ntold\n", "is gone: it expired, or somebody deleted it")
	s.wantKeys(counter)
}

func TestATokenLockIsRenewedWhileTheCommandRuns(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.start(tokenScript("", "k", untilTold(file, "echo ready"))...)
	st.out.await("ready")
	s.passTo(95 * time.Second)
	if !s.world.Mini.Exists("k") {
		t.Error("the key ended")
	}
	touch(t, file)
	s.want(<-st.done, 0, "ready\n", "")
}

func TestOfATokenLockKeepLeavesTheRestToTheKey(t *testing.T) {
	s := newStage(t)
	got := s.run(tokenScript("--keep 90s", "k", `echo "$GETSETLOCK_TOKEN $GETSETLOCK_FENCE"`)...)
	fields := strings.Fields(got.out)
	value, _ := s.world.Mini.Get("k")
	if ttl := s.world.Mini.TTL("k"); len(fields) != 2 || value != fields[0]+" host7 sh" || ttl != 90*time.Second {
		t.Fatalf("%q for %v; %+v", value, ttl, got)
	}
	s.want(s.run(tokenScript("--wait 0", "k", "echo again")...), 124, "", "host7 sh")
	s.world.Pass(90 * time.Second)
	s.want(s.run(tokenScript("--wait 0 --keep 1s", "k", "echo again; kill -KILL $$")...), 137, "again\n", "")
	s.wantKeys(counter, "k")

	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.want(s.run("run", "--keep", "10s", "odd", "--", odd), 126, "", "format")
	s.wantKeys(counter, "k")
}

func TestWhatIsKeptHidesNoneOfTheProtocolsWaysToWait(t *testing.T) {
	s := newStage(t)
	tokens, err := modern.New(s.world.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer tokens.Close()
	if _, queues := (&keeping{keepable: tokens}).backend().(lock.Queuer); !queues {
		t.Error("waiters do not stand in the line")
	}
	old, err := legacy.New(s.world.Pool(), legacy.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, paces := (&keeping{keepable: old}).backend().(lock.Pacer); !paces {
		t.Error("the old client's pace is lost")
	}
}

// The waiter stands in the line on the server, and keeps what it gets there.
func TestOfATokenLockAWaiterKeepsToo(t *testing.T) {
	s := newStage(t)
	s.clock = lock.Machine // polls, which nobody else times
	s.world.Mini.Set("k", aToken)
	st := s.start(tokenScript("--keep 1h", "k", `echo "$GETSETLOCK_FENCE"`)...)
	st.errors.await("waiting: key")
	s.world.Mini.Del("k")
	if got := <-st.done; got.code != 0 || len(strings.TrimSpace(got.out)) < 10 {
		t.Errorf("%+v", got)
	}
	if ttl := s.world.Mini.TTL("k"); ttl <= 30*time.Second || ttl > time.Hour {
		t.Errorf("kept for another %v", ttl)
	}
}

func TestARunInsideARunOfATokenLockJoins(t *testing.T) {
	s := newStage(t)
	file := filepath.Join(t.TempDir(), "go")
	st := s.start(tokenScript("", "k", untilTold(file, `echo "$GETSETLOCK_TOKEN $GETSETLOCK_FENCE"`))...)
	st.out.await("\n")
	fields := strings.Fields(st.out.String())
	inner := &stage{t: t, world: s.world, clock: s.clock, vars: map[string]string{
		"GETSETLOCK_REDIS": s.world.URL(), "GETSETLOCK_KEY": "k", "GETSETLOCK_TOKEN": fields[0], "GETSETLOCK_FENCE": fields[1],
	}}
	args := tokenScript("--wait 0", "k", "echo inner")
	inner.run(args...)
	if len(inner.replaced) != 1 || !slices.Contains(inner.environ, "GETSETLOCK_FENCE="+fields[1]) {
		t.Errorf("became %q in %q", inner.replaced, inner.environ)
	}
	// A run of another key in between, of the other protocol: the number is not its.
	inner.vars["GETSETLOCK_HELD"] = `[["k","` + fields[0] + `","` + fields[1] + `"],["between","x",""]]`
	inner.vars["GETSETLOCK_KEY"], inner.vars["GETSETLOCK_TOKEN"] = "between", "x"
	delete(inner.vars, "GETSETLOCK_FENCE")
	inner.run(args...)
	for _, v := range []string{"GETSETLOCK_KEY=k", "GETSETLOCK_TOKEN=" + fields[0], "GETSETLOCK_FENCE=" + fields[1], "GETSETLOCK_HELD=" + inner.vars["GETSETLOCK_HELD"]} {
		if len(inner.replaced) != 2 || !slices.Contains(inner.environ, v) {
			t.Errorf("joined through the list without %s: %q", v, inner.environ)
		}
	}
	inner.want(inner.run(append([]string{"run", "--no-join"}, args[1:]...)...), 124, "", "held")
	inner.vars = map[string]string{"GETSETLOCK_REDIS": s.world.URL(), "GETSETLOCK_KEY": "k", "GETSETLOCK_TOKEN": aToken}
	inner.want(inner.run(args...), 124, "", "does not hold it for that token any more")
	touch(t, file)
	<-st.done
	inner.vars["GETSETLOCK_TOKEN"] = fields[0]
	inner.want(inner.run(args...), 0, "inner\n", "does not hold it for that token any more")
}

func TestAnEmptyTokenJoinsNothing(t *testing.T) {
	s := newStage(t)
	s.world.Mini.Set("k", "")
	s.vars["GETSETLOCK_KEY"], s.vars["GETSETLOCK_HELD"] = "k", `[["k",""]]`
	s.want(s.run(tokenScript("--wait 0", "k", "echo no")...), 124, "", "held")
}

// The wrong company is told apart by what stands on the key.
func TestAKeyOfTheOtherProtocolIsHeldAndNamed(t *testing.T) {
	s := newStage(t)
	stamp := stampOf(redistest.Start.Add(time.Minute))
	s.world.Mini.Set("old", stamp)
	s.want(s.run(tokenScript("--wait 0", "old", "echo no")...), 124, "", `held by "`+stamp+`" (a timestamp, as Jedis and 5 others write it; old clients are taken turns with by --dialect, and moved to token locks by getsetlock migrate)`)
	s.world.Mini.Set("uuid", aUUID+":"+stamp)
	s.want(s.run(tokenScript("--wait 0", "uuid", "echo no")...), 124, "", "(a timestamp, as JedisUUID writes it; old")
	s.world.Mini.SetTTL("old", time.Hour)
	s.want(s.run(tokenScript("--wait 0", "old", "echo no")...), 124, "", "(a timestamp, as Jedis")
	s.world.Mini.Set("ancient", "1072915200000")
	s.want(s.run(tokenScript("--wait 0", "ancient", "echo no")...), 124, "", "(a timestamp, of no plausible time; old clients")
	s.world.Mini.HSet("hash", "a", "b")
	s.want(s.run(tokenScript("--wait 0", "hash", "echo no")...), 124, "", "Redisson")
	s.world.Mini.Set("new", aToken+" host8 job")
	s.world.Mini.SetTTL("new", time.Minute)
	s.want(s.run(script("--wait 0", "new", "echo no")...), 124, "", "(a token of ours; such locks are taken turns with by --protocol modern), its lease runs until 12:01:00Z (in 1m0s) and may be renewed")
	s.want(s.run(tokenScript("--wait 0", "new", "echo no")...), 124, "", `held by "`+aToken+` host8 job", its lease runs until 12:01:00Z (in 1m0s) and may be renewed`)
}

func TestACounterThatSomebodyWroteToIsNamedAndWhatToDo(t *testing.T) {
	s := newStage(t)
	s.world.Mini.Set(counter, "garbage")
	s.want(s.run(tokenScript("--wait 0", "k", "echo no")...), 125, "", "getsetlock: gsl:fence: holds no fencing number")
	s.want(s.run(tokenScript("--wait 0", "k", "echo no")...), 125, "", "SET it to the greatest number that was ever given, or DEL it")
	s.world.Mini.Del(counter)
	s.want(s.run(tokenScript("--wait 0", "k", "echo yes")...), 0, "yes\n", "")
}

// What the old client would not send is not sent for it, whoever holds the key.
func TestVerbatimDoesNotLookWhoHoldsAKey(t *testing.T) {
	s := newStage(t)
	s.clock = lock.Machine // it sleeps after its last attempt too
	s.world.Mini.Set("k", "4102444800000")
	wire := s.world.Wire()
	s.vars["GETSETLOCK_REDIS"] = "redis://" + wire.Listen()
	s.want(s.run(script("--mode verbatim --wait 0", "k", "echo no")...), 124, "", "held")
	for _, c := range wire.Sent() {
		if c.Is("EVAL") || c.Is("EVALSHA") {
			t.Errorf("sent %s", c)
		}
	}
}

func TestReplicasThatDoNotAnswerAre125(t *testing.T) {
	s := newStage(t)
	w := s.world.Wire(redistest.Rule{Command: "WAIT", Times: -1, Do: redistest.Answer("ERR no replicas here")})
	s.vars["GETSETLOCK_REDIS"] = "redis://" + w.Listen()
	s.want(s.run(tokenScript("--wait 0 --replicas 1", "k", "echo no")...), 125, "", "no replicas here")
	if s.world.Mini.Exists("k") {
		t.Error("the key is left")
	}
}

func TestANoteIsPrintableAndFits(t *testing.T) {
	e := &Env{Hostname: func() (string, error) { return "h\xff\n", nil }}
	if got := e.note([]string{"/bin/ü b\x01"}); got != "h?? ü b?" {
		t.Errorf("%q", got)
	}
	if got := e.note([]string{"a" + strings.Repeat("é", 200)}); len(got) > longestNote || strings.ContainsRune(got, '\ufffd') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	e.Hostname = func() (string, error) { return "", errors.New("no name") }
	if got := e.note([]string{"sh"}); got != "unknown-host sh" {
		t.Errorf("%q", got)
	}
}

func TestAJoinThatStaysPassesSignalsAndCodesOn(t *testing.T) {
	s := newStage(t)
	s.stays = true
	s.world.Mini.Set("k", aToken+" host8 job")
	s.vars["GETSETLOCK_KEY"], s.vars["GETSETLOCK_TOKEN"] = "k", aToken
	for _, code := range []int{0, 2, 3, 124, 125} {
		s.want(s.run(tokenScript("", "k", "exit "+strconv.Itoa(code))...), code, "", "")
	}
	st := s.start(tokenScript("", "k", obeys)...)
	st.out.await("ready")
	s.signal(syscall.SIGTERM)
	s.want(<-st.done, 0, "ready\ntold\n", "")
}

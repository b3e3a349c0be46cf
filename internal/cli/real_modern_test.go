//go:build real && unix

package cli

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/internal/scope"
)

func TestATokenLockIsKeptOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := b.Start(t, redistest.Options{})
			s := onReal(t, server)
			last := int64(0)
			for range 3 {
				got := s.run(tokenScript("", "k", `echo "$GETSETLOCK_FENCE"`)...)
				n, err := strconv.ParseInt(strings.TrimSpace(got.out), 10, 64)
				if err != nil || n <= last || got.code != 0 {
					t.Fatalf("%d after %d: %+v", n, last, got)
				}
				last = n
			}
			s.want(s.run(tokenScript("--keep 1h", "k", ":")...), 0, "", "")
			s.want(s.run(tokenScript("--wait 0", "k", "echo no")...), 124, "", "host7 sh")
			token, note, _ := strings.Cut(s.valueOf("k"), " ")
			if !scope.IsToken(token) || note != "host7 sh" {
				t.Errorf("%q %q", token, note)
			}
			s.want(s.run("unlock", "k", "--value", token), 0, "deleted k\n", "")
			s.want(s.run("ls"), 0, "", "no locks found")
		})
	}
}

// The server tells of it; the next renewal is a third of an hour away.
func TestAnUnlockedTokenLockEndsTheCommandBeforeTheNextRenewal(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	for _, how := range []string{"unlock", "steal"} {
		s := onReal(t, server)
		st := s.start(tokenScript("--ttl 1h --keep 1h", how, obeys)...)
		st.out.await("ready")
		if how == "unlock" {
			s.want(s.run("unlock", how, "--value", s.valueOf(how)), 0, "deleted unlock\n", "")
			s.want(<-st.done, 123, "ready\ntold\n", "is gone")
			continue
		}
		server.Do("SET", how, aToken, "PX", "3600000")
		s.want(<-st.done, 123, "ready\ntold\n", `is held by another: token "`+aToken+`"`)
	}
}

func TestReplicasMustHaveATokenLock(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	s.want(s.run(tokenScript("--wait 0 --replicas 1", "k", "echo no")...), 125, "", server.Addr()+": 0 of 1 replicas acknowledged it within 100ms; fewer satisfy a smaller --replicas")
	server.StartReplica()
	c := server.Pool().Get()
	defer c.Close()
	for n := 0; n < 1; { // until it acknowledges what this connection writes
		_, err := c.Do("SET", "follows", "1", "PX", 1)
		if err == nil {
			n, err = redis.Int(c.Do("WAIT", 1, 1000))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.want(s.run(tokenScript("--replicas 1", "k", "echo ran")...), 0, "ran\n", "")
	if server.Do("EXISTS", "k").(int64) != 0 {
		t.Error("the key is left")
	}
}

// The lease of an hour keeps the waiter from getting the key in any other way than by the release.
func TestAWaitingRunGetsTheTokenLockOfAnother(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	file := filepath.Join(t.TempDir(), "go")
	first := s.start(tokenScript("--ttl 1h", "k", untilTold(file, "echo ready"))...)
	first.out.await("ready")
	second := s.start(tokenScript("--wait forever --keep 1h", "k", `echo "${GETSETLOCK_FENCE:-none}" | tr 0-9 x`)...)
	second.errors.await("waiting: key \"k\" is held by")
	touch(t, file)
	s.want(<-first.done, 0, "ready\n", "")
	got := <-second.done
	s.want(got, 0, strings.Repeat("x", 16)+"\n", "waiting")
	s.want(s.run("unlock", "k", "--value", s.valueOf("k")), 0, "deleted k\n", "")
}

// Who had the key from the line gives it to the next there, for a second or two. That is less than the
// grace: a command that was started before the key is renewed would be told at once to end.
func TestACommandThatWaitedIsNotToldToEndAtItsStart(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	dir := t.TempDir()
	end := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	start := func(i int) *started {
		return s.start(tokenScript("--wait forever", "k", untilTold(end(i), "trap 'echo told; exit 9' TERM; echo ran"))...)
	}
	holder, waited := start(0), ""
	holder.out.await("ran")
	for i := range 5 {
		next := start(i + 1)
		next.errors.await("waiting: key \"k\" is held by")
		touch(t, end(i))
		s.want(<-holder.done, 0, "ran\n", waited)
		ran := make(chan struct{})
		go func() { next.out.await("ran"); close(ran) }()
		select {
		case <-ran:
		case got := <-next.done:
			t.Fatalf("ended before it was to: %+v", got)
		}
		holder, waited = next, "waiting"
	}
	touch(t, end(5))
	s.want(<-holder.done, 0, "ran\n", waited)
}

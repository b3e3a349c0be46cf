//go:build real && unix

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// onReal is a stage whose server is a real one; time is the machine's. Nothing is given up because the machine
// is busy.
func onReal(t *testing.T, s *redistest.Server) *stage {
	return &stage{t: t, clock: lock.Machine, timeout: time.Minute, vars: map[string]string{"GETSETLOCK_REDIS": s.URL()}}
}

func TestRunAndLsOverTLSUnixSocketsAndAsAUser(t *testing.T) {
	tls := redistest.Real(t, redistest.Options{TLS: true, Password: "s3cret@/x"})
	unix := redistest.Real(t, redistest.Options{Unix: true, Password: "s3cret@/x"})
	plain := redistest.Real(t, redistest.Options{})
	user := plain.User("app", "s3cret@/x", "+@all", "~*")
	for name, c := range map[string]struct{ url, flags string }{
		"TLS": {tls.URL(), "--cacert " + tls.CACert()}, "unix": {unix.URL(), ""}, "user": {user, ""},
	} {
		s := onReal(t, plain)
		s.vars["GETSETLOCK_REDIS"] = c.url
		s.want(s.run(script(c.flags, "k", "echo "+name)...), 0, name+"\n", "")
		got := s.run(append([]string{"ls", "--json"}, strings.Fields(c.flags)...)...)
		s.want(got, 0, got.out, "")
	}
	s := onReal(t, tls)
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "certificate")
}

func TestAUserWithoutRightsIsToldWhichAreMissing(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	s.vars["GETSETLOCK_REDIS"] = server.User("app", "s3cret", "+@all", "-eval", "-evalsha", "~*")
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "this user lacks a right")
	s.want(s.run("ls", "*", "-q"), 0, "", "")
	server.Do("SET", "k", "1")
	s.want(s.run("ls", "-q"), 3, "", "this user lacks a right")
	s.vars["GETSETLOCK_REDIS"] = server.User("other", "s3cret", "+@all", "~other:*")
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "this user lacks a right")
}

func TestAReplicaIsRefused(t *testing.T) {
	replica := redistest.Real(t, redistest.Options{}).StartReplica()
	s := onReal(t, replica)
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "read-only replica")
}

// The server tells of the foreign write; the next renewal is a third of an hour away.
func TestAForeignWriteEndsTheCommandBeforeTheNextRenewal(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	st := s.start(script("--lease 3h --ttl 1h", "k", obeys)...)
	st.out.await("ready")
	server.Do("SET", "k", "12345")
	s.want(<-st.done, 123, "ready\ntold\n", "overwritten by another")
}

func TestAServerThatFallsSilentEndsTheCommandWithinTheLease(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	s.timeout = 0 // as users have it
	st := s.start(script("--lease 4s --ttl 2s --gap 100ms --spread 100ms", "k", obeys)...)
	st.out.await("ready")
	server.Pause()
	defer server.Continue()
	s.want(<-st.done, 123, "ready\ntold\n", "not renewed in time")
}

func TestAServerThatFallsSilentBeforehandIs125(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	s.timeout = 0 // as users have it
	server.Pause()
	defer server.Continue()
	s.want(s.run(script("--wait 0", "k", "echo no")...), 125, "", "silent")
}

func TestLsFindsWrappedKeysByPatternOnEveryServer(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := b.Start(t, redistest.Options{})
			server.Do("SET", springs, stampOf(time.Now().Add(time.Minute)))
			server.Do("SET", "stock", stampOf(time.Now().Add(time.Minute)))
			server.Do("HSET", "hash", "a", "b")
			s := onReal(t, server)
			for _, pattern := range []string{"", "stock", "st*", escaped(springs[:5]) + "*"} {
				got := s.run("ls", "--json", pattern)
				var answer lsAnswer
				if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
					t.Fatalf("%v: %+v", err, got)
				}
				want := 2
				if strings.HasPrefix(pattern, `\`) {
					want = 1
				}
				if len(answer.Locks) != want || answer.Locks[want-1].Encoding != "jdk" {
					t.Errorf("%q: %+v", pattern, answer.Locks)
				}
			}
			s.want(s.run(script("", "k", "echo ran")...), 0, "ran\n", "")
			s.want(s.run(script("--mode verbatim -q", "k", "echo ran")...), 0, "ran\n", "")
			s.want(s.run(script("--keep 5s", "k", "echo ran")...), 0, "ran\n", "")
			s.want(s.run("unlock", "k", "--value", s.valueOf("k")), 0, "deleted k with the token of ours that held it\n", "")
		})
	}
}

func (s *stage) valueOf(key string) string {
	s.t.Helper()
	var answer lsAnswer
	if err := json.Unmarshal([]byte(s.run("ls", "--json", key).out), &answer); err != nil || len(answer.Locks) != 1 {
		s.t.Fatalf("%s: %v %+v", key, err, answer)
	}
	return *answer.Locks[0].Value
}

func TestADialectFileIsObeyed(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := onReal(t, server)
	file := filepath.Join(t.TempDir(), "ours.json")
	if err := os.WriteFile(file, []byte(`{"base": "jedis", "name": "Ours", "key_encoding": "jdk"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(s.run(script("--keep 5s --dialect-file "+file, "stock", ":")...), 0, "", "")
	got := s.run("ls", "stock")
	if !strings.Contains(got.out, escaped(springs)) {
		t.Errorf("%+v", got)
	}
}

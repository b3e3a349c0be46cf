// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package runverb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestRunAndLsOverTLSUnixSocketsAndAsAUser(t *testing.T) {
	tls := redistest.Real(t, redistest.Options{TLS: true, Password: "s3cret@/x"})
	unix := redistest.Real(t, redistest.Options{Unix: true, Password: "s3cret@/x"})
	plain := redistest.Real(t, redistest.Options{})
	user := plain.User("app", "s3cret@/x", "+@all", "~*")
	for name, c := range map[string]struct{ url, flags string }{
		"TLS": {tls.URL(), "--cacert " + tls.CACert()}, "unix": {unix.URL(), ""}, "user": {user, ""},
	} {
		s := clitest.OnReal(t, plain)
		s.Vars["GETSETLOCK_REDIS"] = c.url
		s.Want(s.Run(clitest.Script(c.flags, "k", "echo "+name)...), 0, name+"\n", "")
		got := s.Run(append([]string{"ls", "--json"}, strings.Fields(c.flags)...)...)
		s.Want(got, 0, got.Out, "")
	}
	s := clitest.OnReal(t, tls)
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "", "certificate")
}

// A run inside a run finds the same server by what the outer one hands on,
// also where the outer run got everything by flags.
func TestRunAndItsCommandReachAProtectedServer(t *testing.T) {
	server := redistest.Real(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret"})
	sentinel := server.StartSentinel(redistest.Options{TLS: true, Certs: true, Password: "s3cret2"})
	dir := t.TempDir()
	cert, key := server.ClientCert(dir, "app", time.Hour)
	word := filepath.Join(dir, "word")
	if err := os.WriteFile(word, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clitest.OnReal(t, server)
	s.Vars["GETSETLOCK_SENTINEL_PASSWORD"] = "s3cret2"
	address := "rediss+sentinel://" + sentinel.Addr() + "/m"
	delete(s.Vars, "GETSETLOCK_REDIS")
	flags := "--redis " + address + " --cacert " + server.CACert() + " --cert " + cert + " --key " + key
	names := "$GETSETLOCK_REDIS $GETSETLOCK_PASSWORD_FILE $GETSETLOCK_CERT $GETSETLOCK_KEY_FILE"
	s.Want(s.Run(clitest.Script(flags+" --password-file "+word, "k", "echo "+names)...), 0,
		strings.Join([]string{address, word, cert, key}, " ")+"\n", "")

	s.Want(s.Run(clitest.Script(flags+" --wait 0", "k", "echo no")...), 122, "",
		"the server demands a password, and none was given")
	s.Want(s.Run(append([]string{"ls", "-q"}, strings.Fields(flags)...)...), 3, "",
		"the server demands a password, and none was given")
	s.Vars["GETSETLOCK_PASSWORD_FILE"] = word
	got := s.Run(append([]string{"ls", "--json"}, strings.Fields(flags)...)...)
	s.Want(got, 0, got.Out, "")
}

func TestRunNamesMissingRights(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	s.Vars["GETSETLOCK_REDIS"] = server.User("app", "s3cret", "+@all", "-eval", "-evalsha", "~*")
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "", "this user lacks a right")
	s.Want(s.Run("ls", "*", "-q"), 0, "", "")
	server.Do("SET", "k", "1")
	s.Want(s.Run("ls", "-q"), 3, "", "this user lacks a right")
	s.Vars["GETSETLOCK_REDIS"] = server.User("other", "s3cret", "+@all", "~other:*")
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "", "this user lacks a right")
}

func TestRunRefusesAReplica(t *testing.T) {
	replica := redistest.Real(t, redistest.Options{}).StartReplica()
	s := clitest.OnReal(t, replica)
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "", "read-only replica")
}

// The server reports the foreign write. The next renewal is a third of an hour
// away.
func TestForeignWriteEndsTheCommandBeforeARenewal(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	st := s.Start(clitest.Script("--lease 3h --ttl 1h", "k", obeys)...)
	st.Out.Await("ready")
	server.Do("SET", "k", "12345")
	s.Want(<-st.Done, 123, "ready\ntold\n", "overwritten by another")
}

func TestSilentServerEndsTheCommandWithinTheLease(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	s.Timeout = 0 // the default of users
	st := s.Start(clitest.Script("--lease 4s --ttl 2s --gap 100ms --spread 100ms", "k", obeys)...)
	st.Out.Await("ready")
	server.Pause()
	defer server.Continue()
	s.Want(<-st.Done, 123, "ready\ntold\n", "not renewed in time")
}

func TestServerSilentFromTheStartIsExitCode122(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	s.Timeout = 0 // the default of users
	server.Pause()
	defer server.Continue()
	s.Want(s.Run(clitest.Script("--wait 0", "k", "echo no")...), 122, "",
		"the server is silent: check the network and its load, or wait longer by --wait")
	secure := strings.Replace(s.Vars["GETSETLOCK_REDIS"], "redis://", "rediss://", 1)
	s.Want(s.Run("run", "--redis", secure, "--wait", "0", "k", "--", "true"), out.CodeRunServer, "",
		"the server is silent: if it does not speak TLS at that port, write redis://")
}

func TestRunFollowsADialectFile(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	s := clitest.OnReal(t, server)
	file := filepath.Join(t.TempDir(), "ours.json")
	if err := os.WriteFile(file, []byte(`{"base": "jedis", "name": "Ours", "key_encoding": "jdk"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.Want(s.Run(clitest.Script("--keep 5s --dialect-file "+file, "stock", ":")...), 0, "", "")
	got := s.Run("ls", "stock")
	if !strings.Contains(got.Out, out.Escaped(clitest.Springs)) {
		t.Errorf("%+v", got)
	}
}

// What a short wait has sent is undone when the server goes on, although the
// client has left by then.
func TestShortWaitOnASilentServerLeavesNoKey(t *testing.T) {
	for _, protocol := range []string{"modern", "legacy", "dual"} {
		server := redistest.Real(t, redistest.Options{})
		s := clitest.OnReal(t, server)
		s.Timeout = 0 // the default of users
		// The server knows the scripts then, and does not refuse the attempt.
		s.Want(s.Run(clitest.TokenScript("--protocol "+protocol, "k", ":")...), 0, "", "")
		server.Pause()
		s.Want(s.Run(clitest.TokenScript("-q --wait 500ms --protocol "+protocol, "k", "echo no")...), 122, "",
			"no answer from the store before the wait ended")
		server.Continue()
		server.Do("PING") // the server has worked through what it had received
		for _, key := range []string{"k", "k:gsl"} {
			if server.Do("EXISTS", key).(int64) != 0 {
				t.Errorf("%s: %s is left", protocol, key)
			}
		}
	}
}

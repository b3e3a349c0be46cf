// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// program is the command as users have it, built once for all tests.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == becomeReaper {
		reaper(os.Args[2:])
	}
	folder, err := os.MkdirTemp("", "getsetlock")
	if err == nil {
		program = filepath.Join(folder, "getsetlock")
		var said []byte
		if said, err = exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("building the command: %w\n%s", err, said)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// environment returns the test's own, without variables that name a server or a
// lock, and with the given ones.
func environment(given ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GETSETLOCK_") })
	return append(env, given...)
}

// said is what one start of the command printed.
type said struct {
	code        int
	out, errors string
}

// speak runs the command to its end.
func speak(t *testing.T, env []string, args ...string) said {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(env...), &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Error(err)
		return said{code: -1}
	}
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func want(t *testing.T, got said, code int, out string) {
	t.Helper()
	if got.code != code || got.out != out || got.errors != "" {
		t.Errorf("code %d (want %d)\nstdout %q (want %q)\nstderr %q (want none)", got.code, code, got.out,
			out, got.errors)
	}
}

// ends runs scripts, several at a time, each under its own lock, and expects
// the exit code given with each.
func ends(t *testing.T, scripts map[string]int) {
	t.Helper()
	env := "GETSETLOCK_REDIS=" + redistest.New(t).URL()
	free := make(chan struct{}, 4)
	var all sync.WaitGroup
	for script, code := range scripts {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			got := speak(t, []string{env}, "run", script, "--", "sh", "-c", script)
			if got != (said{code: code}) {
				t.Errorf("%s: %+v, want code %d and no word", script, got, code)
			}
		})
	}
	all.Wait()
}

func TestRunEndsWithEveryExitCodeOfItsCommand(t *testing.T) {
	scripts := map[string]int{}
	for code := range 256 {
		scripts[fmt.Sprint("exit ", code)] = code
	}
	ends(t, scripts)
}

// heed gives the programs that a test starts the default action of signals.
// nohup, or a shell with a background job, starts the test with some signals
// ignored, and programs inherit that. A signal that the test catches has its
// default action in the program.
func heed(t *testing.T, signals ...os.Signal) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	t.Cleanup(func() { signal.Stop(caught) })
}

// ending are the signals that Unix systems share and whose default action ends
// a process.
var ending = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
	unix.SIGKILL, unix.SIGUSR1, unix.SIGSEGV, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
	unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGPROF, unix.SIGSYS,
}

func TestRunEndsWith128AndTheSignalOfItsCommand(t *testing.T) {
	heed(t, ending...)
	scripts := map[string]int{}
	for _, s := range ending {
		n := int(s.(unix.Signal))
		scripts[fmt.Sprint("ulimit -c 0; kill -", n, " $$")] = 128 + n
	}
	ends(t, scripts)
}

func TestRunInsideRunEndsWithTheInnermostCode(t *testing.T) {
	env := "GETSETLOCK_REDIS=" + redistest.New(t).URL()
	for _, code := range []int{0, 1, 2, 3, 122, 123, 124, 125, 126, 127, 255} {
		for _, inner := range []string{"k", "another"} {
			got := speak(t, []string{env}, "run", "k", "--", program, "run", inner, "--", "sh", "-c",
				fmt.Sprint("exit ", code))
			want(t, got, code, "")
		}
	}
}

// Only a flag of the outer run names the server. The environment names an
// address without a server.
func TestRunInsideRunAsksTheServerOfTheFlag(t *testing.T) {
	w := redistest.New(t)
	w.Mini.RequireUserAuth("app", "s3cret@x")
	url := "redis://app:s3cret%40x@" + w.Mini.Addr() + "/3"
	for _, env := range [][]string{nil,
		{"GETSETLOCK_REDIS=redis://127.0.0.1:1/5", "GETSETLOCK_CACERT=/no/such/file"}} {
		w.Mini.FlushAll()
		script := `echo "$GETSETLOCK_REDIS ${GETSETLOCK_CACERT-none} $GETSETLOCK_KEY"`
		got := speak(t, env, "run", "--redis", url, "a", "--",
			program, "run", "--namespace", "inner", "b", "--", "sh", "-c", script)
		want(t, got, 0, url+" none b\n")
		for _, fence := range []string{names.OfSlot("gsl:fence::", "a"),
			names.OfSlot("gsl:fence:inner:", "b")} {
			if !w.Mini.DB(3).Exists(fence) {
				t.Errorf("database 3 has no %s: nothing was locked there", fence)
			}
		}
		// A run that does not join would wait for the outer run, and end with
		// 124.
		got = speak(t, env, "run", "--redis", url, "k", "--", program, "run", "--wait", "0", "k", "--", "sh",
			"-c", script)
		want(t, got, 0, url+" none k\n")
	}
}

// secured is an embedded server behind TLS, and a file with the certificate for
// it. Both come from httptest, whose certificate is valid for 127.0.0.1.
func secured(t *testing.T) (server *miniredis.Miniredis, file string) {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	defer lender.Close()
	server, err := miniredis.RunTLS(&tls.Config{Certificates: lender.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	file = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lender.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server, file
}

func TestRunInsideRunTrustsTheSameCertificates(t *testing.T) {
	server, file := secured(t)
	t.Chdir(filepath.Dir(file))
	flags := []string{"run", "--redis", "rediss://" + server.Addr(), "--cacert", "ca.pem", "k", "--", "sh",
		"-c"}
	inner := program + ` run "$0" -- sh -c 'echo "$GETSETLOCK_CACERT"'`
	for _, key := range []string{"k", "another"} {
		want(t, speak(t, nil, append(flags, "cd / && "+inner, key)...), 0, file+"\n")
	}
	// Another server, in the environment or in a flag, is checked as if there
	// were no outer run.
	plain := redistest.New(t).URL()
	want(t, speak(t, nil, append(flags, "GETSETLOCK_REDIS="+plain+" "+inner, "b")...), 0, "\n")
	want(t,
		speak(t, nil, append(flags, program+" run --redis "+plain+
			` b -- sh -c 'echo "$GETSETLOCK_CACERT"'`)...), 0, "\n")
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestEveryVerbHasExamplesAndALineOfHelp(t *testing.T) {
	for _, c := range Root(&out.Env{}).Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if c.Short == "" || c.Long == "" || !strings.Contains(c.Example, "getsetlock "+c.Name()) {
			t.Errorf("%s: short %q, long of %d bytes, examples %q", c.Name(), c.Short, len(c.Long), c.Example)
		}
	}
}

// A reader sees first what a verb does, then how to call it, in a window of 80
// columns.
func TestHelpFits80ColumnsAndBeginsWithExamples(t *testing.T) {
	s := clitest.NewStage(t)
	verbs := []string{""}
	for _, c := range Root(&out.Env{}).Commands() {
		if !c.Hidden && c.Name() != "help" {
			verbs = append(verbs, c.Name())
		}
	}
	for _, verb := range verbs {
		shown := s.Run(append(strings.Fields(verb), "--help")...).Out
		for _, line := range strings.Split(shown, "\n") {
			if len([]rune(line)) > 80 {
				t.Errorf("%s: wider than 80 columns: %q", verb, line)
			}
		}
		lead, rest, _ := strings.Cut(shown, "\n\n")
		if len([]rune(lead)) > 4*80 || !strings.HasPrefix(rest, "Most people need:\n  ") ||
			strings.Contains(rest, "Examples:") {
			t.Errorf("%s begins with %q and goes on with %.100q", verb, lead, rest)
		}
	}
}

func TestCompletionKnowsDialectsAndShells(t *testing.T) {
	s := clitest.NewStage(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := s.Run("completion", shell); got.Code != 0 || !strings.Contains(got.Out, "getsetlock") ||
			got.Errors != "" {
			t.Errorf("%s: code %d, %d bytes, %q", shell, got.Code, len(got.Out), got.Errors)
		}
	}
	for line, want := range map[string]string{
		"run --dialect redis-p": "RedisPy",
		"ls --dialect jed":      "JedisUUID",
		"run --mode ":           "verbatim",
		"run --protocol ":       "modern",
		"run --wait ":           "forever",
		"completion ":           "zsh",
	} {
		fields := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			fields = append(fields, "")
		}
		got := s.Run(append([]string{"__complete"}, fields...)...)
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q: %q", line, got.Out)
		}
	}
	s.World.Mini.Set("secret-key", "1")
	if got := s.Run("__complete", "ls", ""); strings.Contains(got.Out, "secret-key") {
		t.Error("keys of the server were completed")
	}
}

func TestUnprintableAnswerIsAFailure(t *testing.T) {
	s := clitest.NewStage(t)
	s.Stdout = clitest.Full{}
	stamp := clitest.StampOf(redistest.Start.Add(-time.Hour))
	for _, key := range []string{"k", "another"} {
		if err := s.World.Mini.Set(key, stamp); err != nil {
			t.Fatal(err)
		}
	}
	for line, code := range map[string]int{
		"version": 3, "version --json": 3, "--help": 3, "ls": 3, "ls --json": 3, "completion zsh": 3,
		"run --help":                  125,
		"doctor --match k --lease 1m": 3, "unlock another --value " + stamp: 3,
		"skew --lease 60s --job 5s..90s --clients 2": 3,
	} {
		got := s.Run(strings.Fields(line)...)
		if got.Code != code || strings.Count(got.Errors, "no space left on device") != 1 {
			t.Errorf("%s: code %d, want %d: %s", line, got.Code, code, got.Errors)
		}
	}
	if got := s.Run("ls", "--nonsense"); got.Code != 2 {
		t.Errorf("wrong use: %+v", got)
	}
}

// A file fails with the same errors as a unix socket. Only the socket's error
// gets the advice about sockets.
func TestUnwritableFilesAreNotExplainedAsSockets(t *testing.T) {
	s := clitest.NewStage(t)
	const away = "/nonexistent/file"
	for _, line := range []string{
		"audit --demo --report " + away, "audit --record " + away,
		"audit --report " + away,
		"audit --replay " + away, "skew --lease 60s --job 5s --clients 2 --report " + away,
		"skew --lease 60s --trace " + away, "rehearse --orders " + away, "rehearse --dialect-file " + away,
		"ls --dialect-file " + away,
		"run --dialect-file " + away + " k -- true", "ls --redis rediss://127.0.0.1:1 --cacert " + away,
	} {
		got := s.Run(strings.Fields(line)...)
		if !strings.Contains(got.Errors, away) ||
			!strings.HasSuffix(got.Errors, "no such file or directory\n") {
			t.Errorf("%s: code %d: %s", line, got.Code, got.Errors)
		}
	}
	got := s.Run("ls", "--redis", "unix://"+away)
	if !strings.HasSuffix(got.Errors, "no such file or directory; there is no such socket: check the path and unixsocket in the server's configuration\n") {
		t.Errorf("a missing socket: code %d: %s", got.Code, got.Errors)
	}
}

func TestErrorsNameTheCertificateVariable(t *testing.T) {
	s := clitest.NewStage(t)
	s.Vars["GETSETLOCK_REDIS"], s.Vars["GETSETLOCK_CACERT"] = "rediss://h", "/no/f"
	s.Want(s.Run("ls"), 2, "", "$GETSETLOCK_CACERT: open /no/f")
	s.Want(s.Run("ls", "--cacert", "/no/g"), 2, "", "--cacert: open /no/g")
}

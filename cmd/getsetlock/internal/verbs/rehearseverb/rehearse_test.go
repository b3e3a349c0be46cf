// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// tookHere is what differs between two runs of one seed.
var tookHere = regexp.MustCompile(clitest.HereTook.String() + `|"wall_ms": [0-9.]+`)

func TestRehearse(t *testing.T) {
	binary := clitest.Built(t)
	run := func(t *testing.T, args ...string) clitest.Screen {
		t.Helper()
		return clitest.Speak(t, exec.Command(binary, append([]string{"rehearse"}, args...)...))
	}

	// Two kinds of clients, excused overlaps with and without new clients, and
	// clocks; one kind; what went wrong without a lock; a document.
	t.Run("prints one text for one seed", func(t *testing.T) {
		var all strings.Builder
		for _, line := range []string{
			"--overruns 2 --acquisitions 600 --lease 10s --poll 300ms",
			"--acquisitions 100 --spread 200ms",
			"--protocol watch --acquisitions 400", "--protocol none --acquisitions 400",
			"--protocol watch --acquisitions 40 --seed 18446744073709551615 --json",
		} {
			s := run(t, append(strings.Fields(line), "--quiet")...)
			fmt.Fprintf(&all, "$ getsetlock rehearse %s\n%s%sexit %d\n\n", line,
				tookHere.ReplaceAllString(s.Out, "(here)"), s.Errors, s.Code)
		}
		golden.Check(t, "testdata/answers.txt", all.String())
	})

	t.Run("never reads GETSETLOCK_REDIS", func(t *testing.T) {
		cmd := exec.Command(binary, "rehearse", "--protocol", "watch", "--acquisitions", "10")
		cmd.Env = append(os.Environ(), "GETSETLOCK_REDIS=redis://127.0.0.1:1")
		if s := clitest.Speak(t, cmd); s.Code != 0 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("sells the orders of a file", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "orders.csv")
		if err := os.WriteFile(name, []byte("sku,quantity\ntea,2\nmug,1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := run(t, "--orders", name, "--acquisitions", "60", "--protocol", "watch")
		if s.Code != 0 || !strings.Contains(s.Out, "60 orders: ") {
			t.Errorf("%+v", s)
		}
	})

	t.Run("refuses wrong use by a sentence", func(t *testing.T) { rehearseRefuses(t, run) })
	t.Run("works on a server and leaves it as it was", func(t *testing.T) { rehearseOnServer(t, run) })
	t.Run("ends when interrupted", func(t *testing.T) { rehearseInterrupted(t, binary) })
}

func rehearseRefuses(t *testing.T, run func(*testing.T, ...string) clitest.Screen) {
	broken := filepath.Join(t.TempDir(), "orders.csv")
	if err := os.WriteFile(broken, []byte("sku,quantity\ntea,2\nmug,many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--protocol sealed", []string{"--protocol", "sealed"}},
		{2, "--phases", []string{"--phases", "--protocol", "dual"}},
		{2, "no arguments", []string{"all"}},
		{2, "line 3: quantity \"many\"", []string{"--orders", broken}},
		{2, "no such file", []string{"--orders", broken + ".txt"}},
		{2, "--dialect", []string{"--dialect", "esperanto"}},
		{2, "--lease 0s", []string{"--lease", "0s"}},
		{2, "--preset \"sundial\": must be one of ptp", []string{"--preset", "sundial"}},
		{2, "--latency is for", []string{"--latency", "1ms", "--redis", "redis://127.0.0.1:1"}},
		{2, "--cacert", []string{"--cacert", "ca.pem"}},
		{2, "--redis is empty", []string{"--redis", ""}},
		{2, "--latency", []string{"--latency", "soon"}},
		{3, "connection refused", []string{"--redis", "redis://:geheim@127.0.0.1:1"}},
	} {
		s := run(t, c.args...)
		if s.Code != c.code || !strings.Contains(s.Errors, c.want) || s.Out != "" ||
			strings.Count(s.Errors, "\n") != 1 {
			t.Errorf("%q: exit %d, %q, %q; want exit %d and one line with %q", c.args, s.Code, s.Out,
				s.Errors, c.code, c.want)
		}
		if strings.Contains(s.Errors, "geheim") {
			t.Errorf("%q shows the password: %s", c.args, s.Errors)
		}
	}
}

func rehearseOnServer(t *testing.T, run func(*testing.T, ...string) clitest.Screen) {
	m := redistest.Timely(t)
	m.Set("somebody's", "own")
	s := run(t, "--redis", "redis://"+m.Addr(), "--acquisitions", "40", "--crashes", "0", "--job", "1ms",
		"--json")
	if s.Code != 0 || !strings.Contains(s.Out, `"virtual_ms": null`) ||
		!strings.Contains(s.Out, `"server": "redis://`+m.Addr()+`"`) {
		t.Errorf("%+v", s)
	}
	if keys := m.Keys(); len(keys) != 1 {
		t.Errorf("the server has %q", keys)
	}
}

// rehearseInterrupted waits for the first sign of progress, so that programs
// are at work.
func rehearseInterrupted(t *testing.T, binary string) {
	if runtime.GOOS == "windows" {
		return // Windows has no interrupt that one process can send another
	}
	cmd := exec.Command(binary, "rehearse", "--protocol", "watch", "--acquisitions", "2000000")
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	sign := make([]byte, 1)
	if _, err := errs.Read(sign); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	rest.ReadFrom(errs)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) ||
		!strings.Contains(rest.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("exit %d, %q, %q", code, out.String(), rest.String())
	}
}

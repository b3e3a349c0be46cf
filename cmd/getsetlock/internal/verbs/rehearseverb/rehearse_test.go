// SPDX-License-Identifier: Apache-2.0

package rehearseverb

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestRehearse(t *testing.T) {
	binary := clitest.Built(t)
	run := func(t *testing.T, args ...string) clitest.Spoken {
		t.Helper()
		return clitest.Speak(t, exec.Command(binary, append([]string{"rehearse"}, args...)...))
	}

	t.Run("needs no arguments", func(t *testing.T) {
		s := run(t)
		if s.Code != 0 || !strings.Contains(s.Out, "OK: nothing was oversold.") {
			t.Errorf("%+v", s)
		}
		for _, row := range []string{
			`(?m)^GROUP +PROTOCOL +CLIENTS +ACQUIRED`, `(?m)^old +verbatim +4 `, `(?m)^new +hardened +4 `,
			`(?m)^overlaps +0$`, `(?m)^oversold +0$`} {
			if !regexp.MustCompile(row).MatchString(s.Out) {
				t.Errorf("nothing like %s in\n%s", row, s.Out)
			}
		}
	})

	t.Run("shows what happens without a lock", func(t *testing.T) {
		s := run(t, "--protocol", "none", "--acquisitions", "400")
		if s.Code != 1 || !strings.Contains(s.Out, "BAD: ") || s.Errors != "" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("says the same again under clocks that are wrong", func(t *testing.T) { rehearseAgain(t, run) })
	t.Run("counts overlaps with new clients apart", func(t *testing.T) { rehearseCountsApart(t, run) })
	t.Run("shows the price of WATCH", func(t *testing.T) {
		s := run(t, "--protocol", "watch", "--acquisitions", "400")
		if s.Code != 0 || !strings.Contains(s.Out, "excused: WATCH") {
			t.Errorf("%+v", s)
		}
	})

	t.Run("never reads GETSETLOCK_REDIS", func(t *testing.T) {
		cmd := exec.Command(binary, "rehearse", "--protocol", "watch", "--acquisitions", "10")
		cmd.Env = append(os.Environ(), "GETSETLOCK_REDIS=redis://127.0.0.1:1")
		if s := clitest.Speak(t, cmd); s.Code != 0 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("JSON and exit code agree", func(t *testing.T) { rehearseInJSON(t, run) })
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

func rehearseAgain(t *testing.T, run func(*testing.T, ...string) clitest.Spoken) {
	args := []string{"--preset", "jepsen", "--acquisitions", "200", "--lease", "10s", "--poll", "500ms",
		"--crashes", "0"}
	s, again := run(t, args...), run(t, args...)
	took := regexp.MustCompile(`\(.* here\)`)
	if s.Code != 0 || took.ReplaceAllString(s.Out, "") != took.ReplaceAllString(again.Out, "") {
		t.Errorf("%+v\n%+v", s, again)
	}
	if !regexp.MustCompile(
		`(?m)^clocks +spread up to .* \(the new clients are told 500ms\), \d+ steps?, 0 pauses$`).
		MatchString(s.Out) {
		t.Errorf("%s", s.Out)
	}
}

func rehearseCountsApart(t *testing.T, run func(*testing.T, ...string) clitest.Spoken) {
	s := run(t, "--overruns", "1", "--acquisitions", "1000", "--lease", "10s", "--poll", "300ms")
	m := regexp.MustCompile(
		`(?m)^overlaps +(\d+), .*\n  between old clients +(\d+),.*\n  with a new client +(\d+),.*$`).
		FindStringSubmatch(s.Out)
	if s.Code != 0 || m == nil {
		t.Fatalf("%+v", s)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1])
	}
	if n[1] == 0 || n[2] == 0 || n[0] != n[1]+n[2] {
		t.Errorf("%d overlaps are %d between old clients and %d with a new one", n[0], n[1], n[2])
	}
}

func rehearseInJSON(t *testing.T, run func(*testing.T, ...string) clitest.Spoken) {
	for _, protocol := range []string{"none", "watch"} {
		s := run(t, "--protocol", protocol, "--acquisitions", "400", "--json", "--seed",
			"18446744073709551615")
		var v struct {
			Schema   string
			OK       *bool
			Seed     json.Number
			Oversold *int
			Groups   []map[string]any
		}
		if err := json.Unmarshal([]byte(s.Out), &v); err != nil {
			t.Fatalf("%v in %s", err, s.Out)
		}
		if v.Schema != "getsetlock.rehearse/1" || v.OK == nil || *v.OK != (s.Code == 0) ||
			v.Oversold == nil || *v.OK != (*v.Oversold == 0) {
			t.Errorf("exit %d: %s", s.Code, s.Out)
		}
		if v.Seed != "18446744073709551615" || len(v.Groups) != 1 {
			t.Errorf("%s", s.Out)
		}
	}
}

func rehearseRefuses(t *testing.T, run func(*testing.T, ...string) clitest.Spoken) {
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
		{2, "--spread", []string{"--spread", "50s"}},
		{2, "--preset \"sundial\": must be one of ptp", []string{"--preset", "sundial"}},
		{2, "give one", []string{"--preset", "chrony", "--spread", "1s"}},
		{2, "--overruns 1: --protocol bare has no leases", []string{"--protocol", "bare", "--overruns", "1"}},
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

func rehearseOnServer(t *testing.T, run func(*testing.T, ...string) clitest.Spoken) {
	m := redistest.Timely(t)
	m.Set("somebody's", "own")
	s := run(t, "--redis", "redis://"+m.Addr(), "--acquisitions", "40", "--crashes", "0", "--job", "1ms",
		"--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(s.Out), &v); err != nil {
		t.Fatalf("%v in %+v", err, s)
	}
	if s.Code != 0 || v["virtual_ms"] != nil || v["server"] != "redis://"+m.Addr() {
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

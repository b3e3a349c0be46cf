// SPDX-License-Identifier: Apache-2.0

//go:build real

package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// leads is the page that shows the variables of a server behind Sentinel.
const leads = "docs/start/go.md"

// shownExports are the lines by which that page leads to a server behind
// Sentinel, with the hosts, the name and the files of this machine.
func shownExports(t *testing.T, here map[string]string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, leads))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, step := range Steps(string(text)) {
		if strings.HasPrefix(step.Command, "export ") {
			lines = append(lines, step.Command)
		}
	}
	if len(lines) == 0 {
		t.Fatal(leads + " exports nothing")
	}
	for there, mine := range here {
		all := strings.Join(lines, "\n")
		if strings.Count(all, there) != 1 {
			t.Fatalf("%s does not name %s once in\n%s", leads, there, all)
		}
		lines = strings.Split(strings.Replace(all, there, mine, 1), "\n")
	}
	return lines
}

// guarded starts a server that demands a user, a password, TLS and a client
// certificate, and two sentinels that demand a user and a password of their
// own, TLS and the certificate. It returns what stands in the README for their
// places.
func guarded(t *testing.T) map[string]string {
	t.Helper()
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := redistest.Real(t, redistest.Options{TLS: true, Certs: true, Password: "s3cret1"})
	server.User("app", "s3cret2", "~*", "&*", "+@all")
	cert, key := server.ClientCert(folder, "app", time.Hour)
	sentinel := func() string {
		s := server.StartSentinel(redistest.Options{TLS: true, Certs: true, Password: "s3cret4"})
		s.User("watcher", "s3cret3", "+sentinel", "+ping")
		return s.Addr()
	}
	return map[string]string{
		"sentinel-1:26379":      sentinel(),
		"sentinel-2:26379":      sentinel(),
		"mymaster":              "m",
		"/run/secrets/redis":    file("redis", "s3cret2"),
		"/run/secrets/sentinel": file("sentinel", "s3cret3"),
		"/etc/redis/ca.pem":     server.CACert(),
		"/etc/redis/client.pem": cert,
		"/etc/redis/client.key": key,
	}
}

// by runs a command line in a shell that has executed the exports.
func by(t *testing.T, folder string, exports []string, command string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(exports, "\n")+"\n"+command)
	cmd.Dir, cmd.Env = folder, clean()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A newcomer whose Redis is behind Sentinel, with passwords, TLS and client
// certificates, has a lock by the README's program and the variables of the
// page to which the README leads.
func TestReadmeLeadsToAServerBehindSentinel(t *testing.T) {
	exports := shownExports(t, guarded(t))
	source := shownProgram(t)
	for _, name := range []string{"legacy", "modern"} {
		program := compiled(t, strings.ReplaceAll(source, "modern", name))
		out, err := by(t, t.TempDir(), exports, program)
		if err != nil || out != printedByIt {
			t.Errorf("%s: "+programFailed, name, err, out)
		}
		if name == "legacy" {
			continue
		}
		// Without any one of the lines it must fail, or the test shows nothing.
		for i := range exports {
			if strings.Contains(exports[i], "GETSETLOCK_REDIS=") {
				continue // this machine may have a server at the default address
			}
			fewer := slices.Delete(slices.Clone(exports), i, i+1)
			if out, err := by(t, t.TempDir(), fewer, program); err == nil {
				t.Errorf("without %s the program runs:\n%s", exports[i], out)
			}
		}
	}
	command := built(t)
	if out, err := by(t, t.TempDir(), exports, command+" run nightly -- echo backed up"); err != nil ||
		out != "backed up\n" {
		t.Errorf("getsetlock run: %v\n%s", err, out)
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build linux

package zktest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// Curator starts a JVM with Curator's InterProcessMutex, connected to servers.
// Its session lasts timeout milliseconds.
func Curator(t testing.TB, timeout int, servers ...string) *program.Peer {
	t.Helper()
	p := program.Start(t, exec.Command("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-jar", Jar(t)))
	p.Must("true", "open", strings.Join(servers, ","), timeout)
	return p
}

//go:embed kazoo.py
var kazooDriver string

// Kazoo starts a Python process with kazoo's Lock. patterns are those of
// kazoo's extra_lock_patterns.
func Kazoo(t testing.TB, timeout int, patterns []string, servers ...string) *program.Peer {
	t.Helper()
	cmd := exec.Command("python3", append([]string{"-u", "-c", kazooDriver}, patterns...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+kazooWheel(t))
	p := program.Start(t, cmd)
	p.Must("true", "open", strings.Join(servers, ","), timeout)
	return p
}

func kazooWheel(t testing.TB) string {
	t.Helper()
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(cache, "kazoo-*.whl"))
	if len(found) == 0 {
		t.Fatalf("kazoo is not in %s; run: make prepare", cache)
	}
	return found[0]
}

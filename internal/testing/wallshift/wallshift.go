// SPDX-License-Identifier: Apache-2.0

// Package wallshift gives another process its own wall clock, which can be set
// while the process runs. A preloaded library shifts the wall clock that the C
// library reports and leaves monotonic time alone. Tests start a real
// redis-server or a JVM under it.
//
// It works on Linux, for programs that ask the C library for the time. Go
// programs do not.
package wallshift

import (
	_ "embed" // for the library's source
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

//go:embed shim/shim.c
var source string

var library = sync.OnceValues(build)

// build compiles the library once per test run.
func build() (string, error) {
	dir, err := os.MkdirTemp("", "wallshift")
	if err != nil {
		return "", err
	}
	c, so := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
		"-o", so, c).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("wallshift: cc could not build the library "+
			"(install gcc and libc6-dev, or run `make prepare`): %w\n%s", err, out)
	}
	return so, nil
}

// Clock is a wall clock that differs from the machine's by what was last Set.
type Clock struct {
	t    testing.TB
	file *os.File
	so   string
}

// New returns a clock that is right until Set is called.
func New(t testing.TB) *Clock {
	t.Helper()
	so, err := library()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "shift"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c := &Clock{t: t, file: f, so: so}
	c.Set(0)
	return c
}

// Set makes the clock differ from the machine's by d from now on; negative:
// behind.
func (c *Clock) Set(d time.Duration) {
	c.t.Helper()
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(d))
	if _, err := c.file.WriteAt(b[:], 0); err != nil {
		c.t.Fatal(err)
	}
}

// Env returns the environment variables of a process that is to use the clock.
func (c *Clock) Env() []string {
	return []string{"LD_PRELOAD=" + c.so, "WALLSHIFT=" + c.file.Name()}
}

// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// Built builds the command and returns its path, for tests that need a real
// program: a rehearsal cannot run inside another test.
func Built(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "getsetlock")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", name,
		"github.com/getsetlock/getsetlock/cmd/getsetlock").CombinedOutput()
	if err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	return name
}

// Spoken is the output of one run of the command.
type Spoken struct {
	Code        int
	Out, Errors string
}

// Speak runs the command to its end.
func Speak(t *testing.T, cmd *exec.Cmd) Spoken {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return Spoken{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// HereTook matches the part of an answer that says how long it took on this
// machine.
var HereTook = regexp.MustCompile(`\([0-9.]+m?s here\)`)

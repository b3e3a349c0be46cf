// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package rehearseverb

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestRehearsalPageIsWholeInABrowser(t *testing.T) {
	binary := clitest.Built(t)
	for _, protocol := range []string{"legacy", "none", "watch"} {
		file := filepath.Join(t.TempDir(), "rehearse-"+protocol+".html")
		s := clitest.Speak(t, exec.Command(binary, "rehearse", "--quiet", "--acquisitions", "200",
			"--protocol", protocol, "--report", file))
		if s.Errors != "" {
			t.Fatalf("%+v", s)
		}
		plots, tables := []string{" without a lock", " with "}, 2
		if protocol != "watch" { // a transaction is refused, and waits for no lock
			plots, tables = append(plots, "Waits for the lock"), 1
		}
		clitest.WholePage(t, file, "Without a lock ", tables, plots...)
	}
	file := filepath.Join(t.TempDir(), "rehearse-phases.html")
	s := clitest.Speak(t, exec.Command(binary, "rehearse", "--quiet", "--acquisitions", "210",
		"--lease", "10s", "--phases", "--report", file))
	if s.Errors != "" {
		t.Fatalf("%+v", s)
	}
	clitest.WholePage(t, file, "OK", 2, "Timeline of the phases", "Waits for the lock")
}

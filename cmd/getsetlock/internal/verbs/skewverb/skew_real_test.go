// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package skewverb

import (
	"path/filepath"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestSkewReportIsWholeInABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skew.html")
	got := skewed(t, "--lease", "30s", "--job", "5s..40s", "--preset", "timesyncd", "--report", file)
	if got.Code != 1 {
		t.Fatalf("code %d: %s", got.Code, got.Errors)
	}
	clitest.WholePage(t, file, "YES: two clients can hold", 1,
		"Timeline of the shortest way", "Waits for the lock")
}

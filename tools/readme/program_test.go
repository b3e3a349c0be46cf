// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

const (
	printedByIt   = "selling: no other client holds stock:42 now\n"
	modulesPath   = "github.com/getsetlock/getsetlock"
	programFailed = "the README's program ended with %v:\n%s"
)

// compiled builds a program in a module of its own, which takes getsetlock from
// the checkout, and returns its path.
func compiled(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, "program")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	for _, words := range [][]string{
		{"mod", "init", "example.com/newcomer"},
		{"mod", "edit", "-require", modulesPath + "@v0.0.0", "-replace", modulesPath + "=" + here},
		{"build", "-mod=mod", "-o", name, "."},
	} {
		cmd := exec.Command("go", words...)
		cmd.Dir = folder
		// What the checkout builds from is on this machine.
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s\n%s", strings.Join(words, " "), err, out, source)
		}
	}
	return name
}

// clean is the environment without variables that name a server.
func clean() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GETSETLOCK_") })
}

func shownProgram(t *testing.T) string {
	t.Helper()
	source, err := Program(pages(t)[0].text)
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	return source
}

// The README says that its program needs no more than the package's name
// changed where no old clients are.
func TestReadmesProgramRunsAsItIs(t *testing.T) {
	source := shownProgram(t)
	// Without a package, go get adds the module and none of the sums that its
	// packages need, and go run then refuses.
	if !strings.Contains(pages(t)[0].text, "\n    go get "+modulesPath+"/modern\n") {
		t.Errorf("README.md does not say how to get %s", modulesPath)
	}
	server := miniredis.RunT(t)
	for _, name := range []string{"legacy", "modern"} {
		t.Run(name, func(t *testing.T) {
			program := compiled(t, strings.ReplaceAll(source, "modern", name))
			cmd := exec.Command(program)
			cmd.Env = append(clean(), "GETSETLOCK_REDIS=redis://"+server.Addr())
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != printedByIt {
				t.Errorf(programFailed, err, out)
			}
		})
	}
}

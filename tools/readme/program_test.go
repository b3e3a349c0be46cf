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
	programFailed = "the README's program ended with %v:\n%s"
)

// compiled builds a program by the README's commands, in a folder next to the
// checkout, and returns its path.
func compiled(t *testing.T, source string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
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
	for _, command := range shownCommands(t) {
		words := strings.Fields(strings.Replace(command, "=../getsetlock", "="+here, 1))
		if command == "go run ." {
			words = []string{"go", "build", "-o", name, "."}
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = folder
		// What the checkout builds from is on this machine.
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s\n%s", command, err, out, source)
		}
	}
	return name
}

// shownCommands are the README's commands around its program.
func shownCommands(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, step := range Steps(pages(t)[0].text) {
		if strings.HasPrefix(step.Command, "go mod ") {
			line, _, _ := strings.Cut(step.Command, "  #")
			all = append(all, strings.Split(line, " && ")...)
		}
	}
	if len(all) != 4 || all[3] != "go run ." {
		t.Fatalf("README.md runs its program by %q", all)
	}
	return all
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

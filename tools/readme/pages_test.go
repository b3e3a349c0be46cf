// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const root = "../.."

// page is a page for newcomers, whose commands are run.
type page struct {
	name, text string
}

// pages are the README in two languages, and the pages by which a fleet's owner
// begins.
func pages(t *testing.T) []*page {
	t.Helper()
	var all []*page
	for _, name := range []string{"README.md", "README.zh.md", "docs/start/java.md", "docs/zh/java.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &page{name, string(text)})
	}
	return all
}

// compare fails the test if the page shows what the command did not print.
func (p *page) compare(t *testing.T, step Step, got string) {
	t.Helper()
	mask := MaskFor(step.Command)
	if runtime.GOARCH != "amd64" {
		mask = NoNumbers // other machines round the simulator's figures otherwise
	}
	if missing := mask.Missing(step.Output, got); len(missing) > 0 {
		t.Errorf("%s:%d: %s doesn't print\n%s\nbut\n%s", p.name, step.Line, step.Command,
			strings.Join(missing, "\n"), got)
	}
}

// needsNoServer tells which commands bring their own server, or need none.
func needsNoServer(command string) bool {
	for _, begin := range []string{"rehearse", "skew ", "audit --demo"} {
		if strings.HasPrefix(command, "getsetlock "+begin) {
			return true
		}
	}
	return false
}

// readmes are the README in two languages. Both show the same commands.
func readmes(t *testing.T) []*page { return pages(t)[:2] }

// One seed gives one answer, so the pages show these commands' output to the
// digit, except for how long it took.
func TestPagesShowVirtualRunsToTheDigit(t *testing.T) {
	command, printed := built(t), map[string]string{}
	for _, p := range pages(t) {
		ran := 0
		for _, step := range Steps(p.text) {
			if !needsNoServer(step.Command) {
				continue
			}
			ran++
			line, _, _ := strings.Cut(step.Command, "  #")
			if _, known := printed[line]; !known {
				cmd := exec.Command(command, strings.Fields(line)[1:]...)
				cmd.Env = append(os.Environ(), "NO_COLOR=1")
				out, err := cmd.Output()
				if code := cmd.ProcessState.ExitCode(); code != step.Status() {
					t.Fatalf("%s:%d: %s ended with %d (%v)", p.name, step.Line, step.Command, code, err)
				}
				printed[line] = string(out)
			}
			p.compare(t, step, printed[line])
		}
		if !strings.HasPrefix(p.name, "README") && ran < 3 {
			t.Errorf("%s shows %d commands that need no server", p.name, ran)
		}
	}
}

// fromCheckout are the commands of the first screen. Until something is
// released, no other commands work on a stranger's machine.
var fromCheckout = []string{"go run ./cmd/getsetlock rehearse", "make test"}

// The first command ends with the line that the README quotes.
func TestFirstScreenWorksInACheckout(t *testing.T) {
	for _, p := range readmes(t) {
		steps := Steps(p.text)
		for i, want := range fromCheckout {
			if len(steps) <= i || steps[i].Command != want || steps[i].Line > 40 {
				t.Fatalf("%s does not begin with the commands %q", p.name, fromCheckout)
			}
		}
		words := strings.Fields(fromCheckout[0])
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = root
		cmd.Env = append(clean(), "NO_COLOR=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %s: %v", p.name, fromCheckout[0], err)
		}
		const last = "OK: nothing was oversold."
		if !strings.HasSuffix(string(out), "\n"+last+"\n") || !strings.Contains(p.text, "`"+last+"`") {
			t.Errorf("%s: %s does not end with %q, or the page does not quote it:\n%s", p.name, fromCheckout[0],
				last, out)
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil || !strings.Contains(string(makefile), "\ntest:") {
		t.Errorf("no target test in the Makefile (%v)", err)
	}
}

// built returns the path of the command, built as the README says, but in a
// folder of the test's own.
func built(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, step := range Steps(pages(t)[0].text) {
		what, found := strings.CutPrefix(step.Command, "go build -o /usr/local/bin/ ")
		if !found {
			continue
		}
		cmd := exec.Command("go", "build", "-o", folder+string(filepath.Separator), what)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("README.md:%d: %s: %v\n%s", step.Line, step.Command, err, out)
		}
	}
	name := filepath.Join(folder, "getsetlock")
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("README.md has no line that installs the command: %v", err)
	}
	return name
}

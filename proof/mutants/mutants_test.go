// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var which = flag.String("mutants", "", "the mutants to run: all, changed, or the beginning of a file's path or of a list's name")

func TestEachMutantFitsTheSourceAndNamesATest(t *testing.T) {
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("the lists are empty")
	}
	tests := map[string]string{} // sources of the tests of a folder
	for _, m := range all {
		if _, err := m.apply(); err != nil {
			t.Error(err)
		}
		if _, ok := tests[m.folder]; !ok {
			tests[m.folder] = sources(t, m.folder)
		}
		if !strings.Contains(tests[m.folder], "func "+m.test+"(") {
			t.Errorf("%s: there is no test %s in %s", m.at, m.test, m.folder)
		}
	}
}

func sources(t *testing.T, folder string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func TestMalformedListIsRefused(t *testing.T) {
	good := "file a.go\ntest ./a TestA\n- x\n+ y\n"
	if all, err := parse("l", good); err != nil || len(all) != 1 || all[0].old != "x\n" ||
		all[0].new != "y\n" {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, bad := range []string{
		"test ./a TestA\n", "file a.go\ntest ./a\n- x\n+ y\n", "file a.go\n- x\n+ y\n",
		"file a.go\ntest ./a TestA\n+ y\n",
		"file a.go\ntest ./a TestA\n- x\n+ x\n", good + "what is this\n",
	} {
		if _, err := parse("l", bad); err == nil {
			t.Errorf("accepted:\n%s", bad)
		}
	}
}

// TestMutants does nothing without -mutants; another test checks the form of
// the lists.
func TestMutants(t *testing.T) {
	all, err := lists()
	if err != nil {
		t.Fatal(err)
	}
	chosen := choose(t, all)
	if *which != "" {
		fmt.Printf("%d of %d mutants\n", len(chosen), len(all))
	}
	pass(t, chosen)
	if t.Failed() {
		return
	}
	turns := make(chan struct{}, max(1, runtime.NumCPU()))
	for _, m := range chosen {
		t.Run(m.at, func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			m.dies(t)
		})
	}
}

func choose(t *testing.T, all []mutant) []mutant {
	t.Helper()
	switch *which {
	case "":
		return nil
	case "all":
		return all
	case "changed":
		hash, err := git("rev-parse", "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		changed, err := git("diff", "--name-only", "HEAD^", "HEAD")
		if err != nil {
			fmt.Println("the last commit has no parent here, so what it changed is not known:", err)
		}
		fmt.Println("a twelfth is drawn by", hash)
		return recent(all, strings.Fields(changed), hash)
	}
	return slices.DeleteFunc(all, func(m mutant) bool {
		return !strings.HasPrefix(m.file, *which) && !strings.HasPrefix(m.at, *which)
	})
}

// recent returns the mutants whose file or test a commit changed, and a twelfth
// of the others, drawn by the commit's hash.
func recent(all []mutant, changed []string, hash string) []mutant {
	files, tests := map[string]bool{}, map[string]bool{}
	for _, name := range changed {
		files[name] = true
		if strings.HasSuffix(name, "_test.go") {
			tests[filepath.ToSlash(filepath.Dir(name))] = true
		}
	}
	var chosen []mutant
	for _, m := range all {
		draw := fnv.New32a()
		fmt.Fprint(draw, hash, m.file, m.test, m.old, m.new)
		if files[m.file] || tests[m.folder] || draw.Sum32()%12 == 0 {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

func TestRecentTakesWhatChangedAndATwelfth(t *testing.T) {
	var all []mutant
	for i := range 1200 {
		all = append(all, mutant{file: fmt.Sprintf("a/%d.go", i), folder: "a"})
	}
	all[7].folder = "b"
	if n := len(recent(all, nil, "x")); n < 60 || n > 150 {
		t.Errorf("%d of 1200 drawn", n)
	}
	if slices.Equal(recent(all, nil, "x"), recent(all, nil, "y")) {
		t.Error("two commits draw the same")
	}
	one := recent(all[:12], []string{"a/3.go", "b/b_test.go"}, "x")
	for _, want := range []mutant{all[3], all[7]} {
		if !slices.Contains(one, want) {
			t.Errorf("%v is missing", want)
		}
	}
}

func git(arguments ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, arguments...)...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// pass runs the tests that mutants name, without a change: a test that fails
// already would kill every mutant.
func pass(t *testing.T, chosen []mutant) {
	t.Helper()
	type group struct{ folder, tags string }
	named := map[group][]string{}
	for _, m := range chosen {
		g := group{m.folder, m.tags}
		if !slices.Contains(named[g], m.test) {
			named[g] = append(named[g], m.test)
		}
	}
	for g, names := range named {
		out, err := goTest(g.folder, g.tags, "^("+strings.Join(names, "|")+")$", "-v")
		if err != nil {
			t.Errorf("without any mutant: %s: %v\n%s", g.folder, err, out)
		}
		for _, name := range names {
			if !strings.Contains(out, "--- PASS: "+name+" ") {
				t.Errorf("without any mutant: %s in %s did not pass", name, g.folder)
			}
		}
	}
}

// goTest runs tests of one package, in the module to which its folder belongs.
// A mutant may loop for ever, so it gets two minutes, which are enough for each
// of these tests.
func goTest(folder, tags, run string, more ...string) (string, error) {
	return goTestWith(folder, tags, run, more)
}

// goTestWith is goTest with flags of the tests themselves.
func goTestWith(folder, tags, run string, more []string, own ...string) (string, error) {
	module := folder
	for module != "." {
		if _, err := os.Stat(filepath.Join(root, module, "go.mod")); err == nil {
			break
		}
		module = filepath.Dir(module)
	}
	within, err := filepath.Rel(module, folder)
	if err != nil {
		return "", err
	}
	arguments := append([]string{"test", "-vet=off", "-count=1", "-timeout", "2m", "-tags", tags, "-run",
		run}, more...)
	arguments = append(append(arguments, "./"+filepath.ToSlash(within)), own...)
	cmd := exec.Command("go", arguments...)
	cmd.Dir = filepath.Join(root, module)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	failed   = regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)`)
	noReason = regexp.MustCompile(`\[(build|setup) failed\]`)
)

// dies builds the package with the mutant and checks that its test fails.
func (m mutant) dies(t *testing.T) {
	out, err := goTest(m.folder, m.tags, "^"+m.test+"$", "-overlay", m.overlay(t))
	switch {
	case err == nil:
		t.Errorf("%v survived %s:\n- %s+ %s", m, m.test, m.old, m.new)
	case noReason.MatchString(out):
		t.Errorf("%v does not compile:\n%s", m, out)
	case !failed.MatchString(out) && !strings.Contains(out, "panic: "):
		t.Errorf("%v: the test ended without a verdict: %v\n%s", m, err, out)
	}
}

// overlay writes the changed file and returns the path of the list by which the
// compiler takes it.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	text, err := m.apply()
	if err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	changed := filepath.Join(place, filepath.Base(m.file))
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(place, "overlay.json")
	if err := errors.Join(os.WriteFile(changed, []byte(text), 0o600),
		os.WriteFile(list, overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	return list
}

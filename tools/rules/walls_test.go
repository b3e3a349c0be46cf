package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

// treeOf is a small repository: file → what it imports, blanks between.
func treeOf(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, imported := range files {
		text := "// Package p is.\npackage p\n"
		for _, i := range strings.Fields(imported) {
			text += "import _ \"" + strings.Replace(i, "./", module, 1) + "\"\n"
		}
		tree[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return tree
}

// across is the repository of a test: every folder that the walls speak of.
func across(file, imported string) fstest.MapFS {
	files := map[string]string{}
	for _, folder := range strings.Fields(`lock lock/backend legacy legacy/dialect modern quorum migrate migrate/fleet audit skew skew/model
		internal/wire internal/testing/world cmd/getsetlock cmd/getsetlock/internal/cli cmd/getsetlock/internal/out
		cmd/getsetlock/internal/verbs/runverb cmd/getsetlock/internal/clitest cmd/getsetlock/internal/child/childtest`) {
		files[folder+"/x.go"] = ""
	}
	files["audit/x.go"] = "net"
	files[file] = imported
	return treeOf(files)
}

func TestEveryWallIsKept(t *testing.T) {
	const in = "cmd/getsetlock/internal/"
	held := map[string]bool{}
	for _, c := range []struct{ file, imported, want string }{
		{in + "out/a.go", "./" + in + "verbs/runverb", "out knows no verb"},
		{in + "out/a.go", "./" + in + "cli", "out knows no verb"},
		{in + "verbs/lsverb/a.go", "./" + in + "verbs/runverb", "verbs share by package out alone"},
		{in + "verbs/lsverb/a.go", "./" + in + "cli", "verbs share by package out alone"},
		{in + "verbs/lsverb/a.go", "os ./" + in + "out ./audit", ""},
		{in + "verbs/lsverb/a_test.go", "./" + in + "cli", ""},
		{"lock/a.go", "./internal/testing/world", "only tests import"},
		{"internal/wire/a.go", "./internal/testing/world", "only tests import"},
		{in + "out/a.go", "./internal/testing/world", "only tests import"},
		{in + "out/a.go", "./" + in + "clitest", "only tests import"},
		{in + "cli/a.go", "./" + in + "child/childtest", "only tests import"},
		{in + "clitest/a.go", "./internal/testing/world ./" + in + "child/childtest", ""},
		{"bench/peers/a.go", "./internal/testing/world", ""},
		{"docs/zh/a.go", "./internal/testing/world", ""},
		{"internal/testing/fleet/a.go", "./internal/testing/world", ""},
		{"lock/a_test.go", "./internal/testing/world", ""},
		{"redisconn/a.go", "./cmd/getsetlock", "none imports the command"},
		{"internal/wire/a.go", "./cmd/getsetlock", "none imports the command"},
		{"cmd/getsetlock/full/a.go", "./" + in + "cli", ""},
		{"lock/a.go", "./legacy/dialect", "knows no backend"},
		{"lock/locktest/a.go", "os ./lock ./lock/backend ./internal/wire", ""},
		{"lock/backend/a.go", "./lock", "depends on neither side"},
		{"legacy/dialect/a.go", "./internal/wire", "a dialect is data"},
		{"legacy/a.go", "./modern", "knows package lock and how"},
		{"quorum/a.go", "./modern", "knows no store"},
		{"quorum/a.go", "./internal/wire", "knows no store"},
		{"quorum/a.go", "net ./lock", ""},
		{"quorum/a_test.go", "./modern", ""},
		{"modern/a.go", "./legacy", "knows package lock and how"},
		{"modern/a.go", "net ./lock ./legacy/dialect ./internal/wire", ""},
		{"migrate/a.go", "./audit", "links no tool of its operator"},
		{"migrate/a.go", "./skew/model", "links no tool of its operator"},
		{"migrate/fleet/a.go", "./audit ./skew", ""},
		{"skew/offset/a.go", "./lock", "depends on no lock's code"},
		{"skew/simulate/a.go", "./internal/drift", ""},
		{"skew/simulate/a.go", "./internal/wire", "depends on no lock's code"},
		{"internal/drift/a.go", "./lock", "needs nobody"},
		{"internal/drift/a.go", "math", ""},
		{"skew/a.go", "io ./skew/model ./legacy/dialect", ""},
		{"skew/simulate/a.go", "os/exec", "it does no I/O"},
		{"skew/a.go", "os", "it does no I/O"},
		{"skew/a.go", "syscall", "it does no I/O"},
		{"skew/a_test.go", "os", ""},
		{"audit/census/a.go", "github.com/gomodule/redigo/redis", "it does no I/O"},
		{"audit/census/a.go", "./audit", "it does no I/O"}, // which imports net
		{"audit/census/a.go", "io ./skew", ""},
	} {
		tree := across(c.file, c.imported)
		got, err := checkTree(tree, walls, nil)
		if err != nil || c.want == "" && len(got) > 0 ||
			c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s imports %s: %q, %v; want %q", c.file, c.imported, got, err, c.want)
		}
		for _, w := range walls {
			if got, _ := checkTree(tree, []wall{w}, nil); len(got) > 0 {
				held[w.why+strings.Join(w.never, " ")] = true
			}
		}
	}
	for _, w := range walls {
		if !held[w.why+strings.Join(w.never, " ")] {
			t.Errorf("no case breaks the wall of %v", w.of)
		}
	}
}

func TestAnExceptionIsReportedOnceNotNeeded(t *testing.T) {
	for imported, want := range map[string]string{
		"./audit": "",
		"./lock":  "tools/rules/walls.go: the exception migrate → audit is no longer needed",
	} {
		got, err := checkTree(across("migrate/a.go", imported), walls, []string{"migrate → audit"})
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %q, %v", imported, got, err)
		}
	}
}

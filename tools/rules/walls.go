package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// module is the path that imports of this repository's own packages begin with.
const module = "github.com/getsetlock/getsetlock/"

// wall says what the packages of some folders may import. Test files are free.
//
// Packages of the module are named by their folders, others by their import
// paths; "x/..." is x and all below it.
type wall struct {
	of, but []string // the folders, and those of them that are free
	only    []string // not nil: all that they may import of the module
	never   []string // what they may not import
	deep    bool     // … nor what they import of the module, and so on
	why     string
}

const (
	command = "cmd/getsetlock/internal/"
	redigo  = "github.com/gomodule/redigo/..."
)

// walls are the directions of imports. Imports point down only: a library never
// knows the command, and a kit for tests ships with nothing.
var walls = []wall{
	{of: []string{command + "out/...", command + "verbs/..."},
		never: []string{command + "verbs/...", command + "cli/..."},
		why:   "verbs share by package out alone, and out knows no verb"},
	{of: []string{"..."}, but: []string{
		"internal/testing/...", "internal/sim", "bench/peers/...", "docs/...",
		command + "clitest"},
		never: []string{"internal/testing/...", "internal/sim"},
		why:   "only tests import what is for tests"},
	{of: []string{"..."}, but: []string{command + "clitest"},
		never: []string{command + "clitest/...", command + "child/childtest/..."},
		why:   "only tests import what is for tests"},
	{of: []string{"..."}, but: []string{"cmd/..."}, never: []string{"cmd/..."},
		why: "the command imports libraries, and none imports the command"},
	{of: []string{"lock/..."}, only: []string{"lock", "lock/backend", "lock/internal/...", "internal/..."},
		why: "package lock knows no backend"},
	{of: []string{"lock/backend"}, only: []string{"lock/internal/..."},
		why: "the contract depends on neither side"},
	{of: []string{"legacy/dialect/..."}, only: []string{}, why: "a dialect is data"},
	{of: []string{"legacy", "modern/..."},
		only: []string{"lock", "lock/backend", "legacy/dialect", "redisconn", "internal/..."},
		why:  "a backend knows package lock and how to open a server"},
	{of: []string{"quorum/..."}, only: []string{"lock", "lock/backend"},
		why: "a quorum is made of members, and knows no store"},
	{of: []string{"migrate"}, never: []string{"audit/...", "skew/..."}, deep: true,
		why: "a service that migrates links no tool of its operator"},
	{of: []string{"skew/..."}, only: []string{"legacy/dialect", "skew/...", "internal/drift"},
		why: "what can happen depends on no lock's code"},
	{of: []string{"internal/drift"}, only: []string{}, why: "the arithmetic of a clock needs nobody"},
	{of: []string{"skew/...", "audit/census/..."},
		never: []string{"net/...", "os/...", "syscall/...", redigo}, deep: true,
		why: "it does no I/O"},
}

// exceptions are breaches that are known, as "folder → import". The list may
// only shrink, and one that is no longer needed is reported.
var exceptions = []string{}

// imports are a tree's: folder → what its files that ship import → one of these
// files.
type imports map[string]map[string]string

// add notes what a file imports. Files that do not parse are reported by check.
func (all imports) add(name, text string) {
	tree, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil || strings.HasSuffix(name, "_test.go") {
		return
	}
	folder := path.Dir(name)
	if all[folder] == nil {
		all[folder] = map[string]string{}
	}
	for _, i := range tree.Imports {
		if imported, err := strconv.Unquote(i.Path.Value); err == nil {
			all[folder][strings.TrimPrefix(imported, module)] = name
		}
	}
}

// breaches gives each import through a wall, and each exception that none
// needs.
func (all imports) breaches(walls []wall, exceptions []string) []string {
	var found []string
	needed := map[string]bool{}
	for _, w := range walls {
		for folder := range all {
			if !matches(w.of, folder) || matches(w.but, folder) {
				continue
			}
			for imported, file := range all.reached(folder, w.deep) {
				known := folder + " → " + imported
				switch {
				case !w.forbids(imported, all):
				case slices.Contains(exceptions, known):
					needed[known] = true
				default:
					found = append(found,
						fmt.Sprintf("%s: imports %s for %s: %s", file, imported, folder, w.why))
				}
			}
		}
	}
	for _, e := range exceptions {
		if !needed[e] {
			found = append(found, fmt.Sprintf("tools/rules/walls.go: the exception %s is no longer needed",
				e))
		}
	}
	return found
}

// reached is what a folder imports, and if deep also what that imports, as far
// as the module goes.
func (all imports) reached(folder string, deep bool) map[string]string {
	found := maps.Clone(all[folder])
	for next := slices.Collect(maps.Keys(found)); deep && len(next) > 0; {
		from := next[0]
		next = next[1:]
		for imported, file := range all[from] {
			if _, seen := found[imported]; !seen {
				found[imported], next = file, append(next, imported)
			}
		}
	}
	return found
}

func (w wall) forbids(imported string, all imports) bool {
	_, ours := all[imported]
	return matches(w.never, imported) || w.only != nil && ours && !matches(w.only, imported)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		below, tree := strings.CutSuffix(p, "...")
		return name == strings.TrimSuffix(below, "/") || tree && strings.HasPrefix(name, below)
	})
}

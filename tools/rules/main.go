// SPDX-License-Identifier: Apache-2.0

// Package main checks the rules of the house that golangci-lint cannot say: how
// comments and pages read, how many names packages export, what packages reach
// by their imports' imports, and sleeping tests. It names each place that
// breaks one. It reads syntax and no types, and keeps honest people honest.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	found, err := checkTree(os.DirFS("."))
	if err == nil {
		var more []string
		more, err = reached(".")
		found = append(found, more...)
	}
	if err == nil {
		var more []string
		more, err = unlicensed(os.DirFS("."))
		found = append(found, more...)
	}
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rules:", err)
		os.Exit(3)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// place is a breach of one rule in a file.
type place struct {
	line int
	says string
	word string // the word that plain.txt may allow
}

// checks find what breaks a rule in one file.
var checks = []func(file, text string) []place{sleepingTests, wideComments, avoidedWords, longNames}

// checkTree checks every file of a repository, how many names are exported,
// and the words that plain.txt allows. It returns an error if a file cannot be
// read, or plain.txt cannot be.
func checkTree(root fs.FS) (found []string, err error) {
	plain, err := fs.ReadFile(root, "tools/rules/plain.txt")
	if err != nil {
		return nil, err
	}
	allowed, err := allowances(string(plain))
	if err != nil {
		return nil, err
	}
	names := map[string]int{}
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && notOurs.MatchString(d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || !readable.MatchString(file) {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		for _, check := range checks {
			for _, p := range check(file, string(text)) {
				if !allowed.permit(file, p.word) {
					found = append(found, fmt.Sprintf("%s:%d: %s", file, p.line, p.says))
				}
			}
		}
		if err == nil && strings.HasSuffix(file, ".go") {
			err = count(names, file, string(text))
		}
		return err
	})
	found = append(append(found, tooMany(names)...), allowed.notNeeded()...)
	slices.Sort(found)
	return found, err
}

// licence is in the first two lines of each source file. Scripts of Lua have
// none, since their bytes go to servers.
const licence = "SPDX-License-Identifier: Apache-2.0"

func licensed(text string) bool {
	lines := strings.SplitN(text, "\n", 3)
	return strings.Contains(strings.Join(lines[:len(lines)-1], "\n"), licence)
}

// unlicensed finds source files without the licence.
func unlicensed(root fs.FS) (found []string, err error) {
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && notOurs.MatchString(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !source.MatchString(file):
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err == nil && !licensed(string(text)) {
			found = append(found, file+": no line "+licence+" at its head")
		}
		return err
	})
	return found, err
}

var (
	notOurs  = regexp.MustCompile(`^(\..*|testdata|target)$`)
	readable = regexp.MustCompile(`\.(go|md|java|sh)$`)
	source   = regexp.MustCompile(`\.(go|java|sh|py|js|rb|php|tla|ya?ml)$`)
)

// sleeping is a call that waits by the machine's clock.
var sleeping = regexp.MustCompile(`\btime\.Sleep\(`)

// sleepingTests finds sleeps in tests, but for files whose tests run in
// bubbles, where a sleep moves virtual time.
func sleepingTests(file, text string) []place {
	if !strings.HasSuffix(file, "_test.go") || strings.Contains(text, "\t\"testing/synctest\"\n") {
		return nil
	}
	var found []place
	for _, at := range sleeping.FindAllStringIndex(text, -1) {
		found = append(found, place{line: 1 + strings.Count(text[:at[0]], "\n"),
			says: "a test that sleeps: await an event, or move virtual time in a bubble"})
	}
	return found
}

// allowance is a line of plain.txt.
var allowance = regexp.MustCompile(`^(\S+: [a-z' ]*[a-z'])  # \S`)

// allowed are the lines of plain.txt as "file: word", each true until it is
// needed.
type allowed map[string]bool

// allowances reads plain.txt: each line names a file, a word that is right
// there, and says why.
func allowances(plain string) (allowed, error) {
	all := allowed{}
	for i, l := range strings.Split(plain, "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		m := allowance.FindStringSubmatch(l)
		if m == nil {
			return nil, fmt.Errorf("tools/rules/plain.txt:%d: %q is not of the form \"file: word  # why\"",
				i+1, l)
		}
		all[m[1]] = true
	}
	return all, nil
}

func (all allowed) permit(file, word string) bool {
	_, ok := all[file+": "+word]
	if ok {
		all[file+": "+word] = false
	}
	return ok
}

func (all allowed) notNeeded() (found []string) {
	for word, unused := range all {
		if unused {
			found = append(found, "tools/rules/plain.txt: "+word+" is not there any more: delete the line")
		}
	}
	return found
}

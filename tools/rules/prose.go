package main

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// enforced are the checks of prose that a breach makes fail. The others only
// count: `go run ./tools/rules -left` prints how much is left, and `-on words`
// lists the places of one of them. A check is turned on when nothing is left
// for it.
var enforced = []string{"comments", "code", "words", "names"}

// proseChecks are the checks of how the repository reads, by name.
var proseChecks = []struct {
	name, what string
	find       func(file, text string) []place
}{
	{"comments", "comment lines of more than 80 columns", wideComments},
	{"code", "code lines of more than 110 columns", wideCode},
	{"words", "words that house style avoids", avoidedWords},
	{"names", "names of tests of more than 50 characters", longNames},
}

// place is a breach of one check.
type place struct {
	line int
	says string
	word string // the word that plain.txt may allow, of the check of words
}

// reading is what the checks of prose found in a repository.
type reading struct {
	places map[string][]string       // check → file:line: what
	counts map[string]map[string]int // check → folder → how many
	words  map[string]int            // word → how many
}

// readProse runs every check of prose on every file of a repository. plain is
// the text of the list of words that are right in their place. It returns an
// error if a file cannot be read, or a line of plain cannot be.
func readProse(root fs.FS, plain string) (*reading, error) {
	allowed, err := allowances(plain)
	if err != nil {
		return nil, err
	}
	all := &reading{map[string][]string{}, map[string]map[string]int{}, map[string]int{}}
	err = fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); file != "." &&
				(strings.HasPrefix(base, ".") || base == "testdata" || base == "target") {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".md", ".java", ".sh"}, filepath.Ext(file)) {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err == nil {
			all.add(file, string(text), allowed)
		}
		return err
	})
	for _, word := range slices.Sorted(maps.Keys(allowed)) {
		if allowed[word] {
			all.note("words", "tools/rules",
				"tools/rules/plain.txt: "+word+" is not there any more: delete the line")
		}
	}
	return all, err
}

func (all *reading) add(file, text string, allowed map[string]bool) {
	for _, check := range proseChecks {
		for _, p := range check.find(file, text) {
			if p.word != "" {
				if _, ok := allowed[file+": "+p.word]; ok {
					allowed[file+": "+p.word] = false
					continue
				}
				all.words[p.word]++
			}
			all.note(check.name, path.Dir(file), fmt.Sprintf("%s:%d: %s", file, p.line, p.says))
		}
	}
}

func (all *reading) note(check, folder, says string) {
	all.places[check] = append(all.places[check], says)
	if all.counts[check] == nil {
		all.counts[check] = map[string]int{}
	}
	all.counts[check][folder]++
}

// left is a table of how many breaches of each check each folder has, and of
// how often each avoided word occurs.
func (all *reading) left() string {
	var b strings.Builder
	folders := map[string]bool{}
	sums := map[string]int{}
	for _, check := range proseChecks {
		fmt.Fprintf(&b, "%9s", check.name)
		for folder, n := range all.counts[check.name] {
			folders[folder] = true
			sums[check.name] += n
		}
	}
	b.WriteString("  folder\n")
	row := func(folder string, count func(check string) int) {
		for _, check := range proseChecks {
			fmt.Fprintf(&b, "%9d", count(check.name))
		}
		b.WriteString("  " + folder + "\n")
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		row(folder, func(check string) int { return all.counts[check][folder] })
	}
	row("all", func(check string) int { return sums[check] })
	for _, word := range slices.Sorted(maps.Keys(all.words)) {
		fmt.Fprintf(&b, "%9d  %q\n", all.words[word], word)
	}
	return b.String()
}

// allowance is a line of plain.txt.
var allowance = regexp.MustCompile(`^(\S+): ([a-z' ]*[a-z'])  # \S`)

// allowances reads plain.txt: each line names a file, a word that is right
// there, and says why. It returns them as "file: word", each true until it is
// needed.
func allowances(plain string) (map[string]bool, error) {
	out := map[string]bool{}
	for i, l := range strings.Split(plain, "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		m := allowance.FindStringSubmatch(l)
		if m == nil {
			return nil, fmt.Errorf("tools/rules/plain.txt:%d: %q is not of the form \"file: word  # why\"",
				i+1, l)
		}
		out[m[1]+": "+m[2]] = true
	}
	return out, nil
}

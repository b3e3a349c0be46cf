// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const root = "../.."

// mutant is one change of one file, and the test that must fail because of it.
type mutant struct {
	at       string // its list and line
	file     string // from the root
	folder   string // of the test's package, from the root
	test     string
	tags     string // build tags, separated by commas
	old, new string // whole lines
}

func (m mutant) String() string { return fmt.Sprintf("%s (%s)", m.at, m.file) }

// apply returns the changed file.
func (m mutant) apply() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	// A line of the list is a whole line of the file.
	whole := "\n" + string(text)
	if n := strings.Count(whole, "\n"+m.old); n != 1 {
		return "", fmt.Errorf("%s: the old lines occur %d times in %s, not once", m.at, n, m.file)
	}
	return strings.Replace(whole, "\n"+m.old, "\n"+m.new, 1)[1:], nil
}

// parse reads a list.
func parse(name, text string) ([]mutant, error) {
	var all []mutant
	for number, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", name, number+1)
		word, rest, _ := strings.Cut(line, " ")
		if word != "" && word[0] != '#' && word != "file" && len(all) == 0 {
			return nil, fmt.Errorf("%s: a mutant begins with a line \"file …\"", at)
		}
		switch {
		case word == "" || word[0] == '#':
		case word == "file":
			all = append(all, mutant{at: at, file: rest})
		case word == "test":
			m := &all[len(all)-1]
			fields := strings.Fields(rest)
			if len(fields) < 2 {
				return nil, fmt.Errorf("%s: want a folder and the name of a test", at)
			}
			m.folder, m.test = strings.TrimPrefix(fields[0], "./"), fields[1]
			if len(fields) > 2 {
				m.tags = strings.TrimPrefix(fields[2], "tags=")
			}
		case word == "-":
			all[len(all)-1].old += rest + "\n"
		case word == "+":
			all[len(all)-1].new += rest + "\n"
		default:
			return nil, fmt.Errorf("%s: %q is none of file, test, -, +", at, word)
		}
	}
	for _, m := range all {
		if m.test == "" || m.old == "" || m.old == m.new {
			return nil, fmt.Errorf("%s: a mutant needs a test, and old lines that differ from the new", m.at)
		}
	}
	return all, nil
}

// lists reads every list.
func lists() ([]mutant, error) {
	names, err := filepath.Glob("*.txt")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

const commandPage = "../../../../docs/reference/command.md"

// everywhere is the chapter with the flags of most verbs.
const everywhere = "Everywhere"

// flagRegion is a table of flags on the page. The line before it names its
// chapter.
var flagRegion = regexp.MustCompile(`<!-- flags: (\w+), written by go test -update -->\n(?:\|.*\n)*`)

// The tables of flags say what --help says.
func TestTablesOfFlagsSayWhatHelpSays(t *testing.T) {
	text, err := os.ReadFile(commandPage)
	if err != nil {
		t.Fatal(err)
	}
	want, tables := flagTables(Root(&out.Env{}).Commands()), 0
	got := flagRegion.ReplaceAllStringFunc(string(text), func(have string) string {
		tables++
		mark, _, _ := strings.Cut(have, "\n")
		name := flagRegion.FindStringSubmatch(have)[1]
		table := mark + "\n" + want[name]
		if table != have && !*golden.Update {
			t.Errorf("the flags of %s differ from --help (-update writes them):\n%s", name, table)
		}
		return table
	})
	if tables != len(want) {
		t.Errorf("the page has %d tables, want %d", tables, len(want))
	}
	if got != string(text) && *golden.Update {
		if err := os.WriteFile(commandPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// flagTables returns the tables of flags by their chapters. A flag that means
// the same in several verbs has its row in the first chapter, and the others
// refer to it. A verb without a row has no table.
func flagTables(verbs []*cobra.Command) map[string]string {
	rows := map[string][]string{} // chapter → row of each flag
	first := map[string]string{}  // row → chapter that has it
	verbsOf := map[string]int{}   // row → number of verbs
	visit := func(f func(verb string, flag *pflag.Flag)) {
		for _, c := range verbs {
			for _, g := range flagGroups(c) {
				for _, flag := range g.Flags {
					if flag.Name != "help" {
						f(c.Name(), flag)
					}
				}
			}
		}
	}
	visit(func(_ string, flag *pflag.Flag) { verbsOf[flagRow(flag)]++ })
	references := map[string]map[string][]string{} // chapter → other chapter → flags
	visit(func(verb string, flag *pflag.Flag) {
		row := flagRow(flag)
		home := first[row]
		if home == "" {
			home = verb
			if verbsOf[row] >= inMostVerbs {
				home = everywhere
			}
			first[row] = home
			rows[home] = append(rows[home], row)
		}
		if home != verb {
			if references[verb] == nil {
				references[verb] = map[string][]string{}
			}
			references[verb][home] = append(references[verb][home], "`--"+flag.Name+"`")
		}
	})
	tables := map[string]string{}
	for _, c := range append(verbs, &cobra.Command{Use: everywhere}) {
		if table := flagTable(rows[c.Name()], references[c.Name()]); table != "" {
			tables[c.Name()] = table
		}
	}
	return tables
}

// inMostVerbs is how many verbs have a flag whose row is in the chapter
// everywhere.
const inMostVerbs = 6

// flagTable returns the rows, and one that names the flags of other chapters.
func flagTable(rows []string, references map[string][]string) string {
	var others []string
	for _, chapter := range slices.Sorted(maps.Keys(references)) {
		where := "as in [" + chapter + "](#" + chapter + ")"
		if chapter == everywhere {
			where = "as [everywhere](#everywhere)"
		}
		others = append(others, where+": "+strings.Join(references[chapter], ", "))
	}
	if len(rows) == 0 {
		return ""
	}
	if len(others) > 0 {
		rows = append(rows, "| others | "+strings.Join(others, "; ")+" |\n")
	}
	return "| flag | |\n|---|---|\n" + strings.Join(rows, "")
}

// flagRow returns a flag as a row, in the words of --help.
func flagRow(f *pflag.Flag) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.AddFlag(f)
	names, text, _ := strings.Cut(strings.TrimSpace(set.FlagUsages()), "   ")
	return fmt.Sprintf("| %s | %s |\n", flagWord.ReplaceAllString(names, "`$0`"),
		strings.ReplaceAll(strings.TrimSpace(text), "|", `\|`))
}

var flagWord = regexp.MustCompile(`-[-a-z]+`)

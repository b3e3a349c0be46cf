// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/report"
)

// mostPrinted is the number of rows of a printed table.
const mostPrinted = 50

// PrintAnswer prints an answer as text. Where it has a title, the text begins
// with it and ends with the verdict, else the text begins with the verdict.
func (e *Env) PrintAnswer(p report.Page) {
	begin, end := p.Title, "\n"+p.Verdict+"\n"
	if begin == "" {
		begin, end = p.Verdict, ""
	}
	fmt.Fprintln(e.Stdout, begin)
	for _, words := range p.Words {
		fmt.Fprintln(e.Stdout, OneLine(words))
	}
	for _, s := range p.Sections {
		if s.Long {
			continue
		}
		if s.Words != "" {
			fmt.Fprintln(e.Stdout, "\n"+s.Words)
		}
		if len(s.Table.Rows) > 0 {
			fmt.Fprintln(e.Stdout)
			e.PrintTable(s.Table)
		}
	}
	for _, c := range p.Causes {
		fmt.Fprintln(e.Stdout)
		e.printCause(c)
	}
	fmt.Fprint(e.Stdout, end)
}

// PrintTable prints a page's table as text. It leaves out what is too long.
func (e *Env) PrintTable(t report.Table) {
	g := NewGridOf(t.Text, t.Columns...)
	for _, row := range t.Rows[:min(len(t.Rows), mostPrinted)] {
		var cells []any
		for _, cell := range row {
			cells = append(cells, cell)
		}
		g.Add(cells...)
	}
	e.Print(g)
	if more := len(t.Rows) - mostPrinted; more > 0 {
		fmt.Fprintf(e.Stdout, "and %d more, which --json and --report list\n", more)
	}
}

func (e *Env) printCause(c report.Cause) {
	says := slices.Clone(c.Says)
	if c.Culprit != "" {
		says[0] = c.Culprit + ": " + says[0]
	}
	head := c.Level
	for _, text := range says {
		e.wrap(head, text)
		head = ""
	}
	for _, text := range c.Do {
		e.wrap("    do:", text)
	}
	if len(c.Findings) > 0 {
		e.wrap(" hence:", c.Explains)
	}
	for _, text := range c.Findings {
		e.wrap("", "- "+text)
	}
}

// wrap prints text in lines of at most 110 columns, behind a head.
func (e *Env) wrap(head, text string) {
	for _, line := range Wrapped(OneLine(text), 101) {
		fmt.Fprintf(e.Stdout, "%-9s%s\n", head, line)
		head = ""
	}
}

// CheckReport returns the error with which [Env.SaveReport] would fail now. A
// verb calls it before its work, so that no work is lost. An empty name is no
// report.
func CheckReport(file string) error {
	if file == "" {
		return nil
	}
	if err := report.Check(file); err != nil {
		return CouldNot(WithoutPath(err), "writing --report %s", file)
	}
	return nil
}

// SaveReport writes an answer as the page of --report.
func (e *Env) SaveReport(quiet bool, file string, p report.Page) error {
	if err := report.Save(file, p); err != nil {
		return CouldNot(WithoutPath(err), "writing --report %s", file)
	}
	e.Say(quiet, "wrote the report to %s", file)
	return nil
}

// CommandLine returns the command that makes a report again, by the flags that
// were given. It leaves out the address, which may have a password.
func CommandLine(cmd *cobra.Command) string {
	words := []string{"getsetlock", cmd.Name()}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch flag.Name {
		case "report", "record", "hash", "redis", "password-file", "cacert", "cert", "key", "json", "quiet":
			return
		}
		words = append(words, "--"+flag.Name)
		if flag.Value.Type() != "bool" {
			words = append(words, "'"+flag.Value.String()+"'")
		}
	})
	return strings.Join(append(words, "--report FILE"), " ")
}

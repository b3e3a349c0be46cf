// SPDX-License-Identifier: Apache-2.0

// Command manual writes the manual pages and the completion scripts of
// getsetlock for packages:
//
//	go run ./cmd/getsetlock/internal/manual DIRECTORY
//
// DIRECTORY/man1 gets a page for the command and for each verb, made by
// cobra/doc from the same texts as --help. DIRECTORY/completions gets a script
// for each shell. Files that are there are overwritten.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "manual: "+err.Error())
		os.Exit(1)
	}
}

// write writes every page and script under a directory, which it makes.
func write(directory string) error {
	e := out.System()
	root := cli.Root(&e)
	pages, scripts := filepath.Join(directory, "man1"), filepath.Join(directory, "completions")
	for _, d := range []string{pages, scripts} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := root.GenBashCompletionFileV2(filepath.Join(scripts, "getsetlock.bash"), true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(filepath.Join(scripts, "_getsetlock")); err != nil {
		return err
	}
	if err := root.GenFishCompletionFile(filepath.Join(scripts, "getsetlock.fish"), true); err != nil {
		return err
	}
	root.Long += "\n\nVerbs:\n"
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			root.Long += fmt.Sprintf("  %-12s%s\n", c.Name(), c.Short)
		}
	}
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.IsAvailableCommand() && cmd != root {
			continue
		}
		text, err := page(cmd)
		if err == nil {
			name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
			err = os.WriteFile(filepath.Join(pages, name), []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page returns the manual page of a command, whose texts it changes. cobra/doc
// takes these for Markdown, which they are not.
func page(cmd *cobra.Command) (string, error) {
	cmd.Long = markdown(cmd.Long)
	cmd.DisableAutoGenTag = true
	cmd.InitDefaultHelpFlag()
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		f.Usage = special.ReplaceAllString(usage, `\$0`)
	})
	var b strings.Builder
	// Without a date, two builds of one commit write the same page.
	header := &doc.GenManHeader{Source: "getsetlock", Manual: "getsetlock", Date: &time.Time{}}
	if err := doc.GenMan(cmd, header, &b); err != nil {
		return "", err
	}
	lines := strings.Split(strings.Replace(b.String(), `"Jan 0001"`, `""`, 1), "\n")
	for i, l := range lines {
		switch {
		case strings.HasPrefix(l, ".TH"):
			lines[i] = l + "\n.nh\n.ad l" // a flag with a hyphen in it could not be copied
		case l == ".EX":
			lines[i] = ".in 0\n.EX" // command lines have up to 80 columns, and so has the page
		case l == ".EE":
			lines[i] = ".EE\n.in"
		case !strings.HasPrefix(l, "."):
			lines[i] = ascii.Replace(l)
		}
	}
	return strings.Join(lines, "\n"), nil
}

// markdown returns a help text as Markdown: lines that begin with a blank are
// tables and command lines, and keep their form.
func markdown(text string) string {
	var b strings.Builder
	fenced := false
	for l := range strings.Lines(text + "\n") {
		switch asIs := strings.HasPrefix(l, " "); {
		case asIs && !fenced:
			b.WriteString("\n```\n")
		case fenced && !asIs:
			b.WriteString("```\n")
		}
		if fenced = strings.HasPrefix(l, " "); !fenced {
			l = special.ReplaceAllString(l, `\$0`)
		}
		b.WriteString(l)
	}
	if fenced {
		b.WriteString("```\n")
	}
	return b.String()
}

// special are the characters that mean something in Markdown.
var special = regexp.MustCompile("[\\\\`*_{}\\[\\]()#+.!:|&<>~-]")

// ascii keeps the characters that groff makes typographic: a command line could
// not be copied otherwise.
var ascii = strings.NewReplacer(`\-`, `\-`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// SPDX-License-Identifier: Apache-2.0

// Command manual writes the manual pages and the completion scripts of
// getsetlock for packages:
//
//	go run ./cmd/getsetlock/internal/manual DIRECTORY
//
// DIRECTORY/man1 gets a page for the command and for each verb, which says what
// --help says. DIRECTORY/completions gets a script for each shell. Files that
// are there are overwritten.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

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
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.IsAvailableCommand() && cmd != root {
			continue
		}
		if err := os.WriteFile(filepath.Join(pages, nameOf(cmd)+".1"), []byte(page(cmd)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nameOf returns the name of a command's page.
func nameOf(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the manual page of a command: its help, in the same lines. It
// has no date, so that two builds of one commit write the same page.
func page(cmd *cobra.Command) string {
	var help strings.Builder
	cmd.SetOut(&help)
	_ = cmd.Help() // a strings.Builder takes everything
	var also []string
	if cmd.HasParent() {
		also = append(also, "getsetlock(1)")
	}
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() && verb.Name() != "help" {
			also = append(also, nameOf(verb)+"(1)")
		}
	}
	return fmt.Sprintf(".TH %s 1 \"\" getsetlock getsetlock\n.nh\n.SH NAME\n%s \\- %s\n"+
		".SH DESCRIPTION\n.in 0\n.nf\n%s.fi\n.in\n.SH SEE ALSO\n%s\n", strings.ToUpper(nameOf(cmd)),
		roff(nameOf(cmd)), roff(cmd.Short), roff(help.String()), roff(strings.Join(also, ", ")))
}

// roff returns text that groff prints as it stands.
func roff(text string) string { return request.ReplaceAllString(ascii.Replace(text), `\&$0`) }

var (
	// request finds what would be a request at the beginning of a line.
	request = regexp.MustCompile(`(?m)^[.]`)

	// ascii keeps the characters that groff makes typographic: a command line
	// could not be copied otherwise.
	ascii = strings.NewReplacer(`\`, `\(rs`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)
)

// Command manual writes the manual pages and the completion scripts of
// getsetlock for packages:
//
//	go run ./cmd/getsetlock/internal/manual DIRECTORY
//
// DIRECTORY/man1 gets a page for the command and for each verb, made from the
// same texts as --help. DIRECTORY/completions gets a script for each shell.
// Files that are there are overwritten.
package main

import (
	"fmt"
	"os"
	"path/filepath"

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
	for _, cmd := range append(shown(root), root) {
		name := filepath.Join(pages, pageName(cmd)+".1")
		if err := os.WriteFile(name, []byte(page(cmd)), 0o644); err != nil {
			return err
		}
	}
	if err := root.GenBashCompletionFileV2(filepath.Join(scripts, "getsetlock.bash"), true); err != nil {
		return err
	}
	if err := root.GenZshCompletionFile(filepath.Join(scripts, "_getsetlock")); err != nil {
		return err
	}
	return root.GenFishCompletionFile(filepath.Join(scripts, "getsetlock.fish"), true)
}

// shown returns the verbs that --help lists, but for cobra's own help.
func shown(root *cobra.Command) (verbs []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			verbs = append(verbs, c)
		}
	}
	return verbs
}

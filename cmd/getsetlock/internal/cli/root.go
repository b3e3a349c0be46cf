// SPDX-License-Identifier: Apache-2.0

// Package cli builds the command getsetlock: its root and the list of its
// verbs.
package cli

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs"
)

// rootLong is what --help says.
//
//go:embed root.txt
var rootLong string

const rootExamples = `  getsetlock rehearse                     see what goes wrong without a lock;
                                          needs no server
  getsetlock run nightly -- ./backup.sh   one backup at a time, on all hosts
  getsetlock ls                           see who holds which lock`

// usageWords changes cobra's text of usage: it prints the flags in groups, and
// leaves out the examples, which help prints before.
var usageWords = strings.NewReplacer(
	"\n\nFlags:\n{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{flagGroups .}}",
	"{{if .HasExample}}\n\nExamples:\n{{.Example}}{{end}}", "")

func init() { cobra.AddTemplateFunc("flagGroups", flagUsages) }

// help prints the help of a verb: what it does, then the examples that most
// people need, then the details and the flags.
func help(cmd *cobra.Command, _ []string) {
	lead, details, _ := strings.Cut(cmp.Or(cmd.Long, cmd.Short), "\n\n")
	parts := []string{lead}
	if cmd.HasExample() {
		parts = append(parts, "Most people need:\n"+cmd.Example)
	}
	if details != "" {
		parts = append(parts, details)
	}
	fmt.Fprint(cmd.OutOrStdout(), strings.Join(append(parts, cmd.UsageString()), "\n\n"))
}

// Main runs one command line and returns its exit code.
func Main(args []string, env out.Env) int { return out.Execute(args, env, Root) }

// Root returns the command with all its verbs.
func Root(e *out.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "getsetlock",
		Short: "Locks on Redis, shared with old clients that write timestamps",
		Long:  strings.TrimSpace(rootLong), Example: rootExamples,
		Args: out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.Version = smallverbs.VersionLine(e)
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version, as the verb version does")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(usageWords.Replace(root.UsageTemplate()))
	root.SetHelpFunc(help)
	addVerbs(root, e)
	return root
}

// flagError adds what was probably meant: the nearest flag for an unknown one,
// and seconds for a time without a unit.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return invalidValue(invalid)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	word := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	word, _, _ = strings.Cut(word, "=") // after it may come a password
	if word == "target" {
		return out.WrongUse("%w: %s is for Redis; %s", err, cmd.CommandPath(), out.OtherStores)
	}
	if near := out.Nearest(word, names); near != "" {
		return out.WrongUse("%w; did you mean --%s? See %s --help", err, near, cmd.CommandPath())
	}
	return out.WrongUse("%w; see %s --help", err, cmd.CommandPath())
}

// invalidValue says what to write instead of a flag's value.
func invalidValue(err *pflag.InvalidValueError) error {
	_, noNumber := strconv.ParseFloat(err.GetValue(), 64)
	kind := err.GetFlag().Value.Type()
	switch {
	case noNumber == nil && strings.Contains(err.Unwrap().Error(), "duration"):
		return out.WrongUse("%w; did you mean %ss?", err, err.GetValue())
	case kind == "bool":
		return out.WrongUse("invalid argument %q for \"--%s\" flag: give the flag without a value", err.GetValue(),
			err.GetFlag().Name)
	case strings.HasPrefix(kind, "int"):
		return out.WrongUse("invalid argument %q for \"--%s\" flag: write a whole number", err.GetValue(), err.GetFlag().Name)
	case strings.HasPrefix(kind, "uint"):
		return out.WrongUse("invalid argument %q for \"--%s\" flag: write a whole number, zero or above", err.GetValue(),
			err.GetFlag().Name)
	}
	return err
}

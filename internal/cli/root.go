package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const rootLong = `getsetlock takes locks on Redis that old clients of the GETSET kind (jedis-lock
and its many relatives) respect, and keeps a watch on them.

A lock is a key. Whoever sets it first works; the others wait. Old clients write
into the key when their lock expires, by their own clock; told of them, by --dialect,
getsetlock writes the same bytes, so that both exclude each other, and proves what it
holds by a token of its own beside the key. Where there are no old clients, the key
holds a token and nothing else, and ends by the server's clock.

Start with

  getsetlock rehearse                        what goes wrong without a lock, and
                                             what does not with one; no server needed
  getsetlock run nightly -- ./backup.sh      one backup at a time, on all hosts
  getsetlock ls                              who holds what

The server is given by --redis, else by the variable GETSETLOCK_REDIS, else it is
redis://127.0.0.1:6379. A password belongs into the variable: everybody on the
machine can read the command lines of others.`

func newRoot(e *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "getsetlock",
		Short: "Locks on Redis, beside the old clients that know only GETSET",
		Long:  rootLong,
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") {
			return wrongUse("%w; see %s --help", err, cmd.CommandPath())
		}
		return err
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Available Commands:", "Commands:"))
	slices.SortStableFunc(verbs, func(a, b verb) int { return a.order - b.order })
	for _, v := range verbs {
		root.AddCommand(v.make(e))
	}
	return root
}

// noArgs refuses arguments by a sentence; cobra's own takes them for unknown commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return wrongUse("it takes no arguments, and was given %q", args[0])
	}
	return wrongUse("there is no command %q; see getsetlock --help", args[0])
}

// examples indents the lines of a verb's examples as cobra prints them.
func examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

// Package cli is the root of the command getsetlock and the list of its verbs.
package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/auditverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/benchverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/migrateverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/rehearseverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/runverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/skewverb"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/verbs/smallverbs"
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

// verbs are the constructors of all verbs. --help sorts them by their names; the
// last two are hidden, since only a measurement and a rehearsal start them.
var verbs = []func(*out.Env) *cobra.Command{
	rehearseverb.New, skewverb.New, runverb.New, benchverb.New, migrateverb.New,
	auditverb.NewAudit, auditverb.NewDoctor,
	smallverbs.NewLs, smallverbs.NewUnlock, smallverbs.NewVersion, smallverbs.NewCompletion,
	benchverb.NewProcess, rehearseverb.NewChild,
}

// Main runs one command line and returns its exit code.
func Main(args []string, env out.Env) int { return out.Execute(args, env, newRoot) }

func newRoot(e *out.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "getsetlock",
		Short: "Locks on Redis, beside the old clients that know only GETSET",
		Long:  rootLong,
		Args:  out.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown") {
			return out.WrongUse("%w; see %s --help", err, cmd.CommandPath())
		}
		return err
	})
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Available Commands:", "Commands:"))
	for _, newVerb := range verbs {
		root.AddCommand(newVerb(e))
	}
	return root
}

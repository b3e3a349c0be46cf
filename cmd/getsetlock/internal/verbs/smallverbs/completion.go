// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// NewCompletion returns the verb completion.
func NewCompletion(e *out.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for your shell",
		Long: `Prints a script that completes this program's commands, flags and values of
flags, such as the names of dialects.

The script never completes names of locks, since that would ask the server at
each key press.`,
		Example: out.Examples(
			"# for one session of bash",
			"source <(getsetlock completion bash)",
			"# for good: bash, zsh, fish",
			"getsetlock completion bash > /etc/bash_completion.d/getsetlock",
			`getsetlock completion zsh > "${fpath[1]}/_getsetlock"`,
			"getsetlock completion fish > ~/.config/fish/completions/getsetlock.fish",
		),
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return out.WrongUse("name one shell: bash, zsh or fish")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			var err error
			switch args[0] {
			case "bash":
				err = root.GenBashCompletionV2(e.Stdout, true)
			case "zsh":
				err = root.GenZshCompletion(e.Stdout)
			case "fish":
				err = root.GenFishCompletion(e.Stdout, true)
			default:
				if near := out.Nearest(args[0], cmd.ValidArgs); near != "" {
					return out.WrongUse("no completion for %q; did you mean %s?", args[0], near)
				}
				return out.WrongUse("no completion for %q: there is bash, zsh and fish", args[0])
			}
			if err != nil {
				return out.CouldNot(err, "printing the completion script")
			}
			return nil
		},
	}
}

package cli

import (
	"github.com/spf13/cobra"
)

func init() { register(91, newCompletion) }

func newCompletion(e *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for your shell",
		Long: `Prints a script that teaches a shell this program's commands, flags and the values
of flags, such as the names of dialects. Keys are not completed: that would ask the
server at each press of a key.`,
		Example: examples(
			"getsetlock completion bash > /etc/bash_completion.d/getsetlock",
			"source <(getsetlock completion bash)",
			`getsetlock completion zsh > "${fpath[1]}/_getsetlock"`,
			"getsetlock completion fish > ~/.config/fish/completions/getsetlock.fish",
		),
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrongUse("name one shell: bash, zsh or fish")
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
				return wrongUse("no completion for %q: there is bash, zsh and fish", args[0])
			}
			if err != nil {
				return couldNot(err, "printing the completion script")
			}
			return nil
		},
	}
}

// Command getsetlock takes, shows and rehearses locks on Redis beside clients of the old GETSET kind.
// "getsetlock --help" says more; what scripts may rely on is in docs and does not change silently.
package main

import (
	"os"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func main() { os.Exit(cli.Main(os.Args[1:], out.System())) }

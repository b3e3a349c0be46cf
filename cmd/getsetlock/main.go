// SPDX-License-Identifier: Apache-2.0

// Command getsetlock takes, shows and rehearses locks on Redis. It can share a
// lock with old clients, which use timestamps and GETSET.
//
// "getsetlock --help" lists the verbs. Package docs and
// docs/reference/command.md say what scripts may rely on; that does not change
// without a line in the changelog.
package main

import (
	"os"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func main() { os.Exit(cli.Main(os.Args[1:], out.System())) }

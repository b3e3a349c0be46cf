// SPDX-License-Identifier: Apache-2.0

// Command getsetlock is the command with every store: locks on Redis, in etcd
// and in ZooKeeper. Without --target it does what the command of the same name
// in the folder cmd/getsetlock does. That one is smaller, and knows Redis only.
package main

import (
	"os"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/full/getsetlock/internal/stores"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

func main() {
	env := out.System()
	env.Stores = stores.All()
	os.Exit(cli.Main(os.Args[1:], env))
}

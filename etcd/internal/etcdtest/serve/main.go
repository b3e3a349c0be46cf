// SPDX-License-Identifier: Apache-2.0

// Command serve runs one member of etcd for tests in other modules, which do
// not depend on etcd's server. It prints the member's address and ends with its
// standard input:
//
//	serve FOLDER [CERTIFICATE KEY AUTHORITY]
//
// With certificates, clients need TLS and a certificate that the authority
// signed.
package main

import (
	"fmt"
	"os"

	"github.com/getsetlock/getsetlock/etcd/internal/etcdtest"
)

func main() {
	given := append(os.Args[1:], "", "", "", "")
	err := etcdtest.Run(etcdtest.Settings{Dir: given[0], Cert: given[1], Key: given[2], Authority: given[3]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

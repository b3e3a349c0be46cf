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
	var given etcdtest.Settings
	var err error
	switch args := os.Args[1:]; len(args) {
	case 4:
		given.Cert, given.Key, given.Authority = args[1], args[2], args[3]
		fallthrough
	case 1:
		given.Dir = args[0]
		err = etcdtest.Run(given)
	default:
		err = fmt.Errorf("serve takes 1 or 4 arguments, not %d", len(args))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// SPDX-License-Identifier: Apache-2.0

// Package stores has the stores other than Redis in which the full command
// takes locks: etcd and ZooKeeper.
//
// It assumes of clocks what packages etcd and zookeeper assume.
package stores

import (
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
)

// All returns every store, by the scheme of its addresses.
func All() map[string]backing.Store {
	return map[string]backing.Store{"etcd": etcdStore(), "zookeeper": zookeeperStore()}
}

// storeError is trouble with a store, with whether it may pass.
type storeError struct {
	error
	passes bool
}

func (e *storeError) Unwrap() error { return e.error }

// Passing reports whether the trouble may pass.
func (e *storeError) Passing() bool { return e.passes }

// badCertificate reports that the server's certificate was not accepted.
func badCertificate(text string) bool {
	return strings.Contains(text, "x509:") || strings.Contains(text, "certificate")
}

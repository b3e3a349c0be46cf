// SPDX-License-Identifier: Apache-2.0

// Package names knows which keys of a server are getsetlock's own.
package names

import (
	"fmt"
	"strings"
)

// Prefix is how the names of getsetlock's own keys begin: counters of fencing
// numbers, queues of waiters, records and members of a migration.
const Prefix = "gsl:"

// probe is how the names of the keys begin on which members of a migration try
// their scripts.
const probe = Prefix + "probe:"

// OwnNoProbe is [Own] for backends. It allows probe keys, since members take a
// probe like a lock.
func OwnNoProbe(key string) error {
	if strings.HasPrefix(key, probe) {
		return nil
	}
	return Own(key)
}

// Own returns an error for a name that no lock of a user may have, and nil for
// others. A lock on a counter's key would stop every fenced lock.
func Own(key string) error {
	if !strings.HasPrefix(key, Prefix) {
		return nil
	}
	return fmt.Errorf("key %q: getsetlock keeps keys of its own under %q, such as fencing counters; give the lock another name", key, Prefix)
}

// Package names knows which keys of a server are getsetlock's own.
package names

import (
	"fmt"
	"strings"
)

// Prefix is what the names of getsetlock's own keys begin with: counters of
// fencing numbers, queues of waiters, records and members of a migration.
const Prefix = "gsl:"

// probe is what the keys begin with on which members of a migration try their
// scripts.
const probe = Prefix + "probe:"

// OwnNoProbe is [Own] for backends, which the probes of members go through: a
// probe is taken like a lock.
func OwnNoProbe(key string) error {
	if strings.HasPrefix(key, probe) {
		return nil
	}
	return Own(key)
}

// Own returns an error for a name that no lock of a user may have, nil for
// others. A lock on the key of a counter would stop every fenced lock.
func Own(key string) error {
	if !strings.HasPrefix(key, Prefix) {
		return nil
	}
	return fmt.Errorf("key %q: getsetlock keeps keys of its own under %q, such as fencing counters; give the lock another name", key, Prefix)
}

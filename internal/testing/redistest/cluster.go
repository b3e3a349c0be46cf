// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// OnlyNode starts a server that is the only node of a cluster and has all its
// slots. Like the one endpoint of a managed cluster, it runs every command, but
// no script with keys of two slots.
func OnlyNode(t testing.TB) *Server {
	t.Helper()
	s := Real(t, Options{Args: []string{"--cluster-enabled", "yes"}})
	slots := redis.Args{"ADDSLOTS"}
	for i := range 16384 {
		slots = slots.Add(i)
	}
	s.Do("CLUSTER", slots...)
	for info := ""; !strings.Contains(info, "cluster_state:ok"); {
		info, _ = redis.String(s.Do("CLUSTER", "INFO"), nil)
	}
	return s
}

// OddKeys are names of locks with and without hash tags, whose auxiliary keys
// must lie in their slot.
var OddKeys = []string{"nightly", "app:order:7", "a{b}c", "{a}{b}", "odd}name", "a{b", "{}x"}

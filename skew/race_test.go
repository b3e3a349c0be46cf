// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"fmt"
	"sync"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Callers may ask several questions at once: no search touches what another one
// uses.
func TestConcurrentSearchesDoNotAffectEachOther(t *testing.T) {
	ask := func(n int) string {
		d := []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID(), dialect.RedisPy(),
			dialect.BareExpire()}[n]
		x, err := Explore(Scenario{Dialect: d, Old: 2, Lease: 4, Job: 4, Gap: 1})
		return fmt.Sprint(x.States, x.Steps, x.Trace, err)
	}
	var alone, together [4]string
	for n := range alone {
		alone[n] = ask(n)
	}
	var all sync.WaitGroup
	for n := range together {
		all.Go(func() { together[n] = ask(n) })
	}
	all.Wait()
	if alone != together {
		t.Errorf("alone %v\ntogether %v", alone, together)
	}
}

// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"sync"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/raced"
)

// less returns the length of a run, a sixteenth of it under the race detector.
func less[T ~int | ~int64](n T) T {
	if raced.On {
		return n / 16
	}
	return n
}

// Callers may ask several questions at once: no simulation touches what another
// one uses.
func TestConcurrentSimulationsAreIndependent(t *testing.T) {
	ask := func(n int) string {
		s := plainFleet()
		s.Dialect = []dialect.Dialect{
			dialect.Jedis(), dialect.JedisUUID(), dialect.RedisPy(), dialect.BareExpire()}[n]
		s.Lease, s.Acquisitions = sec, 500
		s.Clocks = Presets()[n].Clocks
		r, err := run(s)
		return fmt.Sprint(r, err)
	}
	var alone, beside [4]string
	for n := range alone {
		alone[n] = ask(n)
	}
	var all sync.WaitGroup
	for n := range beside {
		all.Go(func() { beside[n] = ask(n) })
	}
	all.Wait()
	if alone != beside {
		t.Errorf("alone %v\ntogether %v", alone, beside)
	}
}

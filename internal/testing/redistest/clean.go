// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/getsetlock/getsetlock/internal/polite"
)

// Make the random choice of which releases leave their key to old clients the
// same in each run.
func init() { polite.Begin = func(time.Duration) time.Duration { return 0 } }

// Main runs the tests of a package and fails it if a goroutine outlives them:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M) { goleak.VerifyTestMain(m) }

// Clean makes the test fail if, when it ends, a key is left on the server or a
// goroutine runs that did not run when Clean was called. Call Clean right after
// making the world and the pool: what is made later is closed before the check.
// Clean closes the pool. A test that runs in parallel with others, or in a
// Bubble, uses NoKeys and Main instead, since it cannot tell which test a
// goroutine belongs to.
func Clean(t testing.TB, p *redis.Pool) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		t.Helper()
		NoKeys(t, p)
		p.Close()
		goleak.VerifyNone(t, before)
	})
}

// NoKeys fails the test and names the keys if there are any on the server, in
// the pool's database.
func NoKeys(t testing.TB, p *redis.Pool) {
	t.Helper()
	if keys := Keys(t, p); len(keys) > 0 {
		t.Errorf("redistest: keys left on the server: %q", keys)
	}
}

// Keys returns the keys on the server, in the pool's database.
func Keys(t testing.TB, p *redis.Pool) []string {
	t.Helper()
	c := p.Get()
	defer c.Close()
	keys, err := redis.Strings(redis.DoWithTimeout(c, Patience, "KEYS", "*"))
	if err != nil {
		t.Fatalf("redistest: KEYS: %v", err)
	}
	return keys
}

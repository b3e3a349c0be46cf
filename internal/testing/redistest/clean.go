package redistest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/getsetlock/getsetlock/internal/polite"
)

// Which releases leave their key to old clients is the same in each run.
func init() { polite.Begin = func(time.Duration) time.Duration { return 0 } }

// Main runs the tests of a package and fails it if a goroutine outlives them:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M) { goleak.VerifyTestMain(m) }

// Clean makes the test fail if, when it ends, a key is left on the server or a goroutine runs that
// did not run when Clean was called. Call it right after the world and the pool are made: what is
// made later is closed before the look is taken. The pool is closed by it. A test that runs in
// parallel with others, or in a Bubble, takes NoKeys and Main instead, since it can't tell whose
// goroutines it sees.
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

// NoKeys fails the test if a key is on the server now, in the database of the pool, and names it.
func NoKeys(t testing.TB, p *redis.Pool) {
	t.Helper()
	if keys := Keys(t, p); len(keys) > 0 {
		t.Errorf("redistest: keys left on the server: %q", keys)
	}
}

// Keys are the keys on the server.
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

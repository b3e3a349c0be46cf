package quorum_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/quorum"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestBackendPassesTheKit runs the kit over members in memory, in virtual time.
func TestBackendPassesTheKit(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		cfg   quorum.Config
	}{
		"three":        {[]string{"a", "b", "c"}, quorum.Config{}},
		"five":         {[]string{"a", "b", "c", "d", "e"}, quorum.Config{Note: "host 7"}},
		"three fences": {[]string{"a", "b", "c"}, quorum.Config{Fences: true}},
		"five fences":  {[]string{"a", "b", "c", "d", "e"}, quorum.Config{Fences: true}},
	} {
		t.Run(name, func(t *testing.T) {
			locktest.RunInBubbles(t, locktest.Traits{Barging: true}, func(t *testing.T) *locktest.World {
				servers := newServers(lock.Machine, c.names...)
				return &locktest.World{
					Backend: func() backend.Store {
						b, err := quorum.New(join(servers), c.cfg)
						if err != nil {
							t.Fatal(err)
						}
						return b
					},
					Pass: time.Sleep,
					TTL:  10 * time.Second,
					Seize: func(key string) {
						for _, s := range servers {
							s.set(key, "thief", time.Hour)
						}
					},
				}
			})
		})
	}
}

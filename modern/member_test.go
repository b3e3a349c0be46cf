package modern_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

var _ quorum.Member = (*modern.Backend)(nil)

// TestQuorumOfServersPassesTheKit runs the kit over three embedded servers.
func TestQuorumOfServersPassesTheKit(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			locktest.RunInBubbles(t, locktest.Traits{CannotWake: true}, func(t *testing.T) *locktest.World {
				var worlds []*redistest.World
				for _, id := range []string{"a", "b", "c"} {
					w := redistest.Bubble(t)
					w.Info(map[string]string{"run_id": id})
					worlds = append(worlds, w)
				}
				return &locktest.World{
					Backend: func() lock.Backend { return over(t, worlds, fences) },
					Pass: func(d time.Duration) {
						worlds[0].Pass(d)
						worlds[1].ServerNow()
						worlds[2].ServerNow()
					},
					TTL: 10 * time.Second,
					Seize: func(key string) {
						for _, w := range worlds {
							w.Mini.Set(key, "thief")
							w.Mini.SetTTL(key, time.Hour)
						}
					},
				}
			})
		})
	}
}

// over returns a quorum over the servers of some worlds.
func over(t *testing.T, worlds []*redistest.World, fences bool) *quorum.Backend {
	t.Helper()
	var members []quorum.Member
	for i, w := range worlds {
		m, err := modern.New(w.Pool(), modern.Config{Fence: fences, Name: string(rune('a' + i))})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, quorum.Config{Fences: fences})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReadyRefusesServersThatLoseVotes goes through what INFO can say.
func TestReadyRefusesServersThatLoseVotes(t *testing.T) {
	for field, c := range map[string]struct{ value, want string }{
		"redis_mode":         {"cluster", "node of a cluster"},
		"run_id":             {"", "a proxy"},
		"uptime_in_seconds":  {"", "a proxy"},
		"role":               {"slave", "is a replica"},
		"connected_slaves":   {"1", "has replicas"},
		"second_repl_offset": {"4711", "was a replica"},
	} {
		refuses(t, map[string]string{field: c.value}, c.want)
	}
	refuses(t, map[string]string{"redis_mode": "sentinel"}, "sentinel")
	refuses(t, map[string]string{"maxmemory": "1000", "maxmemory_policy": "volatile-lru"}, "may evict")
	refuses(t, map[string]string{"maxmemory_policy": ""}, "does not say whether it evicts")
}

func refuses(t *testing.T, info map[string]string, want string) {
	t.Helper()
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(info)
		b := open(t, w, modern.Config{Name: "a"})
		_, _, err := b.Ready(bg, time.Minute)
		var passing interface{ Passing() bool }
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &passing) ||
			passing.Passing() {
			t.Errorf("a server with %v: %v; it should be refused, and say %q", info, err, want)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// late is after the renewal that confirms the late votes of a grant.
const late = 10 * time.Millisecond

// TestBackendPassesTheKit runs the kit over embedded servers, in virtual time.
func TestBackendPassesTheKit(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		cfg   quorum.Config
	}{
		"three":       {[]string{"a", "b", "c"}, quorum.Config{Note: "host 7"}},
		"five fences": {[]string{"a", "b", "c", "d", "e"}, quorum.Config{Fences: true}},
	} {
		t.Run(name, func(t *testing.T) {
			traits := locktest.Traits{CannotWake: true, Barging: true}
			locktest.RunInBubbles(t, traits, func(t *testing.T) *locktest.World {
				w := &world{T: t, names: c.names, runs: make([]int, len(c.names))}
				for i := range c.names {
					w.servers = append(w.servers, redistest.Bubble(t))
					w.says(i)
					w.seat(i)
				}
				return &locktest.World{
					Backend: func() backend.Store {
						var members []quorum.Member
						for i, s := range w.servers {
							cfg := modern.Config{Fence: c.cfg.Fences, Name: c.names[i]}
							m, err := modern.New(s.Pool(), cfg)
							if err != nil {
								t.Fatal(err)
							}
							members = append(members, m)
						}
						b, err := quorum.New(members, c.cfg)
						if err != nil {
							t.Fatal(err)
						}
						return b
					},
					Pass: func(d time.Duration) {
						pass(d + late)
						for _, s := range w.servers {
							s.ServerNow()
						}
					},
					TTL: 10 * time.Second,
					Seize: func(key string) {
						for _, s := range w.servers {
							s.Mini.Set(key, "thief")
							s.Mini.SetTTL(key, time.Hour)
						}
					},
				}
			})
		})
	}
}

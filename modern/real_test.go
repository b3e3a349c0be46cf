// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

// pass lets real time pass until a key on the server has ended: the server's
// time counts.
func pass(t *testing.T, s *redistest.Server) func(time.Duration) {
	return func(d time.Duration) {
		t.Helper()
		s.Do("SET", "pass", "1", "PX", d.Milliseconds()+1)
		<-time.After(d)
		for {
			left := s.Do("PTTL", "pass").(int64)
			if left < 0 {
				return // the key has ended
			}
			<-time.After(time.Duration(left+1) * time.Millisecond)
		}
	}
}

func TestBackendPassesTheKitOnRealServers(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			t.Parallel()
			for name, cfg := range map[string]modern.Config{
				"plain": {}, "fence": {Fence: true}, "fair": {Fair: true, Fence: true},
			} {
				cfg.Timeout = time.Minute
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					traits := locktest.Traits{CannotWake: !binary.Tracking,
						Barging: !binary.Effects && !cfg.Fair}
					locktest.Run(t, traits, func(t *testing.T) *locktest.World {
						s := binary.Start(t, redistest.Options{})
						return &locktest.World{
							RealTime: true,
							Backend: func() backend.Store {
								return openOn(t, s.Pool(), cfg)
							},
							Pass:      pass(t, s),
							TTL:       2 * time.Second,
							FreeAfter: 50 * time.Millisecond,
							Seize:     func(key string) { s.Do("SET", key, "thief", "PX", 60000) },
						}
					})
				})
			}
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
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

// calls returns how many commands of clients the server has executed since
// CONFIG RESETSTAT.
func calls(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	info, _ := redis.String(s.Do("INFO", "commandstats"), nil)
	for _, line := range strings.Split(info, "\r\n") {
		name, rest, ok := strings.Cut(line, ":calls=")
		// The server also counts commands inside scripts, which no client sent.
		if ok && slices.Contains(sent, strings.TrimPrefix(name, "cmdstat_")) {
			count, _, _ := strings.Cut(rest, ",")
			i, err := strconv.Atoi(count)
			if err != nil {
				t.Fatal(err)
			}
			n += i
		}
	}
	return n
}

// sent are the commands that a contended modern lock sends outside scripts and
// that its scripts do not call.
var sent = []string{"evalsha", "eval", "client|caching", "client", "delex", "delifeq", "wait"}

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
								b, err := modern.New(s.Pool(), cfg)
								if err != nil {
									t.Fatal(err)
								}
								return b
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

// TestAcquisitionCostsTheSameWithManyWaiters counts the commands of contended
// acquisitions: the number must not grow with the number of waiting processes.
func TestAcquisitionCostsTheSameWithManyWaiters(t *testing.T) {
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprintf("fair=%v", fair), func(t *testing.T) {
			counts := map[int]float64{}
			for _, processes := range []int{2, 16} {
				s := redistest.Real(t, redistest.Options{})
				counts[processes] = contended(t, s, modern.Config{Fair: fair}, processes, 400)
				t.Logf("%d processes: %.1f commands an acquisition", processes, counts[processes])
			}
			if counts[16] > 2*counts[2] {
				t.Errorf("%.1f commands with 2 processes, %.1f with 16", counts[2], counts[16])
			}
		})
	}
}

// contended makes processes of two goroutines each take one key in turn. It
// returns the number of commands for one acquisition.
func contended(t *testing.T, s *redistest.Server, cfg modern.Config, processes, rounds int) float64 {
	var clients []*lock.Client
	for range processes {
		b, err := modern.New(s.Pool(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := lock.New(b, lock.Config{LocalHandOvers: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(bg); err != nil {
				t.Error(err)
			}
		})
		clients = append(clients, c)
	}
	s.Do("CONFIG", "RESETSTAT")
	var wg sync.WaitGroup
	total, done := 0, 0 // total is guarded by the lock
	var mu sync.Mutex
	for _, c := range clients {
		for range 2 {
			wg.Go(func() {
				for range rounds / processes {
					l, err := c.Acquire(bg, "k")
					if err != nil {
						t.Error(err)
						return
					}
					total++
					if err := l.Release(); err != nil {
						t.Error(err)
					}
					mu.Lock()
					done++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if total != done {
		t.Errorf("%d updates of %d were kept", total, done)
	}
	return float64(calls(t, s)) / float64(done)
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// windowed is a watch by MONITOR of lock:* in database 3.
type windowed struct {
	t    *testing.T
	s    *redistest.Server
	conn redis.Conn // a client in database 3
	ctx  context.Context
	stop context.CancelFunc
}

func newWindowed(t *testing.T, s *redistest.Server) *windowed {
	t.Helper()
	w := &windowed{t: t, s: s, conn: s.Pool(redis.DialDatabase(3)).Get()}
	w.ctx, w.stop = context.WithTimeout(t.Context(), redistest.Patience)
	t.Cleanup(func() { w.stop(); _ = w.conn.Close() })
	return w
}

// watch runs the watch until seen returns true, and fails if it never does.
func (w *windowed) watch(what string, seen func(*Result) bool) {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	pool := w.s.Pool(redis.DialDatabase(3))
	defer pool.Close()
	done := false
	r, err := Watch(ctx, pool, Config{
		Config:    census.Config{Match: "lock:*", DB: 3, Dialects: jedis()},
		Monitor:   MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute},
		SeenEvery: 50 * time.Millisecond,
		Seen: func(r *Result) {
			if !done && seen(r) {
				done = true
				stop()
			}
		},
	})
	if err != nil || !done {
		w.t.Errorf("%s never came: %v; MONITOR %+v, last call %+v", what, err,
			r.Evidence.Covered(census.SourceMonitor), r.Evidence.LastCall)
	}
}

func (w *windowed) do(name string, args ...any) any {
	w.t.Helper()
	reply, err := w.conn.Do(name, args...)
	if err != nil {
		w.t.Errorf("%s %v: %v", name, args, err)
	}
	return reply
}

// hammer sends the counted commands in every way, as fast as it can, elsewhere
// than on the watched keys, until ctx ends. It returns how many it sent.
func hammer(ctx context.Context, t *testing.T, s *redistest.Server, database int, key string) (sent int64) {
	c := s.Pool(redis.DialDatabase(database)).Get()
	defer c.Close()
	const script = "redis.call('SET', KEYS[1], '1') redis.call('setnx', KEYS[1], '2') return redis.pcall('GETSET', KEYS[2], '1')"
	if _, err := c.Do("HSET", key+"h", "a", "1"); err != nil {
		t.Error(err)
		return
	}
	dump, err := redis.String(c.Do("DUMP", key+"h"))
	if err != nil {
		t.Error(err)
		return
	}
	for ctx.Err() == nil {
		batch := [][]any{
			{"SET", key, sent}, {"set", key, "1", "nx"}, {"SETNX", key, "2"}, {"GETSET", key, "1"},
			{"MSETNX", key, "1", key + "b", "1"}, {"MSET", key, "1", key + "b", "1"}, {"SETEX", key, 60, "1"},
			{"PSETEX", key, 0, "1"}, {"GETSET", key + "h", "1"}, {"SET", key}, {"SET", key, "1", "NONE"},
			{"RENAME", key + "missing", key}, {"RENAMENX", key, key + "b"}, {"RESTORE", key, 0, "broken"},
			{"RESTORE", key + "r", 0, dump}, {"DEL", key + "r"}, {"INFO", "server"}, {"GETDEL", key},
			{"COPY", key, key + "c"},
			{"EVAL", script, 2, key, key + "h"}, {"EVAL", "return redis.call('SETNX', KEYS[1])", 1, key},
			{"MULTI"}, {"SET", key, "1"}, {"SETNX", key, "1"}, {"EXEC"}, {"MULTI"}, {"SET", key},
			{"SET", key, "1"}, {"EXEC"},
			{"MULTI"}, {"GETSET", key, "1"}, {"DISCARD"}, {"SET", key, strings.Repeat("v", 5000)},
		}
		for _, words := range batch {
			if err := c.Send(words[0].(string), words[1:]...); err != nil {
				t.Error(err)
				return
			}
		}
		if err := c.Flush(); err != nil {
			t.Error(err)
			return
		}
		for range batch {
			if _, err := c.Receive(); err != nil && c.Err() != nil {
				t.Error(err)
				return
			}
			sent++
		}
	}
	return sent
}

// Programs in other namespaces and databases send thousands of the counted
// commands a second, in every way and with every outcome, on servers of all
// versions. Two watches at once prove their windows.
func TestWindowGrowsBesideHammeringPrograms(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			w := newWindowed(t, s)
			ctx, stop := context.WithCancel(w.ctx)
			var programs, watches sync.WaitGroup
			var sent atomic.Int64
			for i := range 3 {
				programs.Go(func() { sent.Add(hammer(ctx, t, s, 3*(i%2), fmt.Sprint("session:", i))) })
			}
			for range 2 {
				watches.Go(func() {
					w.watch("a window of 6 s", func(r *Result) bool {
						for _, h := range r.Evidence.Covered(census.SourceMonitor).Holes {
							if h.Reason == census.HoleCounts || h.Reason == census.HoleReset {
								t.Error(h)
								return true
							}
						}
						_, quiet := r.Evidence.Quiet()
						return quiet >= 6*time.Second
					})
				})
			}
			watches.Wait()
			stop()
			programs.Wait()
			t.Log(sent.Load(), "commands")
		})
	}
}

// attempt is what a client may send for a lock, and the command that then ends
// the window.
type attempt struct {
	name string
	do   func()
}

// attempts are by the client in database 3. The oldest server lacks some.
func (w *windowed) attempts(stamp string, dump any, young bool) []attempt {
	acts := []attempt{
		{"SET", func() { w.do("SET", "lock:x", stamp, "NX") }},
		{"MSETNX", func() { w.do("MSETNX", "a", "1", "lock:x", stamp) }},
		{"MSET", func() { w.do("MSET", "a", "1", "lock:x", stamp) }},
		{"GET", func() { w.do("GET", "lock:x") }}, {"MGET", func() { w.do("MGET", "a", "lock:y") }},
		{"WATCH", func() { w.do("WATCH", "lock:x") }},
		{"SET", func() { w.do("MULTI"); w.do("SET", "lock:z", stamp); w.do("EXEC") }},
		{"SETNX", func() {
			for range 3 {
				_ = w.conn.Send("SETNX", "lock:x", "1")
			}
			w.do("")
		}},
		{"SETEX", func() { w.do("SETEX", "lock:x", 60, stamp) }},
		{"RENAME", func() { w.do("RENAME", "source", "lock:x") }},
		{"RESTORE", func() { w.do("RESTORE", "lock:r", 60_000, dump) }},
		{
			"GETSET", func() {
				w.do("EVAL", "return redis.call('GETSET', KEYS[1], ARGV[1])", 1, "lock:x", stamp)
			}},
		{
			"SET",
			func() {
				w.do("EVAL", "return redis.call('SET', KEYS[1], ARGV[1], 'NX')", 1, "lock:x",
					stamp)
			}},
		{"GET", func() { w.do("EVAL", "return redis.call('GET', KEYS[1])", 1, "lock:x") }},
	}
	if young {
		acts = append(acts, []attempt{
			{"SET", func() { w.do("SET", "lock:x", stamp, "GET") }},
			{"COPY", func() { w.do("SET", "source", stamp); w.do("COPY", "source", "lock:c") }},
			{"GETDEL", func() { w.do("GETDEL", "lock:x") }},
		}...)
	}
	return acts
}

// Any call by which a client may try for the lock, or reads before it tries,
// ends the window, whether it wins or not.
func TestEachAttemptOnARealServerEndsTheWindow(t *testing.T) {
	stamp := jedisStamp(time.Now())
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			w := newWindowed(t, b.Start(t, redistest.Options{}))
			w.do("SET", "source", stamp)
			dump := w.do("DUMP", "source")
			acts := w.attempts(stamp, dump, b.ACL)
			step, pending := 0, false
			var at time.Time
			w.watch("the last act", func(r *Result) bool {
				e := &r.Evidence
				if e.Covered(census.SourceMonitor).From.IsZero() {
					return false
				}
				if from, _ := e.Quiet(); pending && e.LastCall != nil && !e.LastCall.At.Before(at) {
					if e.LastCall.Detail != acts[step].name || from.Before(at) {
						t.Errorf("step %d, %s: quiet from %v, %+v", step, acts[step].name, from, e.LastCall)
					}
					step, pending = step+1, false
				}
				if step == len(acts) {
					return true
				}
				if !pending {
					now, err := redis.Int64s(w.do("TIME"), nil)
					if err != nil {
						t.Error(err)
						return true
					}
					at, pending = time.Unix(now[0], now[1]*1000), true
					acts[step].do()
				}
				return false
			})
		})
	}
}

// rename-command hides SETNX from MONITOR, and the server counts on under its
// old name. Two CONFIG RESETSTAT take back what it counted.
func TestCallsOutOfSightCloseTheWindow(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			s := b.Start(t, redistest.Options{Args: []string{"--rename-command", "SETNX", "hidden"}})
			w := newWindowed(t, s)
			value := jedisStamp(time.Now())
			step := 0
			holes := func(r *Result, reason census.HoleReason, says string) bool {
				for _, h := range r.Evidence.Covered(census.SourceMonitor).Holes {
					if h.Reason == reason && strings.Contains(h.Detail, says) {
						return true
					}
				}
				return false
			}
			var began time.Time
			w.watch("a hole for each reset", func(r *Result) bool {
				from, quiet := r.Evidence.Quiet()
				switch step {
				case 0:
					if quiet > 0 {
						w.do("hidden", "lock:x", value)
						step++
					}
				case 1:
					if holes(r, census.HoleCounts, "the server counted 1 calls of SETNX, MONITOR showed 0") {
						step++
					}
				case 2, 3: // each time in a window that has begun again
					if quiet > 0 && from.After(began) {
						w.do("hidden", "lock:x", value)
						w.do("CONFIG", "RESETSTAT")
						began = from
						step++
					}
				case 4:
					if quiet > 0 && from.After(began) && holes(r, census.HoleReset, "RESETSTAT") {
						step++
					}
				}
				return step == 5
			})
			if step < 5 {
				t.Errorf("ended at step %d", step)
			}
		})
	}
}

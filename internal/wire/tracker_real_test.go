// SPDX-License-Identifier: Apache-2.0

//go:build real

package wire

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// onEach runs a test on every server that tracks.
func onEach(t *testing.T, test func(t *testing.T, s *redistest.Server)) {
	for _, b := range redistest.Servers(t) {
		if b.Tracking {
			t.Run(b.Name, func(t *testing.T) { test(t, b.Start(t, redistest.Options{})) })
		}
	}
}

func script(body string) *Script { return NewScript(1, "-- test: KEYS[1], ARGV[1] → reply\n"+body) }

// check watches key, sends cmds and lets another client run do. It fails the
// test unless the watch is called, or is not, as want says. To show silence it
// changes a second key: messages come in order, so that key's message says that
// there was none before.
func check(t *testing.T, s *redistest.Server, m *Mux, want bool, key string, cmds []Command, do ...any) {
	t.Helper()
	const marker = "marker"
	rung, end := make(chan struct{}), make(chan struct{})
	for k, c := range map[string]chan struct{}{key: rung, marker: end} {
		cancel, err := m.Tracker().Arm(bg, k, func() { close(c) })
		if err != nil {
			t.Fatal(err)
		}
		defer cancel()
	}
	for _, r := range m.Batch(bg, append(cmds, Cmd("GET", marker).Tracked())) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	s.Do(do[0].(string), do[1:]...)
	if want {
		await(t, rung)
		return
	}
	s.Do("INCR", marker)
	await(t, end)
	select {
	case <-rung:
		t.Errorf("%v wakes", do)
	default:
	}
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(redistest.Patience):
		t.Fatal("the watch was not called")
	}
}

func get(key string) []Command { return []Command{Cmd("GET", key).Tracked()} }

func TestReadsRegisterAKey(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		m := open(t, s.Pool(), Options{})
		for i, c := range []struct {
			what string
			cmd  func(key string) Command
			want bool
		}{
			{"GET", func(k string) Command { return Cmd("GET", k) }, true},
			{"PTTL", func(k string) Command { return Cmd("PTTL", k) }, true},
			{"a lost SET NX", func(k string) Command { return Cmd("SET", k, "v", "NX") }, false},
			{"GET in a script", script("return redis.call('GET', KEYS[1])").on, true},
			{"PTTL in a script", script("return redis.call('PTTL', KEYS[1])").on, true},
			{"EXISTS in a script", script("return redis.call('EXISTS', KEYS[1])").on, true},
			{"a script that only writes", script("return redis.call('SET', KEYS[1], 'v')").on, false},
			// Because of NOLOOP, the Mux's own write silently ends what the
			// script's GET began.
			{"GET, then SET", script("redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[1], 'v')").on,
				false},
			{"GET, SET, GET", script("redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], 'v') return redis.call('GET', KEYS[1])").on, true},
			{"SET, PTTL", script("redis.call('SET', KEYS[1], 'v') return redis.call('PTTL', KEYS[1])").on,
				true},
			{"PEXPIRE, GET", script(
				"redis.call('PEXPIRE', KEYS[1], 9999) return redis.call('GET', KEYS[1])").on, true},
		} {
			key := fmt.Sprint("k", i)
			s.Do("SET", key, "held")
			t.Log(c.what)
			check(t, s, m, c.want, key, []Command{c.cmd(key).Tracked()}, "DEL", key)
		}
	})
}

func (s *Script) on(key string) Command { return s.Cmd(key, "v") }

func TestOthersChangesWakeAndOwnDoNot(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		m := open(t, s.Pool(), Options{})
		for i, c := range []struct {
			free bool // the key is missing at first
			do   []any
			want bool
		}{
			{true, []any{"SETNX", "K", "v"}, true},
			{true, []any{"SET", "K", "v", "NX", "PX", 9999}, true},
			{false, []any{"SETNX", "K", "v"}, false},
			{false, []any{"GETSET", "K", "v"}, true},
			{false, []any{"GETSET", "K", "held"}, true},
			{false, []any{"SET", "K", "held"}, true},
			{false, []any{"DEL", "K"}, true},
			{true, []any{"DEL", "K"}, false},
			{false, []any{"PEXPIRE", "K", 9999}, true},
			{false, []any{"EVAL", "return redis.call('DEL', KEYS[1])", 1, "K"}, true},
			{false, []any{"GET", "K"}, false},
			{false, []any{"SET", "another", "v"}, false},
			{false, []any{"FLUSHALL"}, true},
			{false, []any{"FLUSHDB"}, true},
		} {
			key := fmt.Sprint("k", i)
			if !c.free {
				s.Do("SET", key, "held")
			}
			for j := range c.do {
				if c.do[j] == "K" {
					c.do[j] = key
				}
			}
			t.Log(c.do...)
			check(t, s, m, c.want, key, get(key), c.do...)
		}
	})
}

func TestExpiryWakes(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		m := open(t, s.Pool(), Options{})
		for {
			s.Do("SET", "k", "held", "PX", 50)
			rung := make(chan struct{})
			cancel, err := m.Tracker().Arm(bg, "k", func() { close(rung) })
			if err != nil {
				t.Fatal(err)
			}
			held, err := m.Tracker().Do(bg, Cmd("GET", "k"))
			if err != nil {
				t.Fatal(err)
			}
			if held != nil { // else it ended before the server registered it
				await(t, rung)
				return
			}
			cancel()
		}
	})
}

// So a holder that watches its key and renews it through the same Mux must
// track the renewal too, and read at its end.
func TestOwnLaterWriteEndsTheRegistrationSilently(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		m := open(t, s.Pool(), Options{})
		s.Do("SET", "k", "ours", "PX", 60000)
		plain := Cmd("PEXPIRE", "k", 60000)
		check(t, s, m, false, "k", append(get("k"), plain), "GETSET", "k", "theirs")
		read := script("redis.call('PEXPIRE', KEYS[1], 60000) return redis.call('GET', KEYS[1])").on(
			"k").Tracked()
		check(t, s, m, true, "k", append(get("k"), read), "GETSET", "k", "ours")
	})
}

func TestTrackingSurvivesLostConnectionsAndRestarts(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		m := open(t, s.Pool(), Options{})
		kill := func(kind string) func() {
			return func() { s.Do("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes") }
		}
		for _, lose := range []func(){kill("pubsub"), kill("normal"), s.Restart} {
			rung := make(chan struct{})
			if _, err := m.Tracker().Arm(bg, "k", func() { close(rung) }); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Tracker().Do(bg, Cmd("GET", "k")); err != nil {
				t.Fatal(err)
			}
			lose()
			await(t, rung)
			check(t, s, m, true, "k", get("k"), "INCR", "k")
		}
	})
}

// A user may lack the rights on one channel, or on CLIENT, and has the rest.
func TestEachRightBringsItsPart(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		if !b.ACL {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			for _, u := range []struct {
				name        string
				wakes, told bool
				rules       []string
			}{
				{"noclient", false, true, []string{"~*", "&*", "+@all", "-client"}},
				{"noinfo", true, true, []string{"~*", "&*", "+@all", "-info"}},
				{"nosub", false, false, []string{"~*", "&*", "+@all", "-subscribe"}},
				{"nochannel", false, false, []string{"~*", "resetchannels", "+@all"}},
				{"nochanges", false, true, []string{"~*", "resetchannels", "&news", "+@all"}},
				{"nonotices", true, false, []string{"~*", "resetchannels", "&__redis__:invalidate", "+@all"}},
			} {
				url := s.User(u.name, "pw", u.rules...)
				pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.DialURL(url) }}
				m := open(t, pool, Options{})
				n, told := news(m)
				if _, err := m.Tracker().Arm(bg, "k", func() {}); (err == nil) != u.wakes ||
					err != nil && (!errors.Is(err, ErrNoWake) || !IsNoPerm(err)) {
					t.Errorf("%s: to watch: %v", u.name, err)
				}
				if err := n.Open(bg); (err == nil) != u.told || err != nil && !IsNoPerm(err) {
					t.Errorf("%s: to subscribe: %v", u.name, err)
				}
				if u.told {
					s.Do("PUBLISH", "news", "")
					await(t, told)
				}
				if u.wakes {
					check(t, s, m, true, "k", get("k"), "INCR", "k")
				}
				works(t, m)
			}
		})
	}
}

// news returns a subscription to the channel "news". Messages arrive in told.
func news(m *Mux) (n *Notices, told chan struct{}) {
	told = make(chan struct{}, 100)
	return m.Notices("news", Ears{Told: func([]byte) { told <- struct{}{} }, Missed: func() {},
		Wanted: func() bool { return true }}), told
}

// The server sends changed keys to a connection with another subscription,
// whichever was there first.
func TestServersSendBothToOneConnection(t *testing.T) {
	onEach(t, func(t *testing.T, s *redistest.Server) {
		for _, noticesFirst := range []bool{true, false} {
			m := open(t, s.Pool(), Options{})
			n, told := news(m)
			for range 3 {
				if !noticesFirst {
					check(t, s, m, true, "k", get("k"), "INCR", "k")
				}
				if err := n.Open(bg); err != nil {
					t.Fatal(err)
				}
				check(t, s, m, true, "k", get("k"), "INCR", "k")
				s.Do("PUBLISH", "news", "")
				await(t, told)
			}
		}
	})
}

func TestOldServersCannotWakeAndTheRestWorks(t *testing.T) {
	for _, b := range redistest.Servers(t) {
		if b.Tracking {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			s := b.Start(t, redistest.Options{})
			m := open(t, s.Pool(), Options{})
			if _, err := m.Tracker().Arm(bg, "k", nil); !errors.Is(err, ErrNoWake) || !IsUnknownCommand(err) {
				t.Errorf("error is %v", err)
			}
			works(t, m)
		})
	}
}

// The subscriber is dialed after the fail-over, and the old connection of the
// commands moves too. A young connection stays: its hook leads to two servers.
func TestTrackerFollowsAFailover(t *testing.T) {
	onEach(t, func(t *testing.T, before *redistest.Server) {
		after := redistest.Real(t, redistest.Options{})
		hooks, leads := [2]*redis.Pool{before.Pool(), after.Pool()}, 0
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return hooks[leads].DialContext(bg) }}
		for _, old := range []bool{true, false} {
			leads = 0
			m := open(t, pool, Options{Timeout: redistest.Patience})
			works(t, m)
			if old {
				m.link.Load().born = time.Now().Add(-redistest.Patience)
			}
			leads = 1
			_, err := m.Tracker().Arm(bg, "k", func() {})
			if old && !errors.Is(err, errMoved) || !old && !errors.Is(err, ErrNoWake) {
				t.Errorf("the connection was old: %v: %v", old, err)
			}
			if _, err := m.Do(bg, "SET", "k", "v", "PX", 60000); err != nil {
				t.Error(err)
			}
			if moved := after.Do("EXISTS", "k").(int64) == 1; moved != old {
				t.Errorf("the connection was old: %v; it moved: %v", old, moved)
			}
			after.Do("DEL", "k")
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// shown is an embedded server with MONITOR and INFO, and a watch of it that
// keeps MONITOR on.
type shown struct {
	t    *testing.T
	w    *redistest.World
	pool *redis.Pool
	seen atomic.Pointer[Result] // the watch's latest result

	mu      sync.Mutex
	named   map[*server.Peer]bool        // connections that set a name; scripts never do
	watched map[*server.Peer]chan string // the lines for each connection in MONITOR mode
	late    []string                     // lines not sent yet
	holds   bool
	slow    time.Duration // how late the server answers TIME
	refuses string        // prefix of keys that the user may not GET
	noInfo  string        // what the server answers to INFO; empty: what was asked for
	run     string
	role    string
	calls   map[string]int64        // by name of the command
	addrs   map[*server.Peer]string // addresses of the connections
}

// onMonitor runs play during a watch by MONITOR, in a synctest bubble.
func onMonitor(t *testing.T, cfg Config, play func(s *shown)) *Result {
	t.Helper()
	var last *Result
	synctest.Test(t, func(t *testing.T) {
		s := &shown{t: t, w: redistest.Bubble(t), run: "first", role: "master",
			watched: map[*server.Peer]chan string{}, named: map[*server.Peer]bool{},
			calls: map[string]int64{}, addrs: map[*server.Peer]string{}}
		s.pool = s.w.Pool()
		c := s.pool.Get() // the embedded server begins with its first connection
		_ = c.Close()
		s.w.Mini.Server().SetPreHook(s.hook)
		ctx, stop := context.WithCancel(t.Context())
		cfg.Clock, cfg.Monitor = s.w.Clock(redistest.Skew{}),
			MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute}
		cfg.Match, cfg.Dialects = "lock:*", jedis()
		cfg.Seen = func(r *Result) { s.seen.Store(r) }
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := Watch(ctx, s.pool, cfg)
			if err != nil {
				t.Error(err)
			}
			last = r
		}()
		play(s)
		stop()
		<-done
	})
	return last
}

// hook answers the commands that the embedded server does not know, and shows
// every command to the connections in MONITOR mode.
func (s *shown) hook(c *server.Peer, command string, args ...string) bool {
	if slow := s.slowness(c, command); slow > 0 && command == "TIME" {
		time.Sleep(slow)
	}
	now := s.w.Now() // read now: the server is locked while a script runs
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case command == "MONITOR":
		lines, gone := make(chan string, 1<<16), make(chan struct{})
		s.watched[c] = lines
		c.OnDisconnect(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.watched, c)
			close(gone)
		})
		go func() {
			for {
				select {
				case <-gone:
					return
				case line := <-lines:
					if line == broken {
						c.WriteRaw(line)
					} else {
						c.WriteInline(line)
					}
					c.Flush()
				}
			}
		}()
		c.WriteOK()
		return true
	case command == "GET" && s.refuses != "" && strings.HasPrefix(args[0], s.refuses):
		c.WriteError("NOPERM this user has no permissions to access one of the keys used as arguments")
		return true // MONITOR does not show a refused command
	case command == "INFO" && s.noInfo != "":
		c.WriteError(s.noInfo)
		return true
	}
	if s.addrs[c] == "" {
		s.addrs[c] = fmt.Sprint("10.0.0.1:", len(s.addrs)+1)
	}
	line := asServer(now.UnixMicro(), 0, s.addrs[c], append([]string{command}, args...)...)
	if s.late = append(s.late, line); !s.holds {
		s.show()
	}
	stats := "# Commandstats\r\n"
	for name, n := range s.calls {
		stats += fmt.Sprintf("cmdstat_%s:calls=%d,usec=1\r\n", strings.ToLower(name), n)
	}
	s.calls[command]++
	if command != "INFO" {
		return false
	}
	c.WriteBulk(map[string]string{
		"server":       "# Server\r\nrun_id:" + s.run + "\r\n",
		"replication":  "# Replication\r\nrole:" + s.role + "\r\n",
		"commandstats": stats,
	}[strings.Join(args, " ")])
	return true
}

// broken is text that no server sends; it makes the client end the connection.
const broken = "?\r\n"

// slowness returns how late the server answers on a connection. Commands of
// scripts are never late, because the server is locked while a script runs.
func (s *shown) slowness(c *server.Peer, command string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if command == "CLIENT" {
		s.named[c] = true
	}
	if !s.named[c] {
		return 0
	}
	return s.slow
}

// show sends the lines held back.
func (s *shown) show() {
	for _, line := range s.late {
		for _, lines := range s.watched {
			lines <- line
		}
	}
	s.late = nil
}

func (s *shown) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// tries makes one attempt of an old client on a lock that another client holds.
func (s *shown) tries() {
	s.t.Helper()
	c := s.pool.Get()
	defer c.Close()
	if _, err := c.Do("SETNX", "lock:a", jedisStamp(s.w.Now())); err != nil {
		s.t.Error(err)
	}
}

// quiet returns the length of the window by MONITOR, and how long ago it ended.
func (s *shown) quiet() (quiet, ago time.Duration) {
	from, quiet := s.seen.Load().Evidence.Quiet()
	return quiet, s.w.Now().Sub(from.Add(quiet))
}

// wants checks the window. Markers extend it every two seconds, and the result
// shows that a second later.
func (s *shown) wants(when string, want time.Duration) {
	s.t.Helper()
	if got, ago := s.quiet(); got > want || got < want-4*time.Second || ago > 4*time.Second {
		s.t.Errorf("%s: quiet for %v until %v ago, should be %v", when, got, ago, want)
	}
}

func holesOf(r *Result) []census.Hole { return r.Evidence.Covered(census.SourceMonitor).Holes }

func TestWindowGrowsWithoutAttempts(t *testing.T) {
	r := onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(20 * time.Second)
		s.wants("before", 20*time.Second)
		s.tries()
		s.w.Pass(10 * time.Second)
		s.wants("after an attempt", 10*time.Second)
		for range 5 {
			s.tries()
			s.w.Pass(time.Second)
		}
		s.wants("while a client tries", 2*time.Second)
	})
	if holes := holesOf(r); len(holes) > 0 || r.Evidence.LastFailed == nil {
		t.Errorf("holes %+v", holes)
	}
}

// MONITOR is one queue, so late lines are not lost lines. Until they arrive,
// the window does not grow.
func TestLateLinesMakeNoHole(t *testing.T) {
	for _, late := range []time.Duration{700 * time.Millisecond, 8 * time.Second} {
		r := onMonitor(t, Config{}, func(s *shown) {
			s.w.Pass(20 * time.Second)
			s.set(func() { s.holds = true })
			s.w.Pass(late)
			if got, _ := s.quiet(); got > 20*time.Second {
				t.Errorf("quiet for %v, and nothing was seen after 20 s", got)
			}
			s.set(func() { s.holds = false; s.show() })
			s.w.Pass(5 * time.Second)
			s.wants("afterwards", 25*time.Second+late)
		})
		if holes := holesOf(r); len(holes) > 0 {
			t.Errorf("%v late: holes %+v", late, holes)
		}
	}
}

// The attempt was executed before the marker that comes back after it.
func TestAttemptAmongLateLinesCutsTheWindow(t *testing.T) {
	onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(20 * time.Second)
		s.set(func() { s.holds = true })
		s.tries()
		s.w.Pass(5 * time.Second)
		s.set(func() { s.holds = false; s.show() })
		s.w.Pass(10 * time.Second)
		s.wants("afterwards", 15*time.Second)
	})
}

// A server that is slow for half a minute makes MONITOR stop. Then MONITOR is
// begun again and stays on as before.
func TestSlowMomentDoesNotEndWindowsForGood(t *testing.T) {
	r := onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(10 * time.Second)
		s.set(func() { s.slow = 700 * time.Millisecond })
		s.w.Pass(time.Second)
		s.set(func() { s.slow = 0 })
		s.w.Pass(9 * time.Second)
		s.wants("after one slow answer", 20*time.Second)
		s.set(func() { s.slow = 300 * time.Millisecond })
		s.w.Pass(15 * time.Second)
		s.set(func() { s.slow = 0 })
		if len(holesOf(s.seen.Load())) == 0 {
			t.Error("MONITOR goes on although it slows the server down")
		}
		s.w.Pass(80 * time.Second)
		if got, ago := s.quiet(); got < 65*time.Second || ago > 5*time.Second {
			t.Errorf("after 80 s quiet for %v until %v ago: %+v", got, ago, holesOf(s.seen.Load()))
		}
	})
	if !r.Cost.Monitor.Throttled {
		t.Errorf("%+v", r.Cost.Monitor)
	}
}

// An attempt made while the connection was gone is seen by no source.
func TestHoleOfMonitorBeginsTheWindowAnew(t *testing.T) {
	r := onMonitor(t, Config{Config: census.Config{}, NoStats: true}, func(s *shown) {
		s.w.Pass(20 * time.Second)
		s.set(func() {
			for _, lines := range s.watched {
				lines <- broken
			}
			clear(s.watched)
		})
		s.tries()
		// The connection comes back a second later, and the server answers
		// late.
		s.set(func() { s.slow = 1500 * time.Millisecond })
		s.w.Pass(3 * time.Second)
		s.set(func() { s.slow = 0 })
		s.w.Pass(10 * time.Second)
		s.wants("13 s later", 11*time.Second)
	})
	holes := holesOf(r)
	if len(holes) != 2 || holes[0].Reason != census.HoleAbsent ||
		holes[0].Until.Sub(holes[0].From) < time.Second ||
		holes[1].Until.Sub(holes[0].From) < 1900*time.Millisecond {
		t.Errorf("holes %+v", holes)
	}
}

// Bursts that a slow server made shorter and rarer return to their configured
// length and pace.
func TestSampleRecoversAfterASlowMoment(t *testing.T) {
	cfg := filled(t, Config{Monitor: MonitorConfig{On: true}})
	m := &monitor{w: &watcher{cfg: cfg}, burst: cfg.Monitor.Burst, every: cfg.Monitor.Every}
	for range 20 {
		m.settle(census.HoleSlow)
	}
	if m.burst != 200*time.Millisecond || m.every != 10*time.Minute || !m.cost.Throttled {
		t.Errorf("a burst of %v every %v", m.burst, m.every)
	}
	for range 20 {
		m.settle(census.HoleBudget)
	}
	if m.burst != 5*time.Second || m.every != 30*time.Second {
		t.Errorf("afterwards a burst of %v every %v", m.burst, m.every)
	}
}

// The burst reads more than a sample may.
func TestBytesDoNotEndABurstThatStaysOn(t *testing.T) {
	m := ofWindow
	r := onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(5 * time.Second)
		c := s.pool.Get()
		defer c.Close()
		for range 70 {
			if _, err := c.Do("SET", "other", strings.Repeat("v", 1<<20)); err != nil {
				t.Error(err)
			}
		}
		s.w.Pass(5 * time.Second)
		s.wants("after 70 MB", 10*time.Second)
	})
	if r.Cost.Monitor.Bytes < 64<<20 || len(holesOf(r)) > 0 || m.late == 0 {
		t.Errorf("%+v, holes %+v", r.Cost.Monitor, holesOf(r))
	}
}

// Old clients write to the replica's primary.
func TestReplicaProvesNothing(t *testing.T) {
	r := onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(10 * time.Second)
		s.set(func() { s.role = "slave" })
		s.w.Pass(10 * time.Second)
		s.wants("of a replica", 3*time.Second)
		s.set(func() { s.role, s.run = "master", "second" })
		s.w.Pass(10 * time.Second)
		s.wants("of its successor", 11*time.Second)
	})
	if !strings.Contains(fmt.Sprint(holesOf(r)), "replica") &&
		!strings.Contains(fmt.Sprint(holesOf(r)), "slave") {
		t.Errorf("holes %+v", holesOf(r))
	}
}

// Without the right to GET, MONITOR proves no window; everything else goes on.
func TestMarkerThatIsRefusedIsNamed(t *testing.T) {
	onMonitor(t, Config{}, func(s *shown) {
		s.set(func() { s.refuses = "lock:gsl-sight:" })
		s.w.Pass(10 * time.Second)
		s.tries()
		s.w.Pass(10 * time.Second)
		c := s.seen.Load().Evidence.Covered(census.SourceMonitor)
		if got, _ := s.quiet(); got != 0 || !strings.Contains(c.Unproved, "+get") || c.Missing != "" ||
			len(c.Holes) > 0 || s.seen.Load().Evidence.LastFailed == nil {
			t.Errorf("quiet for %v: %+v", got, c)
		}
		s.set(func() { s.refuses = "" })
		s.w.Pass(10 * time.Second)
		if got, _ := s.quiet(); got < 6*time.Second {
			t.Errorf("with the right quiet for %v", got)
		}
		if c := s.seen.Load().Evidence.Covered(census.SourceMonitor); c.Unproved != "" {
			t.Errorf("it still says %q", c.Unproved)
		}
	})
}

// Without INFO nothing tells what MONITOR missed.
func TestInfoThatIsRefusedIsNamed(t *testing.T) {
	onMonitor(t, Config{}, func(s *shown) {
		s.set(func() { s.noInfo = "NOPERM this user has no permissions to run the 'info' command" })
		s.w.Pass(10 * time.Second)
		c := s.seen.Load().Evidence.Covered(census.SourceMonitor)
		if got, _ := s.quiet(); got != 0 || !strings.Contains(c.Unproved, "+info") || c.Missing != "" {
			t.Errorf("quiet for %v: %+v", got, c)
		}
		s.set(func() { s.noInfo = "" })
		s.w.Pass(10 * time.Second)
		if got, _ := s.quiet(); got < 6*time.Second {
			t.Errorf("with the right quiet for %v", got)
		}
	})
}

// After a fail-over the connection may stay with the old primary, where no
// markers come back.
func TestMonitorOfAnotherServerIsBegunAnew(t *testing.T) {
	onMonitor(t, Config{}, func(s *shown) {
		s.w.Pass(20 * time.Second)
		// It shows what a replica receives from its primary, but no marker.
		var old chan string
		s.set(func() {
			for _, lines := range s.watched {
				old = lines
			}
			clear(s.watched)
		})
		for range 60 {
			s.w.Pass(time.Second)
			old <- asServer(s.w.Now().UnixMicro(), 0, "10.0.0.9:1", "PING")
		}
		if got, ago := s.quiet(); got < 20*time.Second || ago > 5*time.Second {
			t.Errorf("quiet for %v until %v ago: %+v", got, ago, holesOf(s.seen.Load()))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/benbjohnson/clock"
	"github.com/gomodule/redigo/redis"
)

// Start is the instant at which the time of a World made by New begins.
var Start = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// World owns a server and the time that it and its clients live in.
type World struct {
	// Mini is the embedded server; nil in a world made by On. In a Bubble, call
	// ServerNow before you read its keys directly, so that expired keys are
	// gone.
	Mini *miniredis.Miniredis

	t      testing.TB
	time   timeline
	mocked *mockTime // time, in a world made by New
	bell   *bell
	server *Server // the server, in a world made by On

	mu     sync.Mutex
	ahead  time.Duration // the server's wall clock minus true time
	synced time.Time     // true time up to which a bubble's server has been moved
}

// New returns a world around an embedded server that listens on a loopback
// port. Only Pass and Tick move its time. All of it ends with the test.
func New(t testing.TB) *World {
	t.Helper()
	mock := clock.NewMock()
	mock.Set(Start)
	m := &mockTime{mock: mock}
	w := &World{Mini: miniredis.NewMiniRedis(), t: t, time: m, mocked: m, bell: newBell(false)}
	w.Mini.SetTime(Start)
	if err := w.Mini.Start(); err != nil {
		t.Fatalf("redistest: embedded server: %v", err)
	}
	t.Cleanup(w.end)
	return w
}

// Timely starts an embedded server without a world, which other processes can
// use too. Keys end by the machine's clock, a few milliseconds late.
func Timely(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.RunT(t)
	ticker := time.NewTicker(2 * time.Millisecond)
	ended := make(chan struct{})
	t.Cleanup(func() { ticker.Stop(); close(ended) })
	go func() {
		for last := time.Now(); ; {
			select {
			case now := <-ticker.C:
				m.FastForward(now.Sub(last))
				last = now
			case <-ended:
				return
			}
		}
	}()
	return m
}

// end closes the server first, which waits for its clients: INFO reads without
// a lock what Mini.Close writes.
func (w *World) end() {
	if s := w.Mini.Server(); s != nil {
		s.Close()
	}
	w.Mini.Close()
}

// Bubble returns a world inside a testing/synctest bubble, whose time it
// shares: time moves by itself when every goroutine waits. The server is
// reached through memory only, so it has no Addr.
func Bubble(t testing.TB) *World {
	t.Helper()
	w := &World{Mini: miniredis.NewMiniRedis(), t: t, time: machineTime{}, bell: newBell(true),
		synced: time.Now()}
	w.Mini.SetTime(w.synced)
	t.Cleanup(w.end)
	return w
}

// On returns a world around a real server, in the machine's own time. Its
// clocks may be skewed like any others. Pass, Tick and StepServer fail the
// test, since no test can move that time.
func On(t testing.TB, s *Server) *World {
	return &World{t: t, time: machineTime{}, bell: newBell(false), server: s}
}

// Clock returns a client's view of the world's time, skewed by s.
func (w *World) Clock(s Skew) *Clock { return newClock(w.t, w.time, w.bell, s) }

// Now returns the true time.
func (w *World) Now() time.Time { return w.time.now() }

// Pass lets d of true time pass for the server and every client. Timers that
// fall due on the way fire at their own instants, with the server at the same
// instant. Outside a Bubble, Pass does not wait for the goroutines that the
// timers wake: do not pass more than one timer without awaiting its effects.
func (w *World) Pass(d time.Duration) {
	w.t.Helper()
	switch {
	case w.server != nil:
		w.t.Fatal("redistest: the time of a real server can't be moved")
	case w.mocked != nil:
		w.mocked.pass(d, w.advance)
	default:
		time.Sleep(d)
		synctest.Wait()
		w.sync()
	}
}

// Tick passes the time until the earliest armed timer of any Clock and returns
// how much that was. It fails the test if no timer is armed, because then the
// test did not await the code that arms one.
func (w *World) Tick() time.Duration {
	w.t.Helper()
	if w.mocked == nil {
		w.t.Fatal("redistest: Tick is for a world made by New")
	}
	at, ok := w.mocked.earliest()
	if !ok {
		w.t.Fatal("redistest: Tick without a timer: await it first")
	}
	d := at.Sub(w.Now())
	w.Pass(d)
	return d
}

// StepServer steps the server's wall clock by d and changes nothing else. TIME
// jumps. Redis stores when keys end, so every TTL becomes d shorter, or longer
// if d is negative.
func (w *World) StepServer(d time.Duration) {
	w.t.Helper()
	if w.Mini == nil {
		w.t.Fatal("redistest: the clock of a real server can't be stepped")
	}
	w.sync()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
	w.Mini.SetTime(w.time.now().Add(w.ahead))
	w.Mini.FastForward(d)
}

// Run gives the embedded server a run id: INFO server then shows it, also
// inside a script. Without Run the server has none.
func (w *World) Run(id string) {
	w.t.Helper()
	w.Mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		c.WriteBulk("# Server\r\nrun_id:" + id + "\r\n")
		return true
	})
}

// Info makes the embedded server answer INFO of any section with these fields,
// as a server without replicas that never evicts keys, and has been up for a
// day. fields replace these; an empty value leaves the field out.
func (w *World) Info(fields map[string]string) {
	w.t.Helper()
	says := map[string]string{"redis_version": "7.0.15", "redis_mode": "standalone", "run_id": "run-1",
		"uptime_in_seconds": "86400", "role": "master", "connected_slaves": "0", "second_repl_offset": "-1",
		"maxmemory": "0", "maxmemory_policy": "noeviction"}
	maps.Copy(says, fields)
	var text strings.Builder
	text.WriteString("# Everything\r\n")
	for _, name := range slices.Sorted(maps.Keys(says)) {
		if says[name] != "" {
			text.WriteString(name + ":" + says[name] + "\r\n")
		}
	}
	if w.Mini.Server() == nil { // the first connection of a Bubble makes it
		c, err := w.Dial(context.Background())
		if err != nil {
			w.t.Fatalf("redistest: embedded server: %v", err)
		}
		_ = c.Close()
	}
	w.Mini.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command != "INFO" {
			return false
		}
		c.WriteBulk(text.String())
		return true
	})
}

// ServerNow returns what the embedded server's TIME answers.
func (w *World) ServerNow() time.Time {
	w.sync()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time.now().Add(w.ahead)
}

// advance moves the embedded server by d; mockTime calls it before time moves
// by d.
func (w *World) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Mini.SetTime(w.time.now().Add(d).Add(w.ahead))
	w.Mini.FastForward(d)
}

// sync brings a bubble's server up to the bubble's time. A server that was
// stepped cannot follow that time by itself.
func (w *World) sync() {
	if w.Mini == nil || w.mocked != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.Mini.SetTime(now.Add(w.ahead))
	w.Mini.FastForward(now.Sub(w.synced))
	w.synced = now
}

// Addr returns the host and port at which processes and clients reach the
// server.
func (w *World) Addr() string {
	w.t.Helper()
	if w.server != nil {
		return w.server.Addr()
	}
	if w.mocked == nil {
		w.t.Fatal("redistest: the server of a Bubble has no address")
	}
	return w.Mini.Addr()
}

// URL returns Addr as a URL that the command takes.
func (w *World) URL() string {
	w.t.Helper()
	if w.server != nil {
		return w.server.URL()
	}
	return fmt.Sprintf("redis://%s", w.Addr())
}

// Dial connects to the server.
func (w *World) Dial(ctx context.Context) (net.Conn, error) {
	switch {
	case w.server != nil:
		return w.server.Dial(ctx)
	case w.mocked != nil:
		return new(net.Dialer).DialContext(ctx, "tcp", w.Mini.Addr())
	}
	c, err := w.Mini.Dial()
	if err != nil {
		return nil, err
	}
	return &memory{Conn: c, before: w.sync}, nil // the server is up to date when a request reaches it
}

// Pool returns a pool of connections to the server, without faults and
// deadlines. It is closed with the test.
func (w *World) Pool(options ...redis.DialOption) *redis.Pool {
	return newPool(w.t, w.Dial, options)
}

// Wire returns a wire to the server with these rules.
func (w *World) Wire(rules ...Rule) *Wire { return newWire(w.t, w.Dial, w.bell.virtual, rules) }

// FaultyPool is Wire(rules...).Pool().
func (w *World) FaultyPool(rules ...Rule) *redis.Pool { return w.Wire(rules...).Pool() }

func newPool(t testing.TB, dial func(context.Context) (net.Conn, error),
	options []redis.DialOption) *redis.Pool {
	options = append([]redis.DialOption{redis.DialContextFunc(
		func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	)}, options...)
	p := &redis.Pool{
		MaxIdle: 64,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", "redistest", options...)
		},
	}
	t.Cleanup(func() { p.Close() })
	return p
}

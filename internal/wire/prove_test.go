// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A firewall has forgotten the connection, and no command is sent there.
func TestIdleConnectionGetsAPingFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		time.Sleep(time.Minute)
		wire.Swallow()
		begun := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { works(t, m) })
		}
		wg.Wait()
		if took := time.Since(begun); took != defaultTimeout/4 {
			t.Errorf("the commands took %v", took)
		}
		if n := wire.Count("ECHO"); n != 11 {
			t.Errorf("%d commands were sent, want 11", n)
		}
		synctest.Wait()
		if n := wire.Connections(); n != 1 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// Any reply to the PING will do.
func TestIdleConnectionThatAnswersIsKept(t *testing.T) {
	for name, rules := range map[string][]redistest.Rule{
		"answers": nil,
		"refuses": {{Command: "PING", Times: -1, Do: redistest.Answer(redistest.NoPerm)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				wire := w.Wire(append(rules,
					redistest.Rule{Command: redistest.Dialing, Nth: 2, Times: -1, Do: redistest.Refuse})...)
				m := open(t, wire.Pool(), Options{})
				for range 3 {
					works(t, m)
					time.Sleep(provenFor)
					works(t, m)
					time.Sleep(provenFor + 1)
				}
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() { works(t, m) })
				}
				wg.Wait()
				if n := wire.Count("PING"); n != 3 {
					t.Errorf("%d PINGs, want 3", n)
				}
			})
		})
	}
}

// Close ends the waiting callers at once.
func TestCloseDuringThePingEndsCallers(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		time.Sleep(time.Minute)
		wire.Swallow()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(bg, "PING")
			notSent(t, err, ErrClosed)
		})
		synctest.Wait()
		begun := time.Now()
		m.Close()
		wg.Wait()
		if took := time.Since(begun); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}

// The next caller leaves a connection on which another gave up waiting. A short
// wait says nothing about the connection. Nor does the silence of a young
// connection: there the server is slow.
func TestSilentConnectionIsLeft(t *testing.T) {
	for _, c := range []struct {
		age, waits time.Duration
		leaves     bool
	}{
		{defaultTimeout, defaultTimeout / 4, true},
		{defaultTimeout, defaultTimeout/4 - 1, false},
		{defaultTimeout - 1, defaultTimeout / 4, false},
	} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			wire := w.Wire()
			m := open(t, wire.Pool(), Options{})
			works(t, m)
			time.Sleep(c.age - c.waits)
			wire.Swallow()
			ctx, cancel := context.WithTimeout(bg, c.waits)
			defer cancel()
			_, err := m.Do(ctx, "SET", "k", "v")
			unknown(t, err, context.DeadlineExceeded)
			begun := time.Now()
			_, err = m.Do(bg, "PING")
			if took := time.Since(begun); (err == nil && took == 0) != c.leaves {
				t.Errorf("after %v on a connection %v old: %v after %v", c.waits, c.age, err, took)
			}
			works(t, m)
		})
	}
}

// Repeat uses another connection if the first is lost, or is silent within the
// caller's time. Both commands may be executed.
func TestRepeatGoesToAnotherConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		has   time.Duration
		fault redistest.Action
		takes time.Duration
	}{
		{"silent", time.Hour, redistest.Silence, defaultTimeout / 2},
		{"silent, and little time", 300 * time.Millisecond, redistest.Silence, 150 * time.Millisecond},
		{"lost", time.Hour, redistest.CutAfter, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				wire := w.Wire()
				m := open(t, wire.Pool(), Options{})
				works(t, m)
				time.Sleep(defaultTimeout)
				wire.Fault(redistest.Rule{Command: "SET", Do: c.fault})
				ctx, cancel := context.WithTimeout(bg, c.has)
				defer cancel()
				begun := time.Now()
				rs := m.Repeat(ctx, []Command{Cmd("GET", "k"), Cmd("SET", "k", "v")})
				if took := time.Since(begun); rs[1].Err != nil || took != c.takes {
					t.Errorf("%v after %v", rs[1].Err, took)
				}
				if n := wire.Count("SET"); n != 2 {
					t.Errorf("sent %d times", n)
				}
			})
		})
	}
}

// It ends with the Mux too.
func TestRepeatEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire(redistest.Rule{Command: "SET", Times: -1, Do: redistest.Silence})
		m := open(t, wire.Pool(), Options{})
		ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
		defer cancel()
		rs := m.Repeat(ctx, []Command{Cmd("SET", "k", "v")})
		unknown(t, rs[0].Err, context.DeadlineExceeded)
		m.Close()
		rs = m.Repeat(bg, []Command{Cmd("SET", "k", "v")})
		notSent(t, rs[0].Err, ErrClosed)
	})
}

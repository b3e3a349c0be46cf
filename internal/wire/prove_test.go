package wire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// TestIdleConnectionIsProvenFirst: a firewall has forgotten it, and no command
// is sent there.
func TestIdleConnectionIsProvenFirst(t *testing.T) {
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

// TestIdleConnectionThatAnswersIsKept, whatever the server says to PING.
func TestIdleConnectionThatAnswersIsKept(t *testing.T) {
	for name, rules := range map[string][]redistest.Rule{
		"answers": nil,
		"refuses": {{Command: "PING", Times: -1, Do: redistest.Answer(redistest.NoPerm)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				wire := w.Wire(append(rules, redistest.Rule{Command: redistest.Dialing, Nth: 2, Times: -1, Do: redistest.Refuse})...)
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

// TestCallerLeavesWhileAConnectionIsProven: it has sent nothing.
func TestCallerLeavesWhileAConnectionIsProven(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		time.Sleep(time.Minute)
		wire.Swallow()
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		_, err := m.Do(ctx, "SET", "k", "v")
		notSent(t, err, context.DeadlineExceeded)
		works(t, m)
		if w.Mini.Exists("k") || wire.Count("SET") > 0 {
			t.Error("the command was sent")
		}
	})
}

// TestCloseWhileAConnectionIsProven ends its callers at once.
func TestCloseWhileAConnectionIsProven(t *testing.T) {
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

// TestAConnectionLostWhileProvenIsReplaced: the server closes it at the PING.
func TestAConnectionLostWhileProvenIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		time.Sleep(time.Minute)
		wire.Fault(redistest.Rule{Command: "PING", Do: redistest.CutBefore})
		if v, err := redis.String(m.Do(bg, "ECHO", "v")); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestSilentConnectionIsLeft by the next caller, when one could wait no longer.
// Neither a caller that waited for a moment says anything of the connection,
// nor does the silence of a young one: there the server is slow.
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

// TestRepeatGoesToAnotherConnection where the first is silent, in the time that
// the caller has, or lost. Both commands may be executed.
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

// TestRepeatEndsWithItsContext, and with the Mux.
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

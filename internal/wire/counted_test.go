package wire

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// shared runs a test on a connection that is open already.
func shared(t *testing.T, test func(t *testing.T, w *redistest.World, wire *redistest.Wire, m *Mux)) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		wire.Forget()
		test(t, w, wire, m)
	})
}

// count takes "k" and draws from "n".
func count(m *Mux) (any, error) {
	return m.Counted(context.Background(), "n", "SET", "k", "v", "NX", "PX", 1000)
}

func sentNames(wire *redistest.Wire) []string {
	var names []string
	for _, c := range wire.Sent() {
		names = append(names, c[0])
	}
	return names
}

func TestCommandAndNumberTravelInOneTransaction(t *testing.T) {
	shared(t, func(t *testing.T, _ *redistest.World, wire *redistest.Wire, m *Mux) {
		for i, want := range [][]any{{"OK", int64(1)}, {nil, int64(2)}} {
			v, err := count(m)
			if got, _ := v.([]any); err != nil || !slices.Equal(got, want) {
				t.Errorf("reply %d: %v, %v; want %v", i, v, err, want)
			}
		}
		if got := sentNames(wire); !slices.Equal(got,
			[]string{"MULTI", "SET", "INCR", "EXEC", "MULTI", "SET", "INCR", "EXEC"}) {
			t.Errorf("sent %v", got)
		}
		works(t, m)
	})
}

// EXEC only reports that there was a refusal. Nothing of the transaction is
// executed, and the connection goes on.
func TestTransactionReturnsTheServersFirstRefusal(t *testing.T) {
	shared(t, func(t *testing.T, w *redistest.World, wire *redistest.Wire, m *Mux) {
		before := wire.Connections()
		v, err := m.Counted(context.Background(), "n", "SET", "k") // too few arguments
		if refusal := redis.Error(""); !errors.As(err, &refusal) || isAborted(err) || v != nil {
			t.Errorf("reply %v, %v", v, err)
		}
		if w.Mini.Exists("n") {
			t.Error("the number was drawn all the same")
		}
		w.Mini.Set("n", "abc")
		v, err = count(m)
		got, _ := v.([]any)
		if err != nil || len(got) != 2 || got[0] != "OK" {
			t.Fatalf("with a counter that is no number: %v, %v", v, err)
		}
		if _, refused := got[1].(redis.Error); !refused {
			t.Errorf("the counter's reply: %v", got[1])
		}
		works(t, m)
		if wire.Connections() != before {
			t.Error("a refusal cost a connection")
		}
	})
}

// The server executes the commands one by one, possibly with others in between.
func TestReplyOfARefusedMultiHoldsWhatWasExecuted(t *testing.T) {
	shared(t, func(t *testing.T, _ *redistest.World, wire *redistest.Wire, m *Mux) {
		wire.Fault(redistest.Rule{Command: "MULTI", Times: -1, Do: redistest.Answer(redistest.NoPerm)})
		for i, want := range [][]any{{"OK", int64(1)}, {nil, int64(2)}} {
			v, err := count(m)
			if got, _ := v.([]any); !IsNoPerm(err) || !slices.Equal(got, want) {
				t.Errorf("reply %d: %v, %v; want %v together with the refusal", i, v, err, want)
			}
		}
		works(t, m)
	})
}

// A transaction that the server leaves open ends with its connection,
// unexecuted.
func TestOpenTransactionEndsItsConnection(t *testing.T) {
	shared(t, func(t *testing.T, w *redistest.World, wire *redistest.Wire, m *Mux) {
		wire.Fault(redistest.Rule{Command: "EXEC", Do: redistest.Answer(redistest.NoPerm)})
		if v, err := count(m); !IsNoPerm(err) || v != nil {
			t.Errorf("reply %v, %v", v, err)
		}
		works(t, m) // a command inside a transaction would be answered QUEUED
		synctest.Wait()
		if w.Mini.Exists("k") || w.Mini.Exists("n") {
			t.Error("the transaction was executed")
		}
		if v, err := count(m); err != nil || v == nil {
			t.Errorf("afterwards %v, %v", v, err)
		}
	})
}

func TestCutTransactionIsUnknown(t *testing.T) {
	for _, c := range []struct {
		command string
		cut     redistest.Action
		after   bool
	}{
		{"MULTI", redistest.CutBefore, false}, {"INCR", redistest.CutBefore, false},
		{"EXEC", redistest.CutBefore, false},
		{"EXEC", redistest.CutAfter, true}, {"EXEC", redistest.CutWithin, true},
	} {
		shared(t, func(t *testing.T, w *redistest.World, wire *redistest.Wire, m *Mux) {
			wire.Fault(redistest.Rule{Command: c.command, Do: c.cut})
			v, err := count(m)
			if unknown := (*UnknownError)(nil); v != nil || !errors.As(err, &unknown) {
				t.Errorf("cut at %s: %v, %v", c.command, v, err)
			}
			if executed := w.Mini.Exists("k"); executed != c.after {
				t.Errorf("cut at %s: executed: %v", c.command, executed)
			}
			works(t, m)
		})
	}
}

// The late reply is EXEC's, also for a Wait that begins later.
func TestLateTransactionIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		works(t, m)
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "INCR", Do: redistest.HoldReply(gate)})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-gate.Reached()
			cancel()
		}()
		_, err := m.Counted(ctx, "n", "SET", "k", "v")
		unknown := (*UnknownError)(nil)
		if !errors.As(err, &unknown) {
			t.Fatalf("error %v", err)
		}
		go gate.Open()
		v, err, known := unknown.Pending.Wait(context.Background())
		if got, _ := v.([]any); err != nil || !known || !slices.Equal(got, []any{"OK", int64(1)}) {
			t.Errorf("late: %v, %v, %v", v, err, known)
		}
	})
}

// However many goroutines share the connection, each gets a number of its own
// and its own command's reply.
func TestTransactionsOfManyGoroutinesStayApart(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := open(t, w.Pool(), Options{})
		const hands, turns = 16, 40
		var mu sync.Mutex
		seen := map[int64]bool{}
		var wg sync.WaitGroup
		for hand := range hands {
			wg.Go(func() {
				for range turns {
					v, err := m.Counted(context.Background(), "n", "ECHO", hand)
					got, _ := v.([]any)
					if err != nil || len(got) != 2 || string(got[0].([]byte)) != strconv.Itoa(hand) {
						t.Errorf("hand %d got %v, %v", hand, v, err)
						return
					}
					mu.Lock()
					if n := got[1].(int64); seen[n] {
						t.Errorf("%d was drawn twice", n)
					} else {
						seen[n] = true
					}
					mu.Unlock()
					works(t, m)
				}
			})
		}
		wg.Wait()
		if len(seen) != hands*turns {
			t.Errorf("%d numbers for %d transactions", len(seen), hands*turns)
		}
	})
}

package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/gomodule/redigo/redis"
)

// between is the time from one call to the next of a lone caller.
const between = 100 * time.Microsecond

// alone opens a Mux and calls until it has a second connection, in a bubble.
func alone(t testing.TB, pool *redis.Pool, o Options) *Mux {
	t.Helper()
	m := open(t, pool, o)
	for range 4 * loneCalls {
		works(t, m)
		time.Sleep(between)
	}
	synctest.Wait()
	if second(m) == nil {
		t.Fatal("a lone caller got no connection of its own")
	}
	return m
}

func second(m *Mux) *lone {
	if l := m.link.Load(); l != nil {
		return l.lone.Load()
	}
	return nil
}

// onSecond fails the test unless one more call travels on the second connection.
func onSecond(t *testing.T, m *Mux, want bool) {
	t.Helper()
	s := second(m)
	if s == nil {
		t.Fatal("there is no second connection")
	}
	before := s.turns
	works(t, m)
	if got := s.turns > before; got != want {
		t.Errorf("a call travelled on the second connection: %v, want %v", got, want)
	}
}

func TestALoneCallerReceivesForItselfUntilItIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		onSecond(t, m, true)
		if v, err := redis.String(m.Eval(bg, echo, "k", "v")); v != "v" || err != nil {
			t.Errorf("a script says %q, %v", v, err)
		}
		if v, err := m.Do(bg, "NONSENSE"); v != nil || !IsUnknownCommand(err) {
			t.Errorf("a refused command says %v, %v", v, err)
		}
		onSecond(t, m, true)
		time.Sleep(loneIdle + 2*loneTick)
		synctest.Wait()
		if n := wire.Connections(); n != 1 || second(m) != nil {
			t.Errorf("%d connections after a pause, want one", n)
		}
		time.Sleep(10 * time.Hour)
		works(t, m)
	})
}

func TestFewCallsAndSlowOnesStayOnOneConnection(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, time.Second} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			wire := w.Wire()
			m := open(t, wire.Pool(), Options{})
			for range 4 * loneCalls {
				works(t, m)
				time.Sleep(pause)
			}
			if n := wire.Connections(); n != 1 {
				t.Errorf("%d connections with a pause of %v", n, pause)
			}
		})
	}
}

func TestNothingWaitsBehindALoneCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{Timeout: time.Minute})
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "INCR", Do: redistest.HoldReply(gate)})
		var wg sync.WaitGroup
		wg.Go(func() {
			if n, err := redis.Int(m.Do(bg, "INCR", "n")); n != 1 || err != nil {
				t.Errorf("the held call says %d, %v", n, err)
			}
		})
		synctest.Wait()
		if !second(m).busy {
			t.Fatal("the held call is not on the second connection")
		}
		works(t, m)
		time.Sleep(time.Second) // a slow reply is none that is missing
		if second(m) == nil {
			t.Error("a connection in use was closed as idle")
		}
		gate.Open()
		wg.Wait()
		onSecond(t, m, true)
	})
}

func TestCallsOfOneGoroutineStayInOrderOnTwoConnections(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := alone(t, w.Pool(), Options{})
		l, s := m.link.Load(), second(m)
		before := s.turns
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 300 {
					works(t, m)
					time.Sleep(7 * time.Microsecond)
				}
			})
		}
		for i := range 300 {
			if n, err := redis.Int(m.Do(bg, "INCR", "n")); n != i+1 || err != nil {
				t.Fatalf("call %d says %d, %v", i+1, n, err)
			}
			time.Sleep(5 * time.Microsecond)
		}
		wg.Wait()
		if second(m) != s || m.link.Load() != l || s.turns == before {
			t.Error("the calls did not travel on both connections")
		}
	})
}

func TestALoneCallerLeavesWithItsContextAndNobodyElseNotices(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		lost := 0
		m := alone(t, wire.Pool(), Options{Lost: func(error) { lost++ }})
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)})
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(bg)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(ctx, "SET", "k", "v")
			gone(t, unknown(t, err, cause))
		})
		synctest.Wait()
		cancel(cause)
		begun := time.Now()
		wg.Wait()
		if took := time.Since(begun); took > loneGrace {
			t.Errorf("the caller left after %v", took)
		}
		if lost > 0 {
			t.Error("the end of a context counts as a lost connection")
		}
		works(t, m)
		gate.Open() // the late command runs: who gave it up has to undo it
		if !w.Mini.Exists("k") {
			t.Error("the late command did not run")
		}
		synctest.Wait()
		if n := wire.Connections(); n != 1 {
			t.Errorf("%d connections, want the one that is shared", n)
		}
	})
}

func TestAReplyThatComesInTheGraceIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
		ctx, cancel := context.WithCancel(bg)
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := m.Do(ctx, "SET", "k", "v"); v != "OK" || err != nil {
				t.Errorf("got %v, %v", v, err)
			}
		})
		synctest.Wait()
		cancel()
		time.Sleep(loneGrace - time.Nanosecond)
		gate.Open()
		wg.Wait()
	})
}

// heard is a context that counts who listens for its end.
type heard struct {
	context.Context
	asked, listening atomic.Int64
}

// Value hides what package context would listen to instead.
func (h *heard) Value(any) any { return nil }

func (h *heard) AfterFunc(f func()) func() bool {
	h.asked.Add(1)
	h.listening.Add(1)
	stop := context.AfterFunc(h.Context, f)
	return func() bool {
		h.listening.Add(-1)
		return stop()
	}
}

// TestTheEndOfAContextIsListenedForOnceForManyCalls: calls without one between them do not count, and nobody
// listens for a context when its caller has gone.
func TestTheEndOfAContextIsListenedForOnceForManyCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := alone(t, w.Pool(), Options{})
		parent, cancel := context.WithCancel(bg)
		defer cancel()
		one := &heard{Context: parent}
		live, end := context.WithCancel(bg)
		defer end()
		other := &heard{Context: live}
		say := func(ctx context.Context) {
			t.Helper()
			if _, err := m.Do(ctx, "PING"); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			say(one)
			say(bg)
		}
		if one.asked.Load() != 1 || one.listening.Load() != 1 {
			t.Errorf("listened %d times, %d are left", one.asked.Load(), one.listening.Load())
		}
		say(other)
		if one.listening.Load() != 0 || other.listening.Load() != 1 {
			t.Errorf("%d and %d listen", one.listening.Load(), other.listening.Load())
		}
		time.Sleep(loneIdle + 2*loneTick)
		synctest.Wait()
		if second(m) != nil || other.listening.Load() != 0 {
			t.Errorf("%d listen when the caller has gone", other.listening.Load())
		}
	})
}

// TestTheEndOfAnEarlierContextLeavesACallAlone: only its own lets it go, and gives it a grace of its own
// within that of an earlier call.
func TestTheEndOfAnEarlierContextLeavesACallAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		// held is a call without a reply under which a context ends; it gets its reply after a while.
		held := func(ctx context.Context, end func(), while time.Duration) (took time.Duration, err error) {
			t.Helper()
			gate := redistest.NewGate()
			wire.Fault(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
			begun, left := time.Now(), make(chan struct{})
			go func() {
				defer close(left)
				_, err = m.Do(ctx, "SET", "k", "v")
				took = time.Since(begun)
			}()
			synctest.Wait()
			end()
			time.Sleep(while)
			gate.Open()
			<-left
			return took, err
		}
		early, cancel := context.WithCancel(bg)
		if _, err := m.Do(early, "PING"); err != nil {
			t.Fatal(err)
		}
		if took, err := held(bg, cancel, 3*loneGrace); took != 3*loneGrace || err != nil {
			t.Errorf("a call without an end left after %v with %v", took, err)
		}
		first, cancel := context.WithCancel(bg)
		if _, err := held(first, cancel, loneGrace/2); err != nil {
			t.Error(err)
		}
		second, cancel := context.WithCancel(bg)
		took, err := held(second, cancel, 3*loneGrace)
		unknown(t, err, context.Canceled)
		if took < loneGrace || took >= 2*loneGrace {
			t.Errorf("left after %v", took)
		}
	})
}

func TestCloseDoesNotWaitForAGrace(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Silence})
		ctx, cancel := context.WithCancel(bg)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(ctx, "SET", "k", "v")
			unknown(t, err, ErrClosed)
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		begun := time.Now()
		m.Close()
		if took := time.Since(begun); took > 0 {
			t.Errorf("Close took %v", took)
		}
		wg.Wait()
	})
}

func TestALoneCallerWithADeadContextSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		cause := errors.New("the caller's own cause")
		ctx, cancel := context.WithCancelCause(bg)
		cancel(cause)
		_, err := m.Do(ctx, "SET", "k", "v")
		notSent(t, err, cause)
		_, err = m.Eval(ctx, echo, "k", "v")
		notSent(t, err, cause)
		onSecond(t, m, true)
		if n := wire.Count("SET") + wire.Count("EVALSHA"); n != 0 {
			t.Errorf("%d commands were sent with a dead context", n)
		}
	})
}

func TestAContextThatEndsSoonKeepsItsLateReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
		ctx, cancel := context.WithTimeout(bg, loneLeft-time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := m.Do(ctx, "SET", "k", "v")
		pending := unknown(t, err, context.DeadlineExceeded)
		if took := time.Since(begun); took != loneLeft-time.Millisecond {
			t.Errorf("the caller left after %v", took)
		}
		gate.Open()
		if v, err, known := pending.Wait(bg); v != "OK" || err != nil || !known {
			t.Errorf("the late reply is %v, %v, known %v", v, err, known)
		}
	})
}

func TestASilentServerEndsALoneCallAfterTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		var lost error
		m := alone(t, wire.Pool(), Options{Timeout: time.Second, Lost: func(err error) { lost = err }})
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Silence})
		begun := time.Now()
		_, err := m.Do(bg, "SET", "k", "v")
		gone(t, unknown(t, err, ErrTimeout))
		if took := time.Since(begun); took < time.Second || took > time.Second+time.Second/20 {
			t.Errorf("the call ended after %v", took)
		}
		synctest.Wait()
		if !errors.Is(lost, ErrTimeout) {
			t.Errorf("Lost was told %v", lost)
		}
		works(t, m)
	})
}

func TestALoneConnectionThatIsCutIsUnknownAndToldOnce(t *testing.T) {
	for _, do := range []redistest.Action{redistest.CutBefore, redistest.CutAfter, redistest.CutWithin} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			wire := w.Wire()
			lost := 0
			m := alone(t, wire.Pool(), Options{Lost: func(error) { lost++ }})
			wire.Fault(redistest.Rule{Command: "SET", Do: do})
			_, err := m.Do(bg, "SET", "k", "v")
			gone(t, unknown(t, err, ErrLost))
			works(t, m)
			if lost != 1 || second(m) != nil {
				t.Errorf("Lost was told %d times", lost)
			}
		})
	}
}

func TestTheSecondConnectionEndsWithTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Silence})
		live, cancel := context.WithCancel(bg)
		defer cancel()
		ctx := &heard{Context: live}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(ctx, "SET", "k", "v")
			gone(t, unknown(t, err, ErrLost))
		})
		synctest.Wait()
		m.link.Load().fail(ErrLost)
		wg.Wait()
		synctest.Wait()
		if n := wire.Connections(); n != 0 {
			t.Errorf("%d connections remain", n)
		}
		if n := ctx.listening.Load(); n != 0 {
			t.Errorf("%d listen for the end of the caller's context", n)
		}
		works(t, m)
	})
}

func TestCloseFailsALoneCallAndJoins(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{})
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Silence})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(bg, "SET", "k", "v")
			gone(t, unknown(t, err, ErrClosed))
		})
		synctest.Wait()
		m.Close()
		wg.Wait()
		synctest.Wait()
		if n := wire.Connections(); n != 0 {
			t.Errorf("%d connections remain", n)
		}
	})
}

func TestCloseStopsTheDialOfASecondConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		dials := 0
		pool := w.Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			if dials++; dials > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx)
		}
		m := open(t, pool, Options{})
		for range 4 * loneCalls {
			works(t, m)
			time.Sleep(between)
		}
		begun := time.Now()
		m.Close()
		if took := time.Since(begun); took != 0 || dials != 2 {
			t.Errorf("Close took %v after %d dials", took, dials)
		}
	})
}

func TestAServerWithoutRoomForASecondConnectionIsAskedOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		dials := 0
		pool := w.Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			if dials++; dials > 1 {
				return nil, errors.New("ERR max number of clients reached")
			}
			return dial(ctx)
		}
		m := open(t, pool, Options{})
		for begun := time.Now(); time.Since(begun) < 2900*time.Millisecond; {
			works(t, m)
			time.Sleep(between)
		}
		if dials != 4 {
			t.Errorf("dialed %d times in 2.9 seconds, want 1 and 3 in vain", dials)
		}
	})
}

func TestAReplicaFoundByALoneCallerIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := alone(t, wire.Pool(), Options{Timeout: time.Millisecond})
		first := m.link.Load()
		wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Answer(redistest.ReadOnly)})
		if _, err := m.Do(bg, "SET", "k", "v"); !IsReadOnly(err) {
			t.Fatalf("error is %v", err)
		}
		if _, err := m.Do(bg, "SET", "k", "v"); err != nil {
			t.Errorf("after the fail-over: %v", err)
		}
		synctest.Wait()
		if n := wire.Connections(); n != 1 || m.link.Load() == first {
			t.Errorf("%d connections remain", n)
		}
	})
}

func TestWhatMayBeReportedToAWatchTravelsOnTheLink(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := alone(t, w.Pool(), Options{})
		m.tracker.armed.Add(1)
		onSecond(t, m, false)
		m.tracker.armed.Add(-1)
		onSecond(t, m, true)
	})
}

func TestSetupRunsOnTheSecondConnectionToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		setups := 0
		alone(t, w.Pool(), Options{Setup: func(redis.Conn) error { setups++; return nil }})
		if setups != 2 {
			t.Errorf("%d setups for two connections", setups)
		}
	})
}

// Real time, and connections that come and go under many hands: for the race detector.
func TestManyHandsOnTwoConnectionsMixNothingUp(t *testing.T) {
	m := open(t, redistest.New(t).Pool(), Options{})
	warm := func() {
		for begun := time.Now(); second(m) == nil && time.Since(begun) < 50*time.Millisecond; {
			_, _ = m.Do(bg, "PING") // the end of the last round's connection may take it along
		}
	}
	for round := range 5 {
		warm()
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 200 {
					want := fmt.Sprintf("%d.%d.%d", round, g, i)
					ctx, cancel := context.WithCancel(bg)
					if i%50 == 49 {
						go cancel()
					}
					got, err := redis.String(m.Do(ctx, "ECHO", want))
					var left *UnknownError
					var unsent *NotSentError
					if got != want && !errors.As(err, &left) && !errors.As(err, &unsent) {
						t.Errorf("got %q, %v, want %q", got, err, want)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if l := m.link.Load(); l != nil && round%2 == 1 {
			go l.fail(ErrLost)
		}
	}
}

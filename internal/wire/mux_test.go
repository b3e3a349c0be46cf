// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

var bg = context.Background()

func TestGoroutinesOfOneConnectionGetTheirOwnReplies(t *testing.T) {
	wire := redistest.New(t).Wire()
	m := open(t, wire.Pool(), Options{Timeout: redistest.Patience})
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	var wg sync.WaitGroup
	for g := range 1000 {
		wg.Go(func() {
			for i := range 10 {
				want := fmt.Sprintf("%d.%d", g, i)
				if got, err := redis.String(m.Do(ctx, "ECHO", want)); got != want || err != nil {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				if n, err := redis.Int(m.Do(ctx, "INCR", fmt.Sprint("n", g))); n != i+1 || err != nil {
					t.Errorf("count of goroutine %d is %d, %v, want %d", g, n, err, i+1)
				}
			}
		})
	}
	wg.Wait()
	if n := wire.Connections(); n != 1 {
		t.Errorf("%d connections, want one", n)
	}
}

func TestNewRefusesAPoolWithoutHooksAndNegativeTimeouts(t *testing.T) {
	if _, err := New(&redis.Pool{}, Options{}); err == nil || !strings.Contains(err.Error(), "DialContext") {
		t.Errorf("a pool without hooks: %v", err)
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a nil pool was accepted")
	}
	if _, err := New(newStub().pool(), Options{Timeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "Timeout") {
		t.Errorf("a negative timeout: %v", err)
	}
}

func TestDeadContextSendsNothing(t *testing.T) {
	wire := redistest.New(t).Wire()
	m := open(t, wire.Pool(), Options{})
	works(t, m)
	wire.Forget()
	cause := errors.New("the caller's own cause")
	ctx, cancel := context.WithCancelCause(bg)
	cancel(cause)
	for range 200 {
		_, err := m.Do(ctx, "SET", "k", "v")
		notSent(t, err, cause)
	}
	notSent(t, m.Batch(ctx, []Command{Cmd("SET", "k", "v")})[0].Err, cause)
	works(t, m)
	if n := wire.Count("SET"); n != 0 {
		t.Errorf("%d commands were sent with a dead context", n)
	}
}

func TestCallerLeavesAtOnceAndTheLateReplyIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gate := redistest.NewGate()
		m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)}), Options{})
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(bg, 300*time.Millisecond, cause)
		defer cancel()
		begun := time.Now()
		_, err := m.Do(ctx, "SET", "k", "v")
		pending := unknown(t, err, cause)
		if took := time.Since(begun); took != 300*time.Millisecond {
			t.Errorf("the caller left after %v", took)
		}
		if _, err, known := pending.Wait(ctx); known || err != cause {
			t.Errorf("before the reply came: %v, known %v", err, known)
		}
		gate.Open()
		for range 2 {
			if v, err, known := pending.Wait(bg); v != "OK" || err != nil || !known {
				t.Errorf("the late reply is %v, %v, known %v", v, err, known)
			}
		}
		works(t, m)
	})
}

func TestReplyWinsOverAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	for range 100 {
		c := newCall()
		c.done <- struct{}{}
		if f, err := (&link{}).await(ctx, c); f != decided || err != nil {
			t.Fatalf("fate %v, %v", f, err)
		}
	}
}

func TestCutCallIsUnknownAndTheNextDialsAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		do   redistest.Action
		ran  bool
	}{
		{"before", redistest.CutBefore, false},
		{"after", redistest.CutAfter, true},
		{"within", redistest.CutWithin, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := redistest.New(t)
			lost := make(chan error, 10)
			m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Do: c.do}), Options{
				Lost: func(err error) { lost <- err },
			})
			_, err := m.Do(bg, "SET", "k", "v")
			gone(t, unknown(t, err, ErrLost))
			if got := w.Mini.Exists("k"); got != c.ran {
				t.Errorf("the command ran: %v, want %v", got, c.ran)
			}
			works(t, m)
			if err := <-lost; !errors.Is(err, ErrLost) || len(lost) > 0 {
				t.Errorf("Lost was called with %v and %d more times", err, len(lost))
			}
		})
	}
}

func TestSilentServerEndsEveryCallAfterTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.Silence}),
			Options{Timeout: time.Second})
		works(t, m)
		time.Sleep(10 * time.Hour) // an idle connection is no fault
		begun := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				_, err := m.Do(bg, "SET", "k", "v")
				gone(t, unknown(t, err, ErrTimeout))
				if took := time.Since(begun); took != time.Second {
					t.Errorf("call %d failed %v after the first was sent", i, took)
				}
			})
		}
		wg.Wait()
		works(t, m)
	})
}

func TestSlowServerIsNotSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		s := newStub()
		s.flush = func() error {
			go func() { time.Sleep(900 * time.Millisecond); s.replies <- "OK" }()
			return nil
		}
		m := open(t, s.pool(), Options{Timeout: time.Second})
		for range 20 {
			if v, err := m.Do(bg, "SLOW"); v != "OK" || err != nil {
				t.Fatalf("a slow reply is %v, %v", v, err)
			}
		}
	})
}

func TestHooksReadTimeoutDoesNotEndAnIdleConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		dials := 0
		pool := wire.Pool(redis.DialReadTimeout(time.Millisecond))
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) { dials++; return dial(ctx) }
		m := open(t, pool, Options{})
		for range 5 {
			works(t, m)
			time.Sleep(time.Minute)
		}
		if dials != 1 {
			t.Errorf("dialed %d times", dials)
		}
	})
}

func TestCallBehindAStuckWriteLeavesUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		s := newStub()
		var sent []string
		s.sent = func(cmd string, _ []any) error { sent = append(sent, cmd); return nil }
		s.flush = func() error { <-s.closed; return errors.New("broken pipe") }
		m := open(t, s.pool(), Options{Timeout: time.Second})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.Do(bg, "FIRST")
			gone(t, unknown(t, err, ErrTimeout))
		})
		synctest.Wait()
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(bg, time.Millisecond)
			defer cancel()
			begun := time.Now()
			_, err := m.Do(ctx, "SECOND")
			notSent(t, err, context.DeadlineExceeded)
			if took := time.Since(begun); took != time.Millisecond {
				t.Errorf("the second left after %v", took)
			}
		})
		wg.Go(func() {
			_, err := m.Do(bg, "THIRD")
			notSent(t, err, ErrTimeout)
		})
		wg.Wait()
		if !slices.Equal(sent, []string{"FIRST"}) {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestCallThatLeftTheQueueIsNeverSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		s, stuck := newStub(), make(chan struct{})
		var mu sync.Mutex
		var sent []string
		s.sent = func(cmd string, _ []any) error {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, cmd)
			s.replies <- "OK"
			return nil
		}
		s.flush = func() error { <-stuck; return nil }
		m := open(t, s.pool(), Options{})
		ctx, cancel := context.WithCancel(bg)
		var wg sync.WaitGroup
		wg.Go(func() { m.Do(bg, "FIRST") })
		synctest.Wait()
		wg.Go(func() {
			_, err := m.Do(ctx, "SECOND")
			notSent(t, err, context.Canceled)
		})
		synctest.Wait()
		wg.Go(func() { m.Do(bg, "THIRD") })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(stuck)
		wg.Wait()
		if !slices.Equal(sent, []string{"FIRST", "THIRD"}) {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestWriteErrorLeavesTheOutcomeUnknown(t *testing.T) {
	for name, breakIt := range map[string]func(*stub){
		"send":  func(s *stub) { s.sent = func(string, []any) error { return errors.New("broken pipe") } },
		"flush": func(s *stub) { s.flush = func() error { return errors.New("broken pipe") } },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub()
			breakIt(s)
			m := open(t, s.pool(), Options{})
			_, err := m.Do(bg, "SET", "k", "v")
			gone(t, unknown(t, err, ErrLost))
		})
	}
}

func TestReplyWithoutACommandEndsTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		s := newStub()
		lost := make(chan error, 1)
		m := open(t, s.pool(), Options{Lost: func(err error) { lost <- err }})
		go m.Do(bg, "PING")
		synctest.Wait()
		s.replies <- "PONG"
		s.replies <- "unasked"
		if err := <-lost; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "without a command") {
			t.Errorf("lost by %v", err)
		}
	})
}

func TestCloseFailsCallsInFlightAndLaterCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := open(t, w.FaultyPool(redistest.Rule{Command: "SET", Times: -1, Do: redistest.Silence}),
			Options{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := m.Do(bg, "SET", "k", "v")
				gone(t, unknown(t, err, ErrClosed))
			})
		}
		synctest.Wait()
		m.Close()
		wg.Wait()
		_, err := m.Do(bg, "PING")
		notSent(t, err, ErrClosed)
		m.Close()
	})
}

func TestMuxLeavesAReplicaForTheHooksServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		dials := 0
		pool := wire.Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) { dials++; return dial(ctx) }
		m := open(t, pool, Options{Timeout: time.Second})
		works(t, m)
		set := func() error { _, err := m.Do(bg, "SET", "k", "v"); return err }

		wire.Fault(redistest.Rule{Command: "SET", Times: 3, Do: redistest.Answer(redistest.ReadOnly)})
		for range 2 {
			if err := set(); !IsReadOnly(err) {
				t.Fatalf("error is %v", err)
			}
		}
		if dials != 1 {
			t.Errorf("a young connection was left: %d dials", dials)
		}
		time.Sleep(2 * time.Second)
		if err := set(); !IsReadOnly(err) {
			t.Fatalf("error is %v", err)
		}
		if err := set(); err != nil || dials != 2 {
			t.Errorf("after the fail-over: %v, %d dials", err, dials)
		}
		synctest.Wait()
		if n := wire.Connections(); n != 1 {
			t.Errorf("%d connections remain", n)
		}
	})
}

func TestRetiredConnectionTakesNoNewCalls(t *testing.T) {
	l := &link{m: &Mux{}, conn: newStub()}
	l.retired.Store(true)
	if l.submit(newCall()) || l.flight.len() > 0 {
		t.Error("a call was accepted")
	}
}

func TestRetiredConnectionStillDeliversItsReplies(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		s := newStub()
		first := true
		pool := w.Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			if first {
				first = false
				return s, nil
			}
			return dial(ctx)
		}
		m := open(t, pool, Options{Timeout: time.Second})
		go m.Do(bg, "PING")
		synctest.Wait()
		s.replies <- "PONG"
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { m.Do(bg, "SET", "k", "v") })
		}
		late := make(chan any, 1)
		synctest.Wait()
		wg.Go(func() { v, _ := m.Do(bg, "LATE"); late <- v })
		synctest.Wait()
		s.replies <- redis.Error(redistest.ReadOnly)
		synctest.Wait()
		works(t, m) // on another connection, while this one is busy
		s.replies <- redis.Error(redistest.ReadOnly)
		s.replies <- "late"
		if v := <-late; v != "late" {
			t.Errorf("the late reply is %v", v)
		}
		wg.Wait()
		<-s.closed
	})
}

func TestCallAfterALossUsesANewConnection(t *testing.T) {
	m := open(t, newStub().pool(), Options{})
	l, err := m.connect(bg)
	if err != nil {
		t.Fatal(err)
	}
	first := newCall()
	l.mu.Lock()
	l.take(first, 0)
	for range 20000 { // the first call then ends long before the last
		l.take(newCall(), 0)
	}
	l.mu.Unlock()
	go l.fail(ErrLost)
	<-first.done
	if m.link.Load() == l {
		t.Error("the next call would use the lost connection")
	}
}

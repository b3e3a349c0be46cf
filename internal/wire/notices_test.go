package wire

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestNoticeCallsTheNamedFuncUntilForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{})
		n := m.Notices("freed")
		defer n.Close()
		var a, b atomic.Int32
		if err := n.Register(bg, "a", func() { a.Add(1) }); err != nil {
			t.Fatal(err)
		}
		if err := n.Register(bg, "b", func() { b.Add(1) }); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "a", "c", "a with more", "b"} {
			if _, err := m.Do(bg, "PUBLISH", "freed", name); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if a.Load() != 2 || b.Load() != 1 {
			t.Errorf("a was called %d times, b %d", a.Load(), b.Load())
		}
		n.Forget("a")
		wire.Cut()
		synctest.Wait()
		if a.Load() != 2 || b.Load() != 2 {
			t.Errorf("after the loss a was called %d times in all, b %d", a.Load(), b.Load())
		}
		if err := n.Register(bg, "a", func() { a.Add(1) }); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Do(bg, "PUBLISH", "freed", "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a.Load() != 3 {
			t.Errorf("registered again, a was called %d times in all", a.Load())
		}
	})
}

func TestSilentSubscriptionIsNoticed(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{Timeout: time.Second})
		n := m.Notices("freed")
		defer n.Close()
		rung := make(chan struct{})
		if err := n.Register(bg, "a", func() { close(rung) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		select {
		case <-rung:
			t.Fatal("a subscription that answers was taken for dead")
		default:
		}
		wire.Fault(redistest.Rule{Command: "PING", Times: -1, Do: redistest.Silence})
		begun := time.Now()
		<-rung
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

// It is tried in the background. The server refused it for a moment, or for
// good, or a proxy swallows it or hangs up. No caller waits for another
// attempt, and the number of attempts is bounded.
func TestFailedSubscriptionIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     redistest.Action
		within time.Duration // longest time until it works again after the cause is gone
		most   int           // attempts within an hour
	}{
		{"busy", redistest.Answer("BUSY Redis is busy running a script."), longestPassing, 130},
		{"refused", redistest.Answer(redistest.NoPerm), longestPause, 7},
		{"swallowed", redistest.Silence, longestPause, 16},
		{"hung up", redistest.CutBefore, longestPause, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				wire := w.Wire(redistest.Rule{Command: "SUBSCRIBE", Times: -1, Do: c.do})
				m := open(t, wire.Pool(), Options{})
				n := m.Notices("freed")
				defer n.Close()
				register := func() error { return n.Register(bg, "a", func() {}) }
				if err := register(); err == nil {
					t.Fatal("registered")
				}
				for range 3600 {
					begun := time.Now()
					err := register()
					if took := time.Since(begun); err == nil || took != 0 {
						t.Fatalf("%v after %v", err, took)
					}
					time.Sleep(time.Second)
				}
				if n := wire.Count("SUBSCRIBE"); n < 2 || n > c.most {
					t.Errorf("%d attempts in an hour, want at most %d", n, c.most)
				}
				wire.Calm()
				time.Sleep(c.within)
				_ = register() // this begins the attempt that works
				synctest.Wait()
				if err := register(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The server before had refused.
func TestAnotherServerIsAskedToSubscribeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		m := open(t,
			w.FaultyPool(redistest.Rule{Command: "SUBSCRIBE", Do: redistest.Answer(redistest.NoPerm)}),
			Options{})
		n := m.Notices("freed")
		defer n.Close()
		if err := n.Register(bg, "a", func() {}); !IsNoPerm(err) {
			t.Fatal(err)
		}
		n.Anew()
		if err := n.Register(bg, "a", func() {}); err != nil {
			t.Error(err)
		}
	})
}

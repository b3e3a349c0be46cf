package wire

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestANoticeCallsWhomItNamesUntilForgotten(t *testing.T) {
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

func TestASilentSubscriptionIsNoticed(t *testing.T) {
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

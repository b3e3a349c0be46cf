package modern_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// A goroutine that keeps a lock busy by itself has a connection of its own, which is closed when its
// context ends within a command. What gives the key back then travels on another connection and comes
// before the command that takes it.
func TestALateAcquisitionOfALoneCallerIsUndoneThoughTheUndoCameFirst(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, cfg)
				c, err := lock.New(b, lock.Config{TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
				tried(t, b) // its connection is not mistaken for the second
				for wire.Connections() < 2 {
					l, err := c.Acquire(bg, "k")
					if err != nil {
						t.Fatal(err)
					}
					if err := l.Release(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(100 * time.Microsecond)
				}
				synctest.Wait()
				gate := redistest.NewGate()
				wire.Fault(redistest.Rule{When: writes(), Do: redistest.HoldRequest(gate)})
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(bg)
				go func() {
					<-gate.Reached()
					cancel(cause)
				}()
				if l, err := c.Acquire(ctx, "k"); !errors.Is(err, cause) {
					t.Fatalf("got %v, %v", l, err)
				}
				time.Sleep(time.Second) // the first undoing finds nothing
				gate.Open()
				if !w.Mini.Exists("k") {
					t.Fatal("the late acquisition did not come; the test shows nothing")
				}
				time.Sleep(ttl / 2)
				if w.Mini.Exists("k") {
					t.Error("the late acquisition was not undone")
				}
				if err := c.Close(bg); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

package modern_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersRepeatOnlyAfterLostWritesAndASlowClock pins the limit of fencing
// numbers that the documents name. A number repeats only if a promoted server
// lost the last writes and its clock is behind by more than the fail-over took.
func TestNumbersRepeatOnlyAfterLostWritesAndASlowClock(t *testing.T) {
	const took = 3 * time.Second // from the last grant to the first grant by the promoted server
	for _, c := range []struct {
		lost    bool
		behind  time.Duration
		greater bool
	}{
		{false, time.Hour, true},
		{true, 0, true},
		{true, took - time.Millisecond, true},
		{true, took + time.Millisecond, false},
	} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b := open(t, w, modern.Config{Fence: true})
			g := try(t, b, "k")
			if c.lost {
				w.Mini.FlushAll()
			} else {
				free(t, g)
			}
			w.Pass(took)
			w.StepServer(-c.behind)
			next := try(t, b, "k")
			if greater := next.(lock.Fenced).Fence() > g.(lock.Fenced).Fence()+7; greater != c.greater {
				t.Errorf("writes lost: %v, clock behind by %v: %d after %d", c.lost, c.behind,
					next.(lock.Fenced).Fence(), g.(lock.Fenced).Fence())
			}
			free(t, next)
		})
	}
}

// A process reads the server's clock and is stopped before the transaction is
// executed, or the network is. Meanwhile a promoted server that lost the writes
// takes over. The number must be greater than those that others drew on the old
// server during the stop.
func TestStoppedProcessDrawsNoOldNumber(t *testing.T) {
	const (
		lag      = 100 * time.Millisecond // as the documents say
		failover = time.Millisecond
	)
	for stop, do := range map[string]func(*redistest.Gate) redistest.Action{
		"before the server": redistest.HoldRequest, "after it": redistest.HoldReply} {
		for _, still := range []time.Duration{lag - time.Millisecond, lag, 2 * time.Second} {
			t.Run(stop+" "+still.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, modern.Config{Fence: true, Timeout: 10 * time.Second})
					other := open(t, w, modern.Config{Fence: true})
					free(t, try(t, b, "k")) // the next number is then counted on
					gate := redistest.NewGate()
					wire.Fault(redistest.Rule{When: writes(), Do: do(gate)})
					wire.Forget()
					ours := make(chan lock.Grant)
					go func() { ours <- try(t, b, "k") }()
					<-gate.Reached()
					w.Pass(still - failover)
					last := try(t, other, "other")
					if stop == "before the server" {
						w.Mini.FlushAll()
					}
					w.Pass(failover)
					gate.Open()
					g := <-ours
					if least := fenceOf(last) - lag.Microseconds(); fenceOf(g) <= least ||
						still >= lag && fenceOf(g) <= fenceOf(last) && stop == "before the server" {
						t.Errorf("%d after %d", fenceOf(g), fenceOf(last))
					}
					if !wasCounted(wire) {
						t.Error("the number was not counted on")
					}
					if redrawn := wire.Count("EVALSHA")+
						wire.Count("EVAL") > 1; redrawn != (still >= lag || stop == "before the server") {
						t.Errorf("drawn again: %v", redrawn)
					}
					free(t, g)
					_ = last.Release(bg) // lost if its write was lost
				})
			})
		}
	}
}

// unheard begins an attempt for "k" that is executed but gets no reply before
// the gate opens. It returns the gate and the error of the attempt.
func unheard(b *modern.Backend, wire *redistest.Wire) (gate *redistest.Gate, failed <-chan error) {
	gate = redistest.NewGate()
	wire.Fault(redistest.Rule{When: writes(), Do: redistest.HoldReply(gate)})
	said := make(chan error)
	go func() {
		_, err := b.Try(bg, "k", ttl)
		said <- err
	}()
	<-gate.Reached()
	return gate, said
}

// The key was taken, and its number must not be used.
func TestFailedRedrawLeavesNoKey(t *testing.T) {
	const odd = "a counter that cannot be read"
	for fault, do := range map[string]redistest.Action{
		"cut before": redistest.CutBefore, "cut after": redistest.CutAfter, "cut within": redistest.CutWithin,
		odd: {}} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{Fence: true, Timeout: 10 * time.Second})
				free(t, try(t, b, "k"))
				gate, failed := unheard(b, wire)
				w.Pass(time.Second)
				wire.Calm()
				if fault == odd {
					w.Mini.Set("gsl:fence:", "abc")
					defer w.Mini.Del("gsl:fence:")
				} else {
					wire.Fault(redistest.Rule{When: writes(), Do: do})
				}
				gate.Open()
				g := unsure(t, <-failed)
				if !w.Mini.Exists("k") {
					t.Error("the key was not taken")
				}
				if err := g.Release(bg); err != nil {
					t.Error(err)
				}
				if w.Mini.Exists("k") {
					t.Error("the key was left")
				}
			})
		})
	}
}

// Another client may have the key by then.
func TestProcessStoppedBeyondItsTTLHoldsNothing(t *testing.T) {
	for _, taken := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b, wire := on(t, w, modern.Config{Fence: true, Timeout: 2 * ttl})
			other := open(t, w, modern.Config{Fence: true})
			free(t, try(t, b, "k"))
			gate, failed := unheard(b, wire)
			w.Pass(ttl + time.Millisecond)
			if taken {
				holder := try(t, other, "k")
				defer free(t, holder)
			}
			gate.Open()
			if err := <-failed; !errors.Is(err, lock.ErrHeld) {
				t.Errorf("taken by another client: %v: %v", taken, err)
			}
		})
	}
}

// It is unknown when the server read that counter.
func TestNoNumberIsCountedOnFromALateReply(t *testing.T) {
	for _, late := range []time.Duration{
		99 * time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b, wire := on(t, w, modern.Config{Fence: true, Timeout: 10 * time.Second})
			gate := redistest.NewGate()
			wire.Fault(redistest.Rule{When: writes(), Do: redistest.HoldReply(gate)})
			first := make(chan lock.Grant)
			go func() { first <- try(t, b, "k") }()
			<-gate.Reached()
			w.Pass(late)
			gate.Open()
			free(t, <-first)
			wire.Forget()
			w.Mini.Del("gsl:fence:")
			g := try(t, b, "k")
			if counted := wasCounted(wire); counted != (late < 100*time.Millisecond) {
				t.Errorf("%v late: counted: %v", late, counted)
			}
			if behind := w.ServerNow().UnixMicro() - fenceOf(
				g) - 7; behind >= (100 * time.Millisecond).Microseconds() {
				t.Errorf("%v late: %dµs behind the clock", late, behind)
			}
			free(t, g)
		})
	}
}

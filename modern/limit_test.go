package modern_test

import (
	"errors"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersRepeatOnlyWhereWritesAreLostAndTheClockIsBehind pins the limit of fencing numbers that the
// documents name: a promoted server that lost the last writes, with a clock that is behind by more than
// the fail-over took.
func TestNumbersRepeatOnlyWhereWritesAreLostAndTheClockIsBehind(t *testing.T) {
	const took = 3 * time.Second // from the last grant to the first by the promoted server
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
				t.Errorf("writes lost: %v, clock behind by %v: %d after %d", c.lost, c.behind, next.(lock.Fenced).Fence(), g.(lock.Fenced).Fence())
			}
			free(t, next)
		})
	}
}

// TestWhoStoodStillDrawsNoOldNumber: between reading the clock that it tells and the execution there, a
// process stops, or the network does, and meanwhile a promoted server that lost the writes is there. Its
// number is greater than those that others drew on the old one while it stood still.
func TestWhoStoodStillDrawsNoOldNumber(t *testing.T) {
	const (
		lag      = 100 * time.Millisecond // that the documents name
		failover = time.Millisecond
	)
	for stop, do := range map[string]func(*redistest.Gate) redistest.Action{"before the server": redistest.HoldRequest, "after it": redistest.HoldReply} {
		for _, still := range []time.Duration{lag - time.Millisecond, lag, 2 * time.Second} {
			t.Run(stop+" "+still.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, modern.Config{Fence: true, Timeout: 10 * time.Second})
					other := open(t, w, modern.Config{Fence: true})
					free(t, try(t, b, "k")) // so that the next is counted on
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
					if least := fenceOf(last) - lag.Microseconds(); fenceOf(g) <= least || still >= lag && fenceOf(g) <= fenceOf(last) && stop == "before the server" {
						t.Errorf("%d after %d", fenceOf(g), fenceOf(last))
					}
					if !wasCounted(wire) {
						t.Error("it was not counted on")
					}
					if redrawn := wire.Count("EVALSHA")+wire.Count("EVAL") > 1; redrawn != (still >= lag || stop == "before the server") {
						t.Errorf("drawn anew: %v", redrawn)
					}
					free(t, g)
					_ = last.Release(bg) // lost where its write was
				})
			})
		}
	}
}

// unheard begins an attempt for "k" that is executed and does not hear of it before the gate opens, and says
// how it fails.
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

// TestNumbersThatCannotBeDrawnAnewLeaveNothing: the key was taken, and nobody may use its number.
func TestNumbersThatCannotBeDrawnAnewLeaveNothing(t *testing.T) {
	const odd = "a counter that cannot be read"
	for fault, do := range map[string]redistest.Action{"cut before": redistest.CutBefore, "cut after": redistest.CutAfter, "cut within": redistest.CutWithin, odd: {}} {
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
					t.Error("the key was left behind")
				}
			})
		})
	}
}

// TestWhoStoodStillForLongerThanItsKeyHoldsNothing: another may have it.
func TestWhoStoodStillForLongerThanItsKeyHoldsNothing(t *testing.T) {
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
				t.Errorf("taken by another: %v: %v", taken, err)
			}
		})
	}
}

// TestFromACounterThatCameLateNobodyCountsOn: nobody knows when it was read.
func TestFromACounterThatCameLateNobodyCountsOn(t *testing.T) {
	for _, late := range []time.Duration{99 * time.Millisecond, 100 * time.Millisecond, 1500 * time.Millisecond} {
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
			if behind := w.ServerNow().UnixMicro() - fenceOf(g) - 7; behind >= (100 * time.Millisecond).Microseconds() {
				t.Errorf("%v late: %dµs behind the clock", late, behind)
			}
			free(t, g)
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// lost checks that a renewal finds the lease lost, and takes nothing.
func (w *world) lost(g backend.Grant, pattern string) {
	w.Helper()
	if _, err := g.Extend(bg, ttl); !errors.Is(err, backend.ErrLost) {
		w.Errorf("Extend: %v; the lease is lost", err)
	}
	w.settle()
	w.want("after the loss", pattern, g.Token())
}

// Missing votes are taken again, and count as soon as a renewal has confirmed
// them: that is redsync's issue 186.
func TestMissingVotesAreTakenAgain(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		for round := range 10 {
			w.drop(round % 5)
			w.drop((round + 1) % 5)
			w.renew(g)
			w.want("renewed", "xxxxx", g.Token())
		}
		w.free(g)
		w.want("released", "-----", "")
	})
}

// A silent member does not keep the votes of others from being taken again.
func TestVotesAreTakenAgainThoughOneIsSilent(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		c.wires[0].Swallow()
		c.wires[0].Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Silence})
		w.drop(1)
		w.renew(g)
		w.want("renewed", "xxxxx", g.Token())
		c.away(2) // a, c are away, and b was taken again
		w.renew(g)
		_ = g.Release(bg)
	})
}

// Rule 1: a holder without its majority takes nothing, however late it learns
// of that. Else it would get back what another client had in between.
func TestNothingIsTakenWithoutAMajority(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		w.drop(0)
		w.drop(1)
		w.drop(2)
		w.lost(g, "---xx")
		w.lost(g, "---xx")
		if err := g.Release(bg); !errors.Is(err, backend.ErrLost) {
			t.Errorf("Release: %v", err)
		}
	})
}

// A renewal that too few members answer takes nothing either.
func TestFailedRenewalTakesNothing(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		w.drop(0)
		w.drop(1)
		c.away(2)
		if _, err := g.Extend(bg, ttl); err == nil || errors.Is(err, backend.ErrLost) {
			t.Errorf("Extend: %v; two votes were renewed, and one may stand", err)
		}
		w.settle()
		w.want("after that", "--xxx", g.Token())
		c.back(2)
		w.renew(g)
		w.want("back", "xxxxx", g.Token())
		w.free(g)
	})
}

// The first holder has A, B and C; the requests to D and E are late. The clock
// of C jumps, a second client takes C, D and E and releases. D and E then vote
// for the first one, which must learn of the second at its next renewal.
func TestLateVotesHideNoHolder(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		first, second := w.open(quorum.Config{}), w.open(quorum.Config{})
		free := first.late(3, 4)
		g := first.take()
		w.want("at first", "xxx--", g.Token())
		w.servers[2].StepServer(2 * ttl)
		g2 := second.take()
		w.want("then", "xx???", g.Token())
		w.free(g2)
		free()
		w.want("late", "xx-xx", g.Token())
		w.lost(g, "xx-xx")
		_ = g.Release(bg)
	})
}

// The votes of D and E come late and are confirmed at once, not at the next
// renewal: until then C, the nearest, can be killed without harm.
func TestLateVotesAreConfirmedWhenTheyCome(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		free := c.late(3, 4)
		g := c.take()
		pass(200 * time.Millisecond)
		free()
		pass(100 * time.Millisecond)
		c.away(2)
		w.drop(1)
		w.renew(g)
		_ = g.Release(bg)
	})
}

// Only a renewal that finds a majority of the old votes confirms late ones.
func TestShortRenewalConfirmsNothing(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		free := c.late(3, 4)
		g := c.take()
		c.away(2)
		free()
		if _, err := g.Extend(bg, ttl); err == nil {
			t.Error("two old votes and two late ones are no majority")
		}
		w.settle()
		c.back(2)
		w.renew(g)
		c.away(2)
		w.renew(g)
		_ = g.Release(bg)
	})
}

// A member was silent until its own term was over. It may have voted for
// another client since, so its vote counts no more.
func TestVoteOnASilentMemberEndsWithItsTerm(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		c.away(2)
		for range 4 {
			pass(ttl / 3)
			w.renew(g)
		}
		w.servers[2].ServerNow()
		w.servers[2].Mini.Set("k", g.Token()) // as a request that was under way for long
		w.servers[2].Mini.SetTTL("k", ttl)
		c.back(2)
		w.drop(1)
		w.lost(g, "x-x")
		_ = g.Release(bg)
	})
}

// The lease ends with the vote that completes the majority, and each vote
// counts from before its own request was sent. These are asked who they are
// before, which takes each of them another time.
func TestTrustEndsWithTheMajoritysTerm(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		w.free(c.take())
		pass(time.Minute)
		c.away(3)
		c.away(4)
		for i := range 3 {
			gate := redistest.NewGate()
			c.wires[i].Fault(redistest.Rule{Command: "INFO", Do: redistest.HoldReply(gate)})
			time.AfterFunc(time.Duration(i+1)*100*time.Millisecond, gate.Open)
			c.wires[i].Fault(redistest.Rule{Command: "SET", Do: holdFor(time.Second)})
		}
		from := backend.ReadClock(bg).Elapsed
		g, err := c.try()
		if err != nil {
			t.Fatal(err)
		}
		if sent := g.Term().Sent.Elapsed - from; sent != 100*time.Millisecond {
			t.Errorf("the term counts from %v after the attempt began: the third latest was sent after 100ms", sent)
		}
		w.settle()
		_ = g.Release(bg)
	})
}

// The renewals of a lease go out at three times, so its votes end at three
// times. Trust ends with the third latest of five.
func TestTrustIsThatOfTheMthVote(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		for i := range 3 {
			gate := redistest.NewGate()
			c.wires[i].Fault(redistest.Rule{When: func(cmd redistest.Command) bool { return true },
				Command: "EVALSHA", Times: -1, Do: redistest.HoldReply(gate)},
				redistest.Rule{Command: "EVAL", Times: -1, Do: redistest.HoldReply(gate)})
			time.AfterFunc(time.Duration(i+1)*300*time.Millisecond, gate.Open)
		}
		from := time.Now()
		w.renew(g)
		if took := time.Since(from); took < 300*time.Millisecond || took > 590*time.Millisecond {
			t.Errorf("the renewal returned after %v: that is not when the third member answered", took)
		}
		_ = g.Release(bg)
	})
}

// One and two of five members are taken away at every age of a lease, with
// unequal delays. The lease survives, and so does its TTL.
func TestLeaseSurvivesTheLossOfAMinority(t *testing.T) {
	delays := []time.Duration{time.Millisecond, 3 * time.Millisecond, 9 * time.Millisecond,
		27 * time.Millisecond, 81 * time.Millisecond}
	for _, gone := range [][]int{{0}, {2}, {4}, {0, 1}, {0, 4}, {1, 2}, {3, 4}} {
		for _, age := range []time.Duration{200 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second,
			3400 * time.Millisecond, 9 * time.Second} {
			t.Run(fmt.Sprint(gone, age), func(t *testing.T) {
				bubble(t, "abcde", func(w *world) {
					c := w.open(quorum.Config{})
					for i, d := range delays {
						c.wires[i].Fault(redistest.Rule{Command: "SET", Do: holdFor(d)})
					}
					client, err := lock.New(c.Backend, lock.Config{TTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					l, err := client.Acquire(bg, "k")
					if err != nil {
						t.Fatal(err)
					}
					pass(age)
					for _, i := range gone {
						c.away(i)
					}
					pass(3 * ttl)
					if l.Err() != nil {
						t.Errorf("the lease ended: %v", l.Err())
					}
					_ = l.Release()
					_ = client.Close(bg)
				})
			})
		}
	}
}

// holdFor delays a request.
func holdFor(d time.Duration) redistest.Action {
	gate := redistest.NewGate()
	time.AfterFunc(d, gate.Open)
	return redistest.HoldRequest(gate)
}

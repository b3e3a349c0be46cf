package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

func fence(g backend.Grant) int64 { return g.(backend.Fenced).Fence() }

// TestFencesIncreaseWhereMembersDisagree is the counterexample to one round. A
// member far ahead votes for the first holder and not for the second, whose
// number would be smaller.
//
//	number on   a    b    c
//	first     1000   1    -    has the number 1000, written back to a and b
//	second      -  1001   1    has 1001; without the write-back it would be 2
func TestFencesIncreaseWhereMembersDisagree(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("a").ahead = 1000
		w.at("c").fail("try", errAway, false)
		first := w.take(w.open(quorum.Config{Fences: true}))
		if fence(first) != 1000 {
			w.Errorf("the first number is %d, and a drew 1000", fence(first))
		}
		w.free(first)
		w.at("c").fail("try", nil, false)
		w.at("a").fail("try", errAway, false)
		second := w.take(w.open(quorum.Config{Fences: true}))
		if fence(second) <= fence(first) {
			w.Errorf("number %d after %d", fence(second), fence(first))
		}
		w.free(second)
	})
}

// TestNumberIsRefusedWithoutAMajority: two members do not take it back.
func TestNumberIsRefusedWithoutAMajority(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("a").fail("raise", errAway, false)
		w.at("b").fail("raise", errAway, false)
		err := w.refused(w.open(quorum.Config{Fences: true}))
		if err == nil || !strings.Contains(err.Error(), "written to") || errors.Is(err, lock.ErrHeld) {
			w.Errorf("Try: %v", err)
		}
		w.want("given back", "---", "")
		w.at("b").fail("raise", nil, false)
		w.free(w.take(w.open(quorum.Config{Fences: true})))
	})
}

// TestNumberIsWrittenOnlyBesideItsToken: the votes ended between the rounds.
func TestNumberIsWrittenOnlyBesideItsToken(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{Fences: true})
		var frees []func()
		for _, s := range w.servers {
			frees = append(frees, s.holdOp("raise"))
		}
		done := make(chan error, 1)
		go func() { _, err := b.Contract().Try(bg, "k", ttl); done <- err }()
		synctest.Wait()
		for _, s := range w.servers[:2] {
			s.drop("k")
		}
		for _, free := range frees {
			free()
		}
		if err := <-done; err == nil {
			w.Error("granted, with the token on one member")
		}
		w.want("given back", "---", "")
		for _, s := range w.servers[:2] {
			if s.last > 1 {
				w.Errorf("%s has the number %d", s.name, s.last)
			}
		}
	})
}

// TestLateVoteOfALostAttemptIsGivenBack: the attempt ends while the number is
// written to the member that voted late.
func TestLateVoteOfALostAttemptIsGivenBack(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{Fences: true})
		free, free2, vote := w.at("a").holdOp("raise"), w.at("b").holdOp("raise"), w.at("c").holdOp("try")
		done := make(chan error, 1)
		go func() { _, err := b.Contract().Try(bg, "k", ttl); done <- err }()
		synctest.Wait()
		free3 := w.at("c").holdOp("raise")
		vote()
		synctest.Wait()
		w.at("a").drop("k")
		w.at("b").drop("k")
		free()
		free2()
		if err := <-done; err == nil {
			w.Error("granted, with the token on one member")
		}
		free3()
		w.want("given back", "---", "")
	})
}

// TestVoteTakenAgainHasTheNumber: the member may be in the next majority.
func TestVoteTakenAgainHasTheNumber(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("a").ahead = 1000
		w.at("c").fail("try", errAway, false)
		g := w.take(w.open(quorum.Config{Fences: true}))
		w.at("c").fail("try", nil, false)
		w.extend(g)
		w.want("healed", "xxx", g.Token())
		if w.at("c").last < 1000 {
			w.Errorf("c has the number %d", w.at("c").last)
		}
		w.at("c").drop("k")
		w.at("c").last = 0
		w.at("c").fail("raise", errAway, false)
		w.extend(g)
		w.extend(g)
		w.at("c").fail("raise", nil, false)
		w.extend(g)
		w.want("in the end", "xxx", g.Token())
		if w.at("c").last < 1000 {
			w.Errorf("c has the number %d at last", w.at("c").last)
		}
		w.free(g)
	})
}

// TestLateVoteGetsTheNumber: it comes while the number is written back, or
// after that.
func TestLateVoteGetsTheNumber(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		w.at("a").ahead = 1000
		free, free2 := w.at("d").hold(), w.at("e").hold()
		free3 := w.at("c").holdOp("raise")
		b := w.open(quorum.Config{Fences: true})
		done := make(chan backend.Grant, 1)
		go func() {
			g, err := b.Contract().Try(bg, "k", ttl)
			if err != nil {
				w.Error(err)
			}
			done <- g
		}()
		synctest.Wait()
		select {
		case <-done:
			w.Error("granted with the number on two members of five")
		default:
		}
		free()
		g := <-done
		free2()
		free3()
		synctest.Wait()
		for _, s := range w.servers {
			if s.last < 1000 {
				w.Errorf("%s has the number %d", s.name, s.last)
			}
		}
		w.free(g)
	})
}

// TestMemberWithoutNumbersIsNamed: its Config lacks Fence.
func TestMemberWithoutNumbersIsNamed(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		members := join(w.servers)
		for _, m := range members {
			m.(*client).plain = true
		}
		b, err := quorum.New(members, quorum.Config{Fences: true})
		if err != nil {
			w.Fatal(err)
		}
		defer b.Close()
		if err := w.refused(b); err == nil || !strings.Contains(err.Error(), "modern.Config.Fence") {
			w.Errorf("Try: %v", err)
		}
		w.want("given back", "---", "")
	})
}

package quorum_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// TestSlowRenewalTakesNothingForALostLease: the first renewal has its majority
// from a and b, and c answers it only after a later renewal said that the lease
// is lost.
//
//	first   xxx   xx.   --x   --x   c's answer comes; nothing is taken
//	server  abc   abc     c     c
func TestSlowRenewalTakesNothingForALostLease(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		free := w.at("c").holdOp("extend")
		w.extend(g)
		w.at("a").drop("k")
		w.at("b").drop("k")
		w.lost(g)
		free()
		w.want("after the slow answer", "--x", g.Token())
		w.freeLost(g)
	})
}

// freeLost gives back a lease that is lost.
func (w *world) freeLost(g backend.Grant) {
	w.Helper()
	if err := g.Release(bg); !errors.Is(err, lock.ErrLost) {
		w.Errorf("Release of a lost lease: %v", err)
	}
	w.want("released", "---", "")
}

// TestEveryDoubtfulAttemptIsUndone: of many attempts at one member no reply
// came, and the last of them arrives after the release.
func TestEveryDoubtfulAttemptIsUndone(t *testing.T) {
	for _, attempts := range []int{1, 40} {
		bubble(t, "a b c", func(w *world) {
			w.at("c").fail("try", errAway, false)
			g := w.take(w.open(quorum.Config{}))
			w.at("c").fail("try", errAway, true)
			for range attempts {
				w.at("c").drop("k") // as if the command had not arrived yet
				w.extend(g)
			}
			w.at("c").fail("try", nil, false)
			w.at("c").drop("k")
			w.at("c").forgetCalls()
			w.extend(g)
			w.want("the vote", "xxx", g.Token())
			w.free(g)
			w.at("c").set("k", g.Token(), time.Hour)
			time.Sleep(ttl)
			w.want("the late vote", "---", "")
			if c := w.at("c"); !c.undone[c.attempts-1] {
				w.Errorf("of %d attempts, %v were undone; the last one without a reply is missing",
					c.attempts, c.undone)
			}
		})
	}
}

// TestDoubtfulAttemptIsUndoneAfterTheRelease: the member votes while the lease
// is given back, and an earlier attempt arrives after that.
func TestDoubtfulAttemptIsUndoneAfterTheRelease(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").fail("try", errAway, true)
		g := w.take(w.open(quorum.Config{}))
		w.at("c").drop("k") // as if the command had not arrived yet
		w.at("c").fail("try", nil, false)
		free := w.at("c").holdOp("try")
		w.extend(g)
		w.free(g)
		free()
		w.want("released", "---", "")
		w.at("c").set("k", g.Token(), time.Hour)
		time.Sleep(ttl)
		w.want("the late vote", "---", "")
	})
}

// TestDoubtfulAttemptDoesNotHideItsVote: the vote of c completes the majority.
// An earlier attempt there has the same token, and its undo must not delete the
// vote first: the vote would then look lost.
func TestDoubtfulAttemptDoesNotHideItsVote(t *testing.T) {
	for range 30 {
		bubble(t, "a b c", func(w *world) {
			w.at("c").fail("try", errAway, true)
			g := w.take(w.open(quorum.Config{}))
			w.at("c").drop("k") // as if the command had not arrived yet
			w.at("c").fail("try", nil, false)
			w.extend(g)
			w.extend(g)
			w.at("a").set("k", "other", time.Hour)
			w.extend(g)
			w.want("held", "?xx", g.Token())
			w.free(g)
			w.want("released", "?--", g.Token())
		})
	}
}

// TestRenewalElsewhereIsNoRenewal: the name of a leads to the server of b since
// the acquisition. All votes have one token, so that server would renew two of
// them, while the keys on a and c expire.
func TestRenewalElsewhereIsNoRenewal(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		members := join(w.servers)
		b, err := quorum.New(members, quorum.Config{})
		if err != nil {
			w.Fatal(err)
		}
		defer b.Close()
		g := w.take(b)
		w.at("c").fail("extend", errAway, false)
		a := members[0].(*client)
		a.server = w.at("b")
		for range 2 {
			_, err := g.Extend(bg, ttl)
			if err == nil || errors.Is(err, lock.ErrLost) {
				w.Errorf("Extend: %v; one server has renewed", err)
			}
			synctest.Wait()
		}
		a.server = w.at("a")
		w.extend(g)
		w.free(g)
	})
}

func TestRenewalOfNothingReturns(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		terms, errs := w.open(quorum.Config{}).Contract().(backend.BatchExtender).ExtendAll(bg, nil, ttl)
		if len(terms) != 0 || len(errs) != 0 {
			w.Errorf("%v, %v", terms, errs)
		}
	})
}

// TestSilentMemberIsNamedAsSilent: too few members vote, and one of them has
// not answered in time.
func TestSilentMemberIsNamedAsSilent(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{})
		for _, name := range []string{"a", "b", "c"} {
			w.at(name).fail("ready", errAway, false)
		}
		free := w.at("e").hold()
		err := w.refused(b)
		for _, want := range []string{"1 of 5 members vote", "e: no answer yet"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				w.Errorf("Try: %v; it should say %q", err, want)
			}
		}
		free()
	})
}

// TestOpenReleaseIsNoLoss: a member is away, and another one says that it does
// not have the key of an attempt that may still be under way.
func TestOpenReleaseIsNoLoss(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		for _, s := range w.servers {
			s.fail("try", errAway, true)
			s.fail("release", errAway, false)
		}
		_, err := b.Contract().Try(bg, "k", ttl)
		var unsure *backend.UnsureError
		if !errors.As(err, &unsure) {
			w.Fatalf("%v; a majority may have voted", err)
		}
		for _, s := range w.servers {
			s.fail("release", nil, false)
			s.drop("k")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := unsure.Grant.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			w.Errorf("Release while attempts may be under way: %v", err)
		}
	})
}

// TestWaiterGoesOnListeningWhenAllAreAway: an error that wraps ErrNoWake would
// let the Client poll until its wait ends.
func TestWaiterGoesOnListeningWhenAllAreAway(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		for _, s := range w.servers {
			s.fail("ready", errAway, false)
		}
		w.refused(b)
		if _, _, err := b.Contract().(backend.Waker).Await(bg, "k", func() {}); err == nil ||
			errors.Is(err, backend.ErrNoWake) {
			w.Errorf("Await: %v; the members are away, and report changes later", err)
		}
	})
}

// TestFailedRenewalTakesNothing: b does not answer, so one vote of two was
// renewed. Nobody knows whether the other one is left.
func TestFailedRenewalTakesNothing(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").set("k", "other", time.Hour)
		g := w.take(w.open(quorum.Config{}))
		w.at("c").drop("k")
		w.at("b").fail("extend", errAway, false)
		if _, err := g.Extend(bg, ttl); err == nil || errors.Is(err, lock.ErrLost) {
			w.Errorf("Extend with one answer: %v", err)
		}
		w.want("taken", "xx-", g.Token())
		w.at("b").fail("extend", nil, false)
		w.extend(g)
		w.want("after a renewal", "xxx", g.Token())
		w.free(g)
	})
}

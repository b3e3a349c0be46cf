package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// lost checks that a renewal of g says that it is lost.
func (w *world) lost(g backend.Grant) {
	w.Helper()
	if _, err := g.Extend(bg, ttl); !errors.Is(err, lock.ErrLost) {
		w.Errorf("Extend: %v; it should wrap ErrLost", err)
	}
	synctest.Wait()
}

func (w *world) extend(g backend.Grant) {
	w.Helper()
	if _, err := g.Extend(bg, ttl); err != nil {
		w.Errorf("Extend: %v", err)
	}
	synctest.Wait()
}

// TestHolderThatLostItsMajorityStaysLost is the counterexample to taking votes
// before renewing: the first holder would take back what another client held in
// between.
//
//	first   xxx   x--   x--   x--   renews: has one vote of two, takes nothing
//	server  abc   a     a     a
//	second              -xx   ---   held, and released
func TestHolderThatLostItsMajorityStaysLost(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		first := w.take(w.open(quorum.Config{}))
		w.at("b").drop("k")
		w.at("c").drop("k")
		second := w.take(w.open(quorum.Config{}))
		w.want("the second holder has", "?xx", second.Token())
		w.free(second)
		w.lost(first)
		w.want("the first holder took", "x--", first.Token())
		w.lost(first)
		w.want("the first holder took later", "x--", first.Token())
	})
}

// TestNothingIsTakenWithoutAMajority: of three old votes one is gone, and two
// members are free.
func TestNothingIsTakenWithoutAMajority(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		w.at("d").set("k", "other", time.Second)
		w.at("e").set("k", "other", time.Second)
		g := w.take(w.open(quorum.Config{}))
		time.Sleep(2 * time.Second)
		w.at("c").drop("k")
		w.lost(g)
		w.want("taken", "xx---", g.Token())
	})
}

// TestMissingVotesAreTakenAgain, so that the next loss is none of the lease. A
// vote taken again counts only after a further renewal has confirmed it: it may
// have come after another holder. So there are two renewals after each loss.
func TestMissingVotesAreTakenAgain(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		for _, name := range []string{"a", "b", "c", "a", "c"} {
			w.at(name).drop("k")
			w.extend(g)
			w.want("after "+name+" lost its vote", "xxx", g.Token())
			w.extend(g)
		}
		w.free(g)
	})
}

// TestVoteTakenAgainDoesNotCountAtOnce: of three votes two are lost, the second
// one before a renewal has confirmed the first one anew. The lease has three
// votes of five, and ends.
func TestVoteTakenAgainDoesNotCountAtOnce(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		bubble(t, "a b c d e", func(w *world) {
			w.at("d").set("k", "other", time.Hour)
			w.at("e").set("k", "other", time.Hour)
			g := w.take(w.open(quorum.Config{}))
			w.at("e").drop("k")
			w.extend(g)
			w.want("e is taken", "xxx?x", g.Token())
			if confirmed {
				w.extend(g)
			}
			w.at("a").drop("k")
			if confirmed {
				w.extend(g)
				w.want("e counts", "xxx?x", g.Token())
			} else {
				w.lost(g)
				w.want("e does not count", "-xx?x", g.Token())
			}
		})
	}
}

// TestSilentMemberConfirmsNothing: a renewal that does not succeed confirms no
// vote, however many members it reached.
func TestSilentMemberConfirmsNothing(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").set("k", "other", time.Hour)
		g := w.take(w.open(quorum.Config{}))
		w.at("c").drop("k")
		w.extend(g)
		w.want("c is taken", "xxx", g.Token())
		w.at("a").fail("extend", errAway, false)
		for range 2 {
			if _, err := g.Extend(bg, ttl); err == nil || errors.Is(err, lock.ErrLost) {
				w.Errorf("Extend with one answer that counts: %v", err)
			}
			synctest.Wait()
		}
		w.at("a").fail("extend", nil, false)
		free, done := w.at("a").hold(), make(chan error, 1) // c answers before a
		go func() {
			_, err := g.Extend(bg, ttl)
			done <- err
		}()
		synctest.Wait()
		free()
		if err := <-done; err != nil {
			w.Error(err)
		}
		w.at("a").fail("extend", errAway, false)
		w.extend(g)
	})
}

// TestBareMajorityIsHealedBeforeTheNextLoss is redsync's issue 186: a client
// that takes no vote again has a bare majority after a while. It is then one
// lost vote away from a second holder.
//
//	first   xx-   xxx   xxx   -xx   renews, takes c too; then a loses its vote
//	server  ab    abc   abc    bc
//	second                    ?--   has one vote of two
//
// The second renewal confirms the vote of c. Until then c's vote keeps other
// clients out, but the loss of a would end the lease.
func TestBareMajorityIsHealedBeforeTheNextLoss(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").fail("try", errAway, false)
		g := w.take(w.open(quorum.Config{}))
		w.want("a bare majority", "xx-", g.Token())
		w.at("c").fail("try", nil, false)
		w.extend(g)
		w.want("healed", "xxx", g.Token())
		w.extend(g)
		w.at("a").drop("k")
		w.refused(w.open(quorum.Config{}))
		w.extend(g)
		w.want("healed again", "xxx", g.Token())
	})
}

// TestAnotherClientsVoteIsNotTaken: the member is asked again at each renewal.
func TestAnotherClientsVoteIsNotTaken(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").set("k", "other", ttl/2)
		g := w.take(w.open(quorum.Config{}))
		w.extend(g)
		w.want("while the other has it", "xx?", g.Token())
		time.Sleep(ttl / 2)
		w.extend(g)
		w.want("after that", "xxx", g.Token())
	})
}

// TestSilentMembersAreNoLoss: the trust of earlier renewals lasts, and the next
// renewal may reach them.
func TestSilentMembersAreNoLoss(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		w.at("a").fail("extend", errAway, false)
		w.at("b").fail("extend", errAway, false)
		if _, err := g.Extend(bg, ttl); err == nil || errors.Is(err, lock.ErrLost) {
			w.Errorf("Extend with one answer: %v", err)
		}
		w.at("a").fail("extend", nil, false)
		w.extend(g)
		w.at("b").fail("extend", nil, false)
		w.at("b").drop("k")
		w.extend(g)
		w.want("in the end", "xxx", g.Token())
	})
}

// TestRenewalReturnsWhenAMajorityAnswered: one member hangs, at several
// renewals.
func TestRenewalReturnsWhenAMajorityAnswered(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		free := w.at("b").hold()
		began := time.Now()
		w.extend(g)
		w.extend(g)
		if passed := time.Since(began); passed > 0 {
			w.Errorf("two renewals took %v", passed)
		}
		if n := w.at("b").asked("extend"); n != 1 {
			w.Errorf("the silent member was asked %d times at once", n)
		}
		free()
		synctest.Wait()
		w.extend(g)
		w.free(g)
	})
}

// TestRenewalEndsWithItsContext, and goes on at the members.
func TestRenewalEndsWithItsContext(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		free, free2 := w.at("b").hold(), w.at("c").hold()
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := g.Extend(ctx, ttl)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrLost) {
			w.Errorf("Extend: %v", err)
		}
		free()
		free2()
		synctest.Wait()
		w.extend(g)
	})
}

// TestThousandLeasesRenewInOneMessageAMember, as with one server.
func TestThousandLeasesRenewInOneMessageAMember(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{})
		var grants []backend.Grant
		for i := range 1000 {
			g, err := b.Contract().Try(bg, fmt.Sprint("key", i), ttl)
			if err != nil {
				w.Fatal(err)
			}
			grants = append(grants, g)
		}
		synctest.Wait()
		_, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, grants, ttl)
		if err := errors.Join(errs...); err != nil {
			w.Error(err)
		}
		synctest.Wait()
		for _, s := range w.servers {
			if n := s.asked("extend"); n != 1 {
				w.Errorf("%s was asked %d times", s.name, n)
			}
			if n := s.asked("try"); n != 1000 {
				w.Errorf("%s was asked for %d votes", s.name, n)
			}
		}
	})
}

// TestLeasesOfOneBatchEndApart: one of them lost its votes.
func TestLeasesOfOneBatchEndApart(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		other, err := b.Contract().Try(bg, "other", ttl)
		if err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		w.at("a").drop("k")
		w.at("b").drop("k")
		terms, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, []backend.Grant{g, other}, ttl)
		if !errors.Is(errs[0], lock.ErrLost) || errs[1] != nil || terms[1].TTL != ttl {
			w.Errorf("errors %v, terms %v", errs, terms)
		}
		if !strings.Contains(errs[0].Error(), "1 of the 2 votes") {
			w.Errorf("the error of the lost one: %v", errs[0])
		}
	})
}

// holder counts calls of Touched.
type holder struct{ n atomic.Int32 }

func (h *holder) Touched() { h.n.Add(1) }

// TestWatchToleratesALostMinority, and reports a lost majority.
func TestWatchToleratesALostMinority(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g, h := w.take(b), &holder{}
		watch := func() error {
			err := b.Contract().(backend.Waker).Watch(bg, []backend.Grant{g}, []interface{ Touched() }{h})[0]
			synctest.Wait()
			return err
		}
		if err := watch(); err != nil {
			w.Fatal(err)
		}
		w.at("a").drop("k")
		synctest.Wait()
		if n := h.n.Load(); n != 1 {
			w.Errorf("Touched was called %d times", n)
		}
		if err := watch(); err != nil {
			w.Errorf("Watch with two of three votes: %v", err)
		}
		w.at("b").drop("k")
		synctest.Wait()
		if n := h.n.Load(); n != 2 {
			w.Errorf("Touched was called %d times", n)
		}
		if err := watch(); !errors.Is(err, lock.ErrLost) {
			w.Errorf("Watch with one of three votes: %v", err)
		}
	})
}

// TestWaiterIsWokenOnceByARelease, by the member that it asks first.
func TestWaiterIsWokenOnceByARelease(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
		g := w.take(b)
		w.refused(other)
		var woken atomic.Int32
		cancel, free, err := other.Contract().(backend.Waker).Await(bg, "k", func() { woken.Add(1) })
		if err != nil || free {
			w.Fatalf("Await: free %v, %v", free, err)
		}
		defer cancel()
		asked := 0
		for _, s := range w.servers {
			asked += s.asked("await")
		}
		if asked != 1 {
			w.Errorf("%d members were asked to wake", asked)
		}
		w.free(g)
		if n := woken.Load(); n != 1 {
			w.Errorf("woken %d times", n)
		}
		cancel2, free, err := other.Contract().(backend.Waker).Await(bg, "k", func() {})
		if err != nil || !free {
			w.Errorf("Await of a free key: free %v, %v", free, err)
		}
		cancel2()
	})
}

// TestWaitersAreWokenWithoutTheFirstMember: it is away, or the holder does not
// have its vote.
func TestWaitersAreWokenWithoutTheFirstMember(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		bubble(t, "a b c", func(w *world) {
			w.at(name).set("k", "dead", time.Hour)
			b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
			g := w.take(b)
			w.at(name).drop("k")
			var woken atomic.Int32
			cancel, free, err := other.Contract().(backend.Waker).Await(bg, "k", func() { woken.Add(1) })
			if err != nil || free {
				w.Fatalf("Await: free %v, %v", free, err)
			}
			defer cancel()
			w.free(g)
			if n := woken.Load(); n != 1 {
				w.Errorf("woken %d times", n)
			}
		})
	}
}

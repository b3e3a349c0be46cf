package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/quorum"
)

// stand takes a place in the queue of k, which is held.
func (w *world) stand(b *quorum.Backend) lock.Place {
	w.Helper()
	p, err := b.Enter(bg, "k")
	if err != nil {
		w.Fatal(err)
	}
	if _, err := p.Try(bg, ttl); !errors.Is(err, lock.ErrHeld) {
		w.Fatalf("Try from a place while the key is held: %v", err)
	}
	return p
}

// TestPlaceTakesItsTokenToTheOthers: who got the first member's vote from its
// queue has one token everywhere.
func TestPlaceTakesItsTokenToTheOthers(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		g := w.take(w.open(quorum.Config{}))
		first, second := w.stand(w.open(quorum.Config{})), w.stand(w.open(quorum.Config{}))
		w.free(g)
		if _, err := second.Try(bg, ttl); !errors.Is(err, lock.ErrHeld) {
			w.Errorf("the second place was served first: %v", err)
		}
		g, err := first.Try(bg, ttl)
		if err != nil {
			w.Fatal(err)
		}
		w.want("the first place took", "xxx", g.Token())
		w.free(g)
		if g, err = second.Try(bg, ttl); err != nil {
			w.Fatal(err)
		}
		w.free(g)
	})
}

// TestPlaceAloneHoldsNothing: it has one vote, and another client the others.
func TestPlaceAloneHoldsNothing(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		p := w.stand(b)
		w.free(g)
		var at *server
		for _, s := range w.servers {
			if s.asked("place") > 0 {
				at = s
				continue
			}
			s.set("k", "other", time.Minute)
		}
		if _, err := p.Try(bg, ttl); !errors.Is(err, lock.ErrHeld) {
			w.Errorf("Try with one vote of two: %v", err)
		}
		synctest.Wait()
		if v := at.value("k"); v != "" {
			w.Errorf("the vote of the place was kept: %q", v)
		}
		for _, s := range w.servers {
			s.drop("k")
		}
		if g, err := p.Try(bg, ttl); err != nil { // it stands in line anew
			w.Error(err)
		} else {
			w.free(g)
		}
	})
}

// TestPlaceOutlivesItsMember: the others are asked without a queue.
func TestPlaceOutlivesItsMember(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		p := w.stand(b)
		var at *server
		for _, s := range w.servers {
			if s.asked("place") > 0 {
				at = s
			}
		}
		at.restart(true)
		w.free(g)
		taken, err := p.Try(bg, ttl)
		if err != nil {
			w.Fatalf("while the member does not vote: %v", err)
		}
		synctest.Wait()
		if at.value("k") != "" {
			w.Error("the restarted member voted")
		}
		w.free(taken)
	})
}

// TestPlaceGivesBackTheVoteOfARestartedMember: it restarted while it voted.
func TestPlaceGivesBackTheVoteOfARestartedMember(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		p := w.stand(b)
		w.free(g)
		var at *server
		for _, s := range w.servers {
			if s.asked("place") > 0 {
				at = s
			}
		}
		free := at.holdOp("place")
		done := make(chan error, 1)
		go func() { _, err := p.Try(bg, ttl); done <- err }()
		synctest.Wait()
		at.restart(true)
		free()
		if err := <-done; !errors.Is(err, lock.ErrHeld) {
			w.Errorf("Try: %v", err)
		}
		w.want("given back", "---", "")
	})
}

package quorum_test

import (
	"context"
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

const ttl = 10 * time.Second

// world is some servers in virtual time.
type world struct {
	*testing.T
	servers []*server
}

// bubble runs f over servers with these names, in virtual time.
func bubble(t *testing.T, names string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{t, newServers(lock.Machine, strings.Fields(names)...)})
	})
}

func (w *world) open(cfg quorum.Config) *quorum.Backend { return open(w.T, w.servers, cfg) }

// take takes key k.
func (w *world) take(b *quorum.Backend) backend.Grant {
	w.Helper()
	g, err := b.Contract().Try(bg, "k", ttl)
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return g
}

func (w *world) free(g backend.Grant) {
	w.Helper()
	if err := g.Release(bg); err != nil {
		w.Errorf("Release: %v", err)
	}
	synctest.Wait()
}

// refused checks that b does not get key k.
func (w *world) refused(b *quorum.Backend) error {
	w.Helper()
	g, err := b.Contract().Try(bg, "k", ttl)
	if err == nil {
		w.Errorf("the key was granted: %v", g)
	}
	synctest.Wait()
	return err
}

// want checks the value of k on each server: a token for "x", none for "-".
func (w *world) want(what, pattern string, token string) {
	w.Helper()
	synctest.Wait()
	got := ""
	for _, s := range w.servers {
		switch s.value("k") {
		case "":
			got += "-"
		case token:
			got += "x"
		default:
			got += "?"
		}
	}
	if got != pattern {
		w.Errorf("%s: the servers have %q, want %q", what, got, pattern)
	}
}

// at returns the server with this name.
func (w *world) at(name string) *server {
	for _, s := range w.servers {
		if s.name == name {
			return s
		}
	}
	w.Fatalf("no server %s", name)
	return nil
}

var errAway = away{"connection refused"}

// TestFirstAttemptAsksAllAtOnce: no member waits for another's answer.
func TestFirstAttemptAsksAllAtOnce(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{})
		var frees []func()
		for _, s := range w.servers {
			frees = append(frees, s.hold())
		}
		done := make(chan error, 1)
		go func() { _, err := b.Contract().Try(bg, "k", ttl); done <- err }()
		synctest.Wait()
		for _, s := range w.servers {
			if s.asked("ready") != 1 {
				w.Errorf("%s was asked %d times", s.name, s.asked("ready"))
			}
		}
		for _, free := range frees {
			free()
		}
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// TestTryReturnsWhenAMajorityVoted: slow members' votes are taken too.
func TestTryReturnsWhenAMajorityVoted(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{Note: "host 7"})
		free, free2 := w.at("b").hold(), w.at("e").hold()
		g := w.take(b)
		w.want("at the majority", "x-xx-", g.Token())
		if !strings.HasSuffix(g.Token(), " host 7") {
			w.Errorf("token %q without the note", g.Token())
		}
		free()
		free2()
		w.want("later", "xxxxx", g.Token())
		w.free(g)
		w.want("released", "-----", "")
	})
}

// TestVoteThatComesAfterReleaseIsGivenBack: the member answers too late.
func TestVoteThatComesAfterReleaseIsGivenBack(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		free := w.at("c").hold()
		g := w.take(b)
		w.free(g)
		free()
		w.want("released", "---", "")
		if w.at("c").asked("try") != 1 {
			w.Error("c was not asked at all")
		}
	})
}

// TestRefusedAttemptLeavesNothing: votes that are no majority are given back,
// also those of which no reply came.
func TestRefusedAttemptLeavesNothing(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{})
		for _, name := range []string{"a", "b", "c"} {
			w.at(name).set("k", "other", time.Hour)
		}
		w.at("e").fail("try", errAway, true) // executed, without a reply
		w.at("d").fail("release", errAway, false)
		w.at("e").fail("release", errAway, false)
		var held *lock.HeldError
		if err := w.refused(b); !errors.As(err, &held) || held.Owner != "other" || held.Left != time.Hour {
			w.Errorf("refused with %v", err)
		}
		w.at("d").fail("release", nil, false)
		w.at("e").fail("release", nil, false)
		time.Sleep(time.Second) // pauses between attempts
		w.want("undone", "???--", "")
	})
}

// TestUndoEndsWhenTheTTLHasPassed: the key has freed itself by then.
func TestUndoEndsWhenTheTTLHasPassed(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		w.at("c").fail("release", errAway, false)
		w.free(g)
		time.Sleep(ttl / 2)
		if n := w.at("c").asked("release"); n < 3 {
			w.Errorf("%d attempts in half a TTL", n)
		}
		time.Sleep(ttl)
		n := w.at("c").asked("release")
		time.Sleep(time.Hour)
		if m := w.at("c").asked("release"); m != n {
			w.Errorf("%d further attempts after the TTL", m-n)
		}
	})
}

// TestUndoOutlivesALostReply: an attempt without a reply may be executed after
// the attempt to give the vote back, so "not held" ends nothing.
func TestUndoOutlivesALostReply(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		w.at("c").fail("try", errAway, true)
		g := w.take(b)
		w.at("c").drop("k") // as if the command had not arrived yet
		w.free(g)
		w.at("c").set("k", g.Token(), time.Hour)
		time.Sleep(ttl)
		w.want("the late vote", "---", "")
	})
}

// TestCancelledAttemptsLeaveNothing cancels attempts at every moment.
func TestCancelledAttemptsLeaveNothing(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{Fences: true})
		for i := range 1000 {
			free := w.servers[i%5].hold()
			free2 := w.servers[(i+1+i/5%4)%5].hold()
			free3 := func() {}
			if i%2 == 0 {
				free3 = w.servers[(i+2)%5].hold()
			}
			ctx, cancel := context.WithCancel(bg)
			done := make(chan error, 1)
			go func() {
				g, err := b.Contract().Try(ctx, "k", ttl)
				var unsure *backend.UnsureError
				if errors.As(err, &unsure) {
					g = unsure.Grant
				}
				if g != nil {
					_ = g.Release(bg)
				}
				done <- err
			}()
			if i%3 != 0 {
				synctest.Wait()
			}
			cancel()
			free()
			free2()
			free3()
			<-done
		}
		time.Sleep(ttl / 2)
		w.want("after 1,000 cancellations", "-----", "")
	})
}

// TestTryIsUnsureWhileAMajorityMayStand: the context ended before the replies.
func TestTryIsUnsureWhileAMajorityMayStand(t *testing.T) {
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
		if err := unsure.Grant.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			w.Errorf("Release while the votes stand: %v", err)
		}
		for _, s := range w.servers {
			s.fail("release", nil, false)
		}
		time.Sleep(time.Second)
		if err := unsure.Grant.Release(bg); err != nil {
			w.Errorf("Release after that: %v", err)
		}
		w.want("released", "---", "")
	})
}

// TestReleaseWaitsForNoSilentMember: a minority is given back later.
func TestReleaseWaitsForNoSilentMember(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		g := w.take(b)
		free := w.at("c").hold()
		began := time.Now()
		w.free(g)
		if passed := time.Since(began); passed > time.Second {
			w.Errorf("Release took %v", passed)
		}
		free()
		w.want("released", "---", "")
	})
}

// TestCloseGivesVotesBackOnceMore: it does not wait for the next pause.
func TestCloseGivesVotesBackOnceMore(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b, err := quorum.New(join(w.servers), quorum.Config{})
		if err != nil {
			w.Fatal(err)
		}
		g := w.take(b)
		w.at("c").fail("release", errAway, false)
		w.free(g)
		time.Sleep(2 * time.Second)
		w.at("c").fail("release", nil, false)
		began := time.Now()
		if err := b.Close(); err != nil {
			w.Error(err)
		}
		if passed := time.Since(began); passed > 0 {
			w.Errorf("Close took %v", passed)
		}
		w.want("closed", "---", "")
		if _, err := b.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrClosed) {
			w.Errorf("Try after Close: %v", err)
		}
	})
}

// TestLoserAsksOneMemberFirst: all other members keep their votes for the
// winner.
func TestLoserAsksOneMemberFirst(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
		g := w.take(b)
		w.refused(other)
		for _, s := range w.servers {
			s.forgetCalls()
		}
		w.refused(other)
		asked := 0
		for _, s := range w.servers {
			asked += s.asked("try")
		}
		if asked != 1 {
			w.Errorf("the loser asked %d members", asked)
		}
		w.free(g)
		w.free(w.take(other))
	})
}

// TestLoserPassesOverAMemberThatIsAway: whichever member is first.
func TestLoserPassesOverAMemberThatIsAway(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		bubble(t, "a b c", func(w *world) {
			b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
			w.at(name).fail("ready", errAway, false)
			g := w.take(b)
			w.refused(other)
			w.refused(other)
			w.free(g)
			w.free(w.take(other))
		})
	}
}

// TestLoserPassesOverAMemberThatFails when it is asked first.
func TestLoserPassesOverAMemberThatFails(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		bubble(t, "a b c", func(w *world) {
			b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
			g := w.take(b)
			w.refused(other)
			w.free(g)
			w.at(name).fail("ready", errAway, false)
			w.free(w.take(other))
		})
	}
}

// TestSplitVoteIsDecidedAtTheFirstMember: two other clients have a vote each,
// which they give back. Our client has the third. It keeps that if all clients
// ask there first, and asks again.
func TestSplitVoteIsDecidedAtTheFirstMember(t *testing.T) {
	granted := 0
	for _, ours := range []string{"a", "b", "c"} {
		bubble(t, "a b c", func(w *world) {
			b := w.open(quorum.Config{})
			for _, s := range w.servers {
				if s.name != ours {
					s.set("k", "client of "+s.name, time.Millisecond)
				}
			}
			g, err := b.Contract().Try(bg, "k", ttl)
			switch {
			case err == nil:
				granted++
				w.want("granted", "xxx", g.Token())
				w.free(g)
			case !errors.Is(err, lock.ErrHeld):
				w.Error(err)
			}
			time.Sleep(time.Millisecond)
			w.want("in the end", "---", "")
		})
	}
	if granted != 1 {
		t.Errorf("granted at %d of three members, and one is the first", granted)
	}
}

// TestDeadVoteOnTheFirstMemberIsOutvoted: a client died with a single vote, on
// the member that losers ask first.
func TestDeadVoteOnTheFirstMemberIsOutvoted(t *testing.T) {
	for _, dead := range []string{"a", "b", "c"} {
		bubble(t, "a b c", func(w *world) {
			b, other := w.open(quorum.Config{}), w.open(quorum.Config{})
			g := w.take(b)
			w.refused(other)
			w.free(g)
			w.at(dead).set("k", "dead", time.Hour)
			var last error
			for range 3 {
				var next backend.Grant
				if next, last = other.Contract().Try(bg, "k", ttl); last == nil {
					w.free(next)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			w.Errorf("a dead vote on %s keeps everybody out: %v", dead, last)
		})
	}
}

// TestClientsThatSplitVotesEndWithAHolder: all of them ask at once, again and
// again.
func TestClientsThatSplitVotesEndWithAHolder(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		const clients, rounds = 16, 20
		var backends []*quorum.Backend
		for range clients {
			backends = append(backends, w.open(quorum.Config{}))
		}
		for round := range rounds {
			grants := make(chan backend.Grant, clients)
			for _, b := range backends {
				go func() {
					g, _ := b.Contract().Try(bg, fmt.Sprint("key", round), ttl)
					grants <- g
				}()
			}
			var won []backend.Grant
			for range clients {
				if g := <-grants; g != nil {
					won = append(won, g)
				}
			}
			if len(won) != 1 {
				w.Fatalf("round %d: %d holders", round, len(won))
			}
			w.free(won[0])
		}
	})
}

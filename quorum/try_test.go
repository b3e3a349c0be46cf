// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// The law of the package comment: while one client has v of N votes, another
// gets a majority m if and only if at least m−(N−v) votes ended early.
func TestTwoHoldExactlyBeyondTheLaw(t *testing.T) {
	for _, names := range []string{"abc", "abcde"} {
		n, m := len(names), len(names)/2+1
		for v := m; v <= n; v++ {
			for ended := 0; ended <= v; ended++ {
				bubble(t, names, func(w *world) {
					first, second := w.open(quorum.Config{Fences: true}), w.open(quorum.Config{Fences: true})
					for i := v; i < n; i++ {
						first.away(i)
					}
					g := first.take()
					for i := range ended {
						w.drop(i)
					}
					g2, err := second.try()
					if want := ended >= m-(n-v); (err == nil) != want {
						t.Errorf("of %d members %d voted and %d votes ended early: a second client gets %v; the law says %v",
							n, v, ended, err, want)
					}
					if err == nil {
						if one, two := fence(g), fence(g2); two <= one {
							t.Errorf("numbers %d and %d: a store cannot tell the later holder", one, two)
						}
						_ = g2.Release(bg)
					}
					_ = g.Release(bg)
				})
			}
		}
	}
}

func fence(g backend.Grant) int64 { return g.(backend.Fenced).Fence() }

// TestTryReturnsWhenAMajorityVoted: slow members' votes are taken too.
func TestTryReturnsWhenAMajorityVoted(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{Note: "host 7"})
		free := c.late(1, 4)
		g := c.take()
		w.want("at the majority", "x-xx-", g.Token())
		if !strings.HasSuffix(g.Token(), " host 7") {
			t.Errorf("token %q without the note", g.Token())
		}
		free()
		w.want("later", "xxxxx", g.Token())
		w.free(g)
		w.want("released", "-----", "")
	})
}

// TestVoteThatComesAfterReleaseIsGivenBack: the member answers too late.
func TestVoteThatComesAfterReleaseIsGivenBack(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		free := c.late(2)
		g := c.take()
		w.free(g)
		free()
		w.want("released", "---", "")
	})
}

// A refused attempt leaves nothing, and says who has the key.
func TestRefusedAttemptLeavesNothing(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		one, two := w.open(quorum.Config{Note: "host 1"}), w.open(quorum.Config{})
		two.away(4)
		one.away(0)
		one.away(1)
		g := one.take()
		two.back(4)
		_, err := two.try()
		var held *backend.HeldError
		if !errors.As(err, &held) || held.Owner != g.Token() || held.Left <= 0 || held.Left > ttl {
			t.Errorf("Try: %v", err)
		}
		w.settle()
		w.want("refused", "--xxx", g.Token())
		w.free(g)
	})
}

// An attempt that was cut off gives its votes back, those that come late too.
func TestCancelledAttemptLeavesNothing(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		free := c.late(1, 2)
		ctx, cancel := context.WithCancelCause(bg)
		time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
		_, err := c.Contract().Try(ctx, "k", ttl)
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Errorf("Try: %v", err)
		}
		var open *backend.UnsureError
		if errors.As(err, &open) {
			go func() { _ = open.Grant.Release(bg) }()
		}
		free()
		pass(ttl)
		w.want("cancelled", "---", "")
	})
}

// The SET was executed, and its reply is lost. The vote is found at the next
// renewal, or given back.
func TestVoteOfUnknownOutcomeIsFoundOrGivenBack(t *testing.T) {
	for _, renews := range []bool{true, false} {
		bubble(t, "abc", func(w *world) {
			c := w.open(quorum.Config{})
			c.wires[2].Fault(redistest.Rule{Command: "SET", Do: redistest.CutAfter})
			g := c.take()
			w.want("taken", "xxx", g.Token())
			if renews {
				w.renew(g)
				w.drop(0)
				w.renew(g)
			}
			w.free(g)
			pass(ttl / 2)
			w.want("released", "---", "")
		})
	}
}

// Every vote is given back, however long a member is away.
func TestReleaseReachesMembersThatWereAway(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		c.away(2)
		w.free(g)
		w.want("released", "--x", g.Token())
		pass(time.Second)
		c.back(2)
		pass(4 * time.Second)
		w.want("back", "---", "")
		c.away(0)
		c.away(1)
		c.away(2)
		if _, err := c.try(); err == nil || errors.Is(err, backend.ErrHeld) {
			t.Errorf("nobody answers: %v", err)
		}
	})
}

// Two majorities have a member in common, which has the earlier number: later
// ones are greater, also where the members' counters differ.
func TestFencesIncreaseWhereMembersDisagree(t *testing.T) {
	bubble(t, "abcde", func(w *world) {
		c := w.open(quorum.Config{Fences: true})
		ahead := time.Now().Add(time.Hour).UnixMicro()
		w.servers[0].Mini.Set("gsl:fence::{m5p}", fmt.Sprint(ahead))
		var last int64
		for round := range 6 {
			c.away(round % 5)
			c.away((round + 1) % 5)
			g := c.take()
			if round == 0 {
				w.free(g)
				c.back(0)
				c.back(1)
				continue
			}
			if n := fence(g); n <= last {
				t.Errorf("round %d: number %d after %d", round, n, last)
			}
			last = fence(g)
			w.free(g)
			c.back(round % 5)
			c.back((round + 1) % 5)
		}
		if last < ahead {
			t.Errorf("number %d: the greatest of a majority was %d", last, ahead)
		}
	})
}

// The second round must reach a majority on which the token still stands.
func TestNumberIsRefusedWithoutAMajority(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{Fences: true})
		g := c.take()
		raise := func(cmd redistest.Command) bool { return len(cmd) == 7 && cmd[2] == "2" }
		w.free(g)
		for i := range 2 {
			c.wires[i].Fault(redistest.Rule{When: raise, Times: -1, Do: redistest.Silence})
		}
		if _, err := c.try(); err == nil || !strings.Contains(err.Error(), "fencing number was written to") {
			t.Errorf("Try: %v", err)
		}
		pass(ttl)
		w.want("refused", "---", "")
	})
}

// A vote that was taken again has the number too.
func TestVoteTakenAgainHasTheNumber(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{Fences: true})
		ahead := time.Now().Add(time.Hour).UnixMicro()
		for i := range w.servers {
			w.servers[i].Mini.Set("gsl:fence::{m5p}", fmt.Sprint(ahead))
		}
		g := c.take()
		w.servers[0].Mini.Set("gsl:fence::{m5p}", "1")
		w.drop(0)
		w.renew(g)
		got, _ := w.servers[0].Mini.Get("gsl:fence::{m5p}")
		if got != fmt.Sprint(fence(g)) || fence(g) <= ahead {
			t.Errorf("the counter is %s, and the number %d", got, fence(g))
		}
		w.free(g)
	})
}

// A waiter listens, and goes on if the member is away at which it does.
func TestWaiterGetsAReleasedKey(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		holds := w.open(quorum.Config{})
		one := w.open(quorum.Config{})
		two := w.over(quorum.Config{}, modern.Config{Wake: lock.WakeOff}, 0, 1, 2)
		for i, c := range []*client{one, two} {
			g := holds.take()
			client, err := lock.New(c.Backend, lock.Config{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			var l *lock.Lease
			over := make(chan struct{})
			go func() {
				defer close(over)
				l, err = client.Acquire(bg, "k")
			}()
			pass(time.Second)
			c.away(i)
			w.free(g)
			<-over
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
			c.back(i)
			_ = client.Close(bg)
		}
	})
}

// Votes of clients that died on a minority keep nobody out.
func TestDescribeSaysWhoHasVotes(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		w.servers[0].Mini.Set("k", "dead-0000000000000000")
		looks := c.Contract().(backend.Inspector)
		info, err := looks.Describe(bg, "k")
		if err != nil || info.Held != nil {
			t.Errorf("one vote of three: %+v, %v", info, err)
		}
		if freed, err := looks.ForceRelease(bg, "k", "dead-0000000000000000"); !freed || err != nil {
			t.Errorf("ForceRelease: %v, %v", freed, err)
		}
		w.free(c.take())
		c.away(0)
		c.away(1)
		if _, err := looks.Describe(bg, "k"); err == nil {
			t.Error("one answer of three says nothing")
		}
	})
}

// Nothing is sent after Close.
func TestClosedBackendSendsNothing(t *testing.T) {
	bubble(t, "abc", func(w *world) {
		c := w.open(quorum.Config{})
		g := c.take()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := c.try(); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("Try: %v", err)
		}
		if err := g.Release(bg); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("Release: %v", err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package sessions

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

type grant struct {
	Key
	of   int
	name string
}

func (*grant) Token() string                 { return "" }
func (*grant) Term() backend.Term            { return backend.Term{} }
func (*grant) Release(context.Context) error { return nil }
func (*grant) Extend(context.Context, time.Duration) (backend.Term, error) {
	return backend.Term{}, nil
}

const ttl = time.Second

func needed(*grant) bool { return true }

// added returns a session with a grant whose attempt is under way.
func added() (*Session[*grant], *grant) {
	s, g := New[*grant](context.Background()), &grant{}
	s.Add(g)
	return s, g
}

func TestUnextendedGrantIsGivenUpAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := added()
		s.Hold(g, ttl)
		<-time.After(ttl - 1)
		s.Keep(g, ttl)
		<-time.After(ttl - 1)
		if s.Sweep(); g.Asked() {
			t.Error("it was given up within its TTL")
		}
		<-time.After(1)
		if s.Sweep(); !g.Late() || !g.Asked() || !slices.Equal(s.Strays(), []*grant{g}) {
			t.Error("it was kept longer than its TTL")
		}
		if s.Hold(g, ttl) || s.Wait(g) || len(s.Held()) > 0 {
			t.Error("what was given up is held again")
		}
		if s.Free(g); !g.Gone() || len(s.Strays()) > 0 {
			t.Error("it is gone, and is still a stray")
		}
		if s.Stray(g); len(s.Strays()) > 0 {
			t.Error("a grant that is gone became a stray")
		}
	})
}

// Each of these keys needs the session, so that it must not be ended: another
// process could take a key while this one is still on its way.
func TestRetiredSessionServesItsLastKey(t *testing.T) {
	for what, become := range map[string]func(*Session[*grant], *grant){
		"tried":   func(*Session[*grant], *grant) {},
		"waiting": func(s *Session[*grant], g *grant) { s.Wait(g) },
		"held":    func(s *Session[*grant], g *grant) { s.Hold(g, ttl) },
		"stray":   func(s *Session[*grant], g *grant) { s.Stray(g) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s, g := added()
			become(s, g)
			<-time.After(2 * idleTTLs * ttl)
			if idle, _ := s.Rest(ttl, needed); idle {
				t.Errorf("%s: the session is idle", what)
			}
			s.retire()
			if _, done := s.Rest(ttl, needed); done {
				t.Errorf("%s: the session is to be ended", what)
			}
			s.Free(g)
			if _, done := s.Rest(ttl, needed); done {
				t.Errorf("%s: it is to be ended at once: an attempt may just have got it", what)
			}
			<-time.After(ttl)
			if _, done := s.Rest(ttl, needed); !done {
				t.Errorf("%s: it is kept without any key", what)
			}
		})
	}
}

func TestSessionIsIdleAfterTenTTLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := added()
		s.Free(g)
		<-time.After(idleTTLs * ttl)
		if idle, _ := s.Rest(ttl, needed); idle {
			t.Error("it is idle too soon")
		}
		<-time.After(1)
		if idle, done := s.Rest(ttl, needed); !idle || done {
			t.Errorf("idle %t, to be ended %t", idle, done)
		}
	})
}

func TestSessionThatIsOverHoldsNothing(t *testing.T) {
	s, g := added()
	if ended := s.End(); !slices.Equal(ended, []*grant{g}) || !g.Gone() {
		t.Errorf("%d keys ended", len(ended))
	}
	<-s.Done()
	if s.Hold(g, ttl) || s.Wait(&grant{}) || len(s.Held()) > 0 {
		t.Error("a lock is held with a session that is over")
	}
	if again := s.End(); again != nil {
		t.Error("it ended twice")
	}
}

// Locks that are held outlive Close: their holders may still be at work.
func TestLeaveGivesWaitersUpAndNoHolder(t *testing.T) {
	s, g := added()
	s.Hold(g, ttl)
	waiter := &grant{}
	s.Wait(waiter)
	if !s.Leave() || g.Asked() || !slices.Equal(s.Strays(), []*grant{waiter}) {
		t.Errorf("strays: %d", len(s.Strays()))
	}
}

func TestPoolLeavesEachSessionOnce(t *testing.T) {
	var p Pool[*Session[*grant]]
	p.Begin()
	open, retired := New[*grant](context.Background()), New[*grant](context.Background())
	over := New[*grant](context.Background())
	for _, s := range []*Session[*grant]{open, retired, over} {
		p.Open[ttl] = s
		p.Start(s, func() { <-p.Life.Done() })
	}
	p.Open[2*ttl] = open
	p.Retire(retired)
	if p.Forget(over); p.Open[ttl] != nil || p.Open[2*ttl] != open || !over.retired {
		t.Error("new keys find a session that was retired")
	}
	left, why := make(chan *Session[*grant], 3), errors.New("no reply")
	leave := func(s *Session[*grant]) error {
		left <- s
		return why
	}
	if err := p.End(leave); !errors.Is(err, why) || len(left) != 2 {
		t.Errorf("%v, %d sessions", err, len(left))
	}
	if err := p.End(leave); err != nil || len(left) != 2 || p.Start(open, func() {}) {
		t.Errorf("after Close: %v, %d sessions", err, len(left))
	}
}

func TestRetriedGivesUpAfterThreeSessions(t *testing.T) {
	n := 0
	_, err := Retried("too short", func() (int, error) {
		n++
		return 0, ErrOver
	})
	var trouble *Trouble
	if !errors.As(err, &trouble) || !trouble.Passing() || n != 3 {
		t.Errorf("%v after %d", err, n)
	}
}

func TestExtendAllKeepsTheOrder(t *testing.T) {
	var gs []backend.Grant
	for i := range 6 {
		gs = append(gs, &grant{of: i % 2, name: strconv.Itoa(i)})
	}
	calls := 0
	terms, errs := ExtendAll(gs, func(g *grant) int { return g.of },
		func(_ int, some []*grant) (terms []backend.Term, errs []error) {
			calls++
			for _, g := range some {
				n, err := strconv.Atoi(g.name)
				terms, errs = append(terms, backend.Term{TTL: time.Duration(n)}), append(errs, err)
			}
			return terms, errs
		})
	for i := range gs {
		if terms[i].TTL != time.Duration(i) || errs[i] != nil || calls != 2 {
			t.Errorf("%d: %v, %v, %d calls", i, terms[i], errs[i], calls)
		}
	}
}

func TestNamesForgetWhenThereAreTooMany(t *testing.T) {
	var n Names
	for i := range mostNames {
		n.Set(strconv.Itoa(i), true)
	}
	n.Set("0", false)
	if n.Has("0") || !n.Has("1") {
		t.Error("the wrong name was taken out")
	}
	n.Set("0", true)
	if n.Set("more", true); n.Has("1") || !n.Has("more") {
		t.Errorf("%d names", len(n.have))
	}
}

// A key that its caller gave up keeps others out until the next round.
func TestRoundIsShortHoweverLongTheTTL(t *testing.T) {
	for ttl, round := range map[time.Duration]time.Duration{
		6 * time.Second: time.Second / 2, time.Minute: longestRound, 24 * time.Hour: longestRound,
	} {
		if got := Round(ttl); got != round {
			t.Errorf("TTL %v: a round takes %v, not %v", ttl, got, round)
		}
	}
}

// The caller gave the key up while the session ended: nothing was lost.
func TestStrayOfAnEndedSessionWasAskedFor(t *testing.T) {
	s, g := added()
	s.Hold(g, ttl)
	s.End()
	if g.Asked() {
		t.Error("a lock that ended with its session counts as given up")
	}
	if s.Stray(g); !g.Asked() || !g.Gone() || len(s.Strays()) > 0 {
		t.Error("a key that was given up after the end counts as lost")
	}
}

// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// asleep is a clock that wakes no heartbeat.
type asleep struct{ *redistest.Clock }

func (asleep) After(time.Duration) <-chan time.Time { return nil }

// observing is a world whose record says observe.
func observing(t *testing.T) *redistest.World {
	t.Helper()
	w := redistest.Bubble(t)
	text := Record{Epoch: 1, Phase: Observe, Since: w.ServerNow(), Dialect: "Jedis"}.String()
	if err := w.Mini.Set(record.Key(""), text); err != nil {
		t.Fatal(err)
	}
	return w
}

// published is what the server has of a member.
func published(t *testing.T, w *redistest.World, m *Member) MemberState {
	t.Helper()
	s, err := ParseMember(w.Mini.HGet(record.RosterKey(""), m.ID()))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheSoonerPromiseHoldsWhileTheReplyIsMissing: gates may go by either.
func TestTheSoonerPromiseHoldsWhileTheReplyIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := observing(t)
		wire := w.Wire()
		m, err := Join(t.Context(), wire.Pool(), MemberConfig{Clock: asleep{w.Clock(redistest.Skew{})}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Leave()
		for _, every := range []time.Duration{longestEvery, defaultEvery} {
			m.pace.next = every
			wire.Fault(redistest.Rule{Command: "EVALSHA", Do: redistest.CutAfter})
			if err := m.Refresh(t.Context()); err == nil {
				t.Fatal("the reply came")
			}
			if got := published(t, w, m).Every; got != every || m.every() != defaultEvery {
				t.Errorf("the server was told %v, and %v is held to", got, m.every())
			}
			m.pace.next = longestEvery
			if err := m.Refresh(t.Context()); err != nil || m.every() != longestEvery {
				t.Errorf("held to %v (%v)", m.every(), err)
			}
		}
	})
}

const lease = time.Minute

// bounds is a judge whose Behind changes.
type bounds func() time.Duration

func (b bounds) Bounds() (behind, ahead time.Duration) { return b(), 0 }
func (bounds) Told(dialect.Seen)                       {}

// TestAMemberSaysAtOnceThatItsBoundsChanged, and not only a heartbeat later.
func TestAMemberSaysAtOnceThatItsBoundsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := observing(t)
		m, err := Join(t.Context(), w.Pool(), MemberConfig{Clock: asleep{w.Clock(redistest.Skew{})}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Leave()
		behind := time.Second
		m.actsBy(bounds(func() time.Duration { return behind }), lease)
		// as a step that a look finds
		m.Attach(func(context.Context, string) error { behind = 2 * time.Second; return nil })
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := published(t, w, m).Behind; got != 2*time.Second {
			t.Errorf("published %v", got)
		}
	})
}

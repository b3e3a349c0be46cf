// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

var _ quorum.Member = (*modern.Backend)(nil)

// member is what package quorum calls.
type member interface {
	Admit(check func(redis.Conn) error) error
	TryAs(ctx context.Context, key, token string, ttl time.Duration) (backend.Grant, error)
	Raise(ctx context.Context, g backend.Grant, number int64) error
}

func voter(b *modern.Backend) member { return b.Contract().(member) }

// TestRaiseWritesTheNumberBesideItsToken, and nowhere else.
func TestRaiseWritesTheNumberBesideItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Name: "a", Fence: true, Namespace: "n"})
		vote := func() backend.Grant {
			g, err := voter(b).TryAs(bg, "k", "token-of-16-bytes", ttl)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		g := vote()
		drawn := g.(backend.Fenced).Fence()
		far := drawn + 1e12
		if err := voter(b).Raise(bg, g, far); err != nil {
			t.Fatal(err)
		}
		if err := voter(b).Raise(bg, g, drawn); err != nil { // less than the counter: nothing to do
			t.Fatal(err)
		}
		free(t, g)
		if err := voter(b).Raise(bg, g, far+1e12); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Raise without the token: %v", err)
		}
		g = vote()
		if next := g.(backend.Fenced).Fence(); next != far+1 {
			t.Errorf("number %d after %d", next, far)
		}
		free(t, g)
		w.Mini.Set("gsl:fence:n:{m5p}", "nonsense")
		if _, err := voter(b).TryAs(bg, "k", "token-of-16-bytes", ttl); err == nil {
			t.Error("voted without a number")
		}
		w.Mini.Del("gsl:fence:n:{m5p}")
	})
}

// TestAdmitRefusesWhatAMemberCannotHave: parts of its Config, and bad tokens.
func TestAdmitRefusesWhatAMemberCannotHave(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		for _, cfg := range []modern.Config{{Fair: true}, {Replicas: 1}} {
			if err := voter(open(t, w, cfg)).Admit(func(redis.Conn) error { return nil }); err == nil {
				t.Errorf("%+v may vote", cfg)
			}
		}
		b := open(t, w, modern.Config{})
		for _, token := range []string{"", "short", "short with a long note"} {
			if _, err := voter(b).TryAs(bg, "k", token, ttl); err == nil {
				t.Errorf("token %q was taken", token)
			}
		}
	})
}

// TestNothingGoesOverAConnectionThatIsNotAdmitted: neither a vote nor a
// renewal.
func TestNothingGoesOverAConnectionThatIsNotAdmitted(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		refusal := errors.New("another server answers")
		var why error
		if err := voter(b).Admit(func(c redis.Conn) error { return why }); err != nil {
			t.Fatal(err)
		}
		g, err := voter(b).TryAs(bg, "k", "token-of-16-bytes", ttl)
		if err != nil {
			t.Fatal(err)
		}
		why = refusal
		wire.Cut()
		synctest.Wait()
		wire.Forget()
		if _, err := voter(b).TryAs(bg, "k2", "token-of-16-bytes", ttl); !errors.Is(err, refusal) {
			t.Errorf("TryAs: %v", err)
		}
		if _, err := g.Extend(bg, ttl); !errors.Is(err, refusal) {
			t.Errorf("Extend: %v", err)
		}
		if sent := wire.Sent(); len(sent) > 0 {
			t.Errorf("the server got %v", sent)
		}
		why = nil
		free(t, g)
	})
}

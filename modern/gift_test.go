package modern_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func got(t *testing.T, p lock.Place) lock.Grant {
	t.Helper()
	g, err := p.Try(bg, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// aside returns a queue of two on a key that was released and is therefore
// reserved for the first of them.
func aside(t *testing.T, w *redistest.World, cfg modern.Config) (b *modern.Backend, first,
	second lock.Place) {
	t.Helper()
	b = open(t, w, cfg)
	holder := try(t, b, "k")
	if !cfg.Fair { // in the plain form only a holder from the queue reserves
		p := stand(t, b, "k")
		free(t, holder)
		holder = got(t, p)
	}
	first, second = stand(t, b, "k"), stand(t, b, "k")
	free(t, holder)
	return b, first, second
}

// reserved is how long a release keeps the key for the next waiter.
const reserved = 1500 * time.Millisecond

// Meanwhile all other clients find the key held. The first waiter gets it for a
// whole TTL by its own script.
func TestReservationIsNoGrant(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, first, second := aside(t, w, cfg)
				info, err := b.Inspect(bg, "k")
				if err != nil || !info.Reserved || info.Left != reserved {
					t.Errorf("Inspect says %+v, %v", info, err)
				}
				if _, err := b.Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("a later client got %v", err)
				}
				var refusal *lock.HeldError
				if _, err := second.Try(bg, ttl); !errors.As(err, &refusal) ||
					!strings.Contains(err.Error(), "reserved for the next waiter in the queue") {
					t.Errorf("the second waiter got %v", err)
				}
				// Renewals and releases compare like this.
				for _, value := range []string{info.Token, info.Token + " host 7"} {
					if deleted, err := b.ForceRelease(bg, "k", value); deleted || err != nil {
						t.Errorf("deleted by %q: %v, %v", value, deleted, err)
					}
				}
				g := got(t, first)
				if value, _ := w.Mini.Get("k"); value != g.Token() || !strings.HasPrefix(value, info.Token) ||
					w.Mini.TTL("k") != ttl {
					t.Errorf("the key holds %q for %v", value, w.Mini.TTL("k"))
				}
				if term := g.Term(); term.TTL != ttl || term.Sent.Elapsed != lock.Mark(bg).Elapsed {
					t.Errorf("trusted by %+v", term)
				}
				free(t, g)
				granted(t, second)
			})
		})
	}
}

func TestReservedKeyBringsAGreaterFencingNumber(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true, Fence: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		free(t, holder)
		g := got(t, p)
		if g.(lock.Fenced).Fence() <= holder.(lock.Fenced).Fence() {
			t.Errorf("number %d follows %d", g.(lock.Fenced).Fence(), holder.(lock.Fenced).Fence())
		}
		free(t, g)
	})
}

// The reservation ends, and the next waiter gets the key.
func TestDeadHeadCostsOnlyItsReservation(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				_, _, second := aside(t, w, cfg)
				var refusal *lock.HeldError
				if _, err := second.Try(bg, ttl); !errors.As(err, &refusal) || refusal.Left != reserved ||
					refusal.Final || !refusal.Until.IsZero() {
					t.Errorf("the second waiter got %v", err)
				}
				w.Pass(reserved - time.Millisecond)
				held(t, second)
				w.Pass(time.Millisecond)
				granted(t, second)
			})
		})
	}
}

// Another client has the key by then.
func TestLateWaiterLosesItsReservationAndQueuesAnew(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				_, first, second := aside(t, w, cfg)
				w.Pass(reserved + time.Millisecond)
				g := got(t, second)
				held(t, first)
				free(t, g)
				granted(t, first)
			})
		})
	}
}

// Leaving hands over a reservation, and not the key of a holder.
func TestLeavingPassesAReservationOn(t *testing.T) {
	for name, cfg := range forms {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, first, second := aside(t, w, cfg)
				if err := first.Leave(bg); err != nil {
					t.Fatal(err)
				}
				if info, err := b.Inspect(bg, "k"); err != nil || !info.Reserved {
					t.Errorf("Inspect says %+v, %v", info, err)
				}
				granted(t, second)
			})
		})
	}
}

// A message that names a place is only a reason to ask.
func TestStaleCallOnlyMakesAPlaceAsk(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fair: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		places, err := w.Mini.ZMembers("gsl:queue::k")
		if err != nil || len(places) != 1 {
			t.Fatal(places, err)
		}
		process, token, _ := strings.Cut(places[0], " ")
		wire.Forget()
		if w.Mini.Publish("gsl:turn:"+process, token) != 1 {
			t.Fatal("the message has no subscriber")
		}
		synctest.Wait()
		held(t, p)
		free(t, holder)
		granted(t, p)
	})
}

func TestNewRefusesTheNoteOfAReservation(t *testing.T) {
	if _, err := modern.New(redistest.New(t).Pool(), modern.Config{Note: "reserved"}); err == nil {
		t.Error("New accepted the note of a reservation")
	}
}

func TestReleaseWorksWithAnUnreadableCounter(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true, Fence: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		w.Mini.Set("gsl:fence:", "no number")
		free(t, holder)
		synctest.Wait()
		if _, err := p.Try(bg, ttl); err == nil || !strings.Contains(err.Error(), "holds no fencing number") {
			t.Errorf("the next client got %v", err)
		}
		if err := p.Leave(bg); err != nil {
			t.Error(err)
		}
		if w.Mini.Exists("k") {
			t.Error("the key is kept")
		}
	})
}

func TestRefusalNamesTheKeysEndToTheMicrosecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		w.Mini.Set("k", "somebody else's token")
		w.Mini.SetTTL("k", 5*time.Second)
		w.Pass(300 * time.Microsecond)
		p, err := b.Enter(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Try(bg, ttl)
		var refusal *lock.HeldError
		if !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		// The server cuts the remaining TTL to milliseconds, and the key ends
		// after the last of them.
		into := time.Duration(w.ServerNow().Nanosecond()) % time.Millisecond
		if want := refusal.Left + time.Millisecond - into; refusal.Again != want || into == 0 {
			t.Errorf("the next attempt is due in %v; want %v", refusal.Again, want)
		}
		if err := p.Leave(bg); err != nil {
			t.Error(err)
		}
		w.Mini.Del("k")
	})
}

// A script cuts a token at the first blank, so a token is one word.
func TestTokenIsOneWord(t *testing.T) {
	w := redistest.New(t)
	for _, token := range []string{"host-0123456789ab\t7", "\thost-0123456789ab", "host-0123456789ab\n7",
		"host 0123456789ab7"} {
		b := open(t, w, modern.Config{Token: func() string { return token }})
		if _, err := b.Try(bg, "k", ttl); err == nil || !strings.Contains(err.Error(), "Config.Token") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// Another program's value without a TTL is no reservation, whatever it ends
// with.
func TestReservationHasATTL(t *testing.T) {
	w := redistest.New(t)
	b := open(t, w, modern.Config{})
	if err := w.Mini.Set("k", "somebody reserved"); err != nil {
		t.Fatal(err)
	}
	if info, err := b.Inspect(bg, "k"); err != nil || info.Reserved {
		t.Errorf("%+v, %v", info, err)
	}
}

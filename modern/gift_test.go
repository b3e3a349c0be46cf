package modern_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

const claim = 3 * time.Second

// standFor is stand for a place that may be given the key for the claim.
func standFor(t *testing.T, b *modern.Backend, key string) lock.Place {
	t.Helper()
	p, err := b.Enter(bg, key, claim)
	if err != nil {
		t.Fatal(err)
	}
	held(t, p)
	return p
}

func got(t *testing.T, p lock.Place) lock.Grant {
	t.Helper()
	g, err := p.Try(bg, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWhoIsGivenTheKeyHasItWithoutAWordAndTrustsItFromItsLastTry(t *testing.T) {
	for _, form := range []string{"fair", "fair fence"} {
		t.Run(form, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				holders := open(t, w, forms[form])
				b, wire := on(t, w, forms[form])
				holder := try(t, holders, "k")
				p := standFor(t, b, "k")
				w.Pass(time.Second)
				tried := lock.Mark(bg).Elapsed
				held(t, p)
				w.Pass(time.Second)
				free(t, holder)
				synctest.Wait()
				wire.Forget()
				g := got(t, p)
				if sent := wire.Sent(); len(sent) > 0 {
					t.Errorf("it sent %q", sent)
				}
				if term := g.Term(); term.Sent.Elapsed != tried || term.TTL != claim {
					t.Errorf("trusted for %v from %v after its last try", term.TTL, term.Sent.Elapsed-tried)
				}
				if value, _ := w.Mini.Get("k"); value != g.Token() || w.Mini.TTL("k") != claim {
					t.Errorf("the key holds %q for %v", value, w.Mini.TTL("k"))
				}
				if forms[form].Fence && g.(lock.Fenced).Fence() <= holder.(lock.Fenced).Fence() {
					t.Errorf("number %d follows %d", g.(lock.Fenced).Fence(), holder.(lock.Fenced).Fence())
				}
				free(t, g)
			})
		})
	}
}

func TestWhoCameFromTheLineGivesTheKeyOnInThePlainFormToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		holder := try(t, b, "k")
		first, second := standFor(t, b, "k"), standFor(t, b, "k")
		free(t, holder)
		g := got(t, first)
		free(t, g)
		synctest.Wait()
		wire.Forget()
		g = got(t, second)
		if sent := wire.Sent(); len(sent) > 0 {
			t.Errorf("the second sent %q", sent)
		}
		free(t, g)
	})
}

func TestWhoHearsNothingHasASecondToComeForTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true})
		dead, err := modern.New(w.Pool(), modern.Config{Fair: true})
		if err != nil {
			t.Fatal(err)
		}
		holder := try(t, b, "k")
		standFor(t, dead, "k")
		second := standFor(t, b, "k")
		if err := dead.Close(); err != nil { // as a process that dies
			t.Fatal(err)
		}
		synctest.Wait()
		free(t, holder)
		if left := w.Mini.TTL("k"); left != time.Second {
			t.Errorf("the key is kept for him for %v", left)
		}
		w.Pass(time.Second + time.Millisecond)
		granted(t, second)
	})
}

func TestAMessageForAnEarlierPlaceIsNotBelieved(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		tokens := []string{"token-of-the-holder", "token-of-the-first-place", "token-of-the-second-place"}
		b, wire := on(t, w, modern.Config{Fair: true, Token: func() string {
			next := tokens[0]
			tokens = tokens[1:]
			return next
		}})
		holder := try(t, b, "k")
		p := standFor(t, b, "k")
		channel := ""
		for _, c := range wire.Sent() {
			if c.Is("SUBSCRIBE") {
				channel = c[1]
			}
		}
		say := func(word string) {
			if w.Mini.Publish(channel, word) != 1 {
				t.Fatal("nobody listens")
			}
			synctest.Wait()
		}
		w.Mini.Del("gsl:queue::k") // it slept, was given the key and lost it
		held(t, p)                 // and stands anew
		say("1 token-of-the-first-place")
		held(t, p)
		say("1 token-of-the-second-place")
		if g := got(t, p); g.Token() != "token-of-the-second-place" {
			t.Errorf("the grant is %s", g.Token())
		}
		for _, left := range []string{"gsl:queue::k", "gsl:alive::k"} { // nobody had released
			w.Mini.Del(left)
		}
		free(t, holder)
	})
}

func TestACounterThatCannotBeReadDoesNotKeepTheKeyFromBeingReleased(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true, Fence: true})
		holder := try(t, b, "k")
		p := standFor(t, b, "k")
		w.Mini.Set("gsl:fence:", "no number")
		free(t, holder)
		synctest.Wait()
		if _, err := p.Try(bg, ttl); err == nil || !strings.Contains(err.Error(), "holds no fencing number") {
			t.Errorf("the next was told %v", err)
		}
		if w.Mini.Exists("k") {
			t.Error("the key is kept")
		}
		if err := p.Leave(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestAWaiterIsToldWhenTheKeyEndsToTheMicrosecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		w.Mini.Set("k", "somebody else's token")
		w.Mini.SetTTL("k", 5*time.Second)
		w.Pass(300 * time.Microsecond)
		p, err := b.Enter(bg, "k", claim)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Try(bg, ttl)
		var refusal *lock.HeldError
		if !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		// The server cuts the rest of the TTL to milliseconds, and ends the key behind the last of them.
		into := time.Duration(w.ServerNow().Nanosecond()) % time.Millisecond
		if want := refusal.Left + time.Millisecond - into; refusal.Again != want || into == 0 {
			t.Errorf("it is to come again in %v; want %v", refusal.Again, want)
		}
		if err := p.Leave(bg); err != nil {
			t.Error(err)
		}
		w.Mini.Del("k")
	})
}

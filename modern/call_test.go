package modern

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
)

// TestAMessageThatWasTakenOutForAnEarlierPlaceIsNotBelieved: it waits between the subscription, which has
// looked up what it is for, and the place, and meanwhile that one stands anew.
func TestAMessageThatWasTakenOutForAnEarlierPlaceIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		ctx := context.Background()
		w := redistest.Bubble(t)
		b, err := New(w.Pool(), Config{Fair: true})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		holder, err := b.Try(ctx, "k", ttl)
		if err != nil {
			t.Fatal(err)
		}
		stands, err := b.Enter(ctx, "k", 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		held := func() {
			t.Helper()
			if g, err := stands.Try(ctx, ttl); !errors.Is(err, lock.ErrHeld) {
				t.Fatalf("granted %v, error %v; it should wrap ErrHeld", g, err)
			}
		}
		held()
		p := stands.(*place)
		late, woken := p.caller(), false
		w.Mini.Del("gsl:queue::k") // it slept, was given the key and lost it
		held()                     // and stands anew
		p.await(func() { woken = true })
		late("1")
		if woken {
			t.Error("it was woken by what was said of the place before")
		}
		held()
		p.caller()("1") // of this one the same word is believed
		if g, err := stands.Try(ctx, ttl); err != nil || g.Token() != p.g.token || !woken {
			t.Errorf("granted %v, woken %v, error %v", g, woken, err)
		}
		if err := holder.Release(ctx); err != nil {
			t.Error(err)
		}
	})
}

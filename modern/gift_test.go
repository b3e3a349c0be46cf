// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func got(t *testing.T, p backend.Place) backend.Grant {
	t.Helper()
	g, err := p.Try(bg, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// two is a key that was released to the first of two waiters, each on a wire of
// its own.
type two struct {
	w             *redistest.World
	holders, b    *modern.Backend // of the holder, and of the first waiter
	first, second backend.Place
	wire          *redistest.Wire // of the first waiter
	process       string          // its name
	asked         backend.Instant // when the first waiter was refused last
}

// given releases a key to the first of two waiters after the given time.
func given(t *testing.T, w *redistest.World, cfg modern.Config, after time.Duration) two {
	t.Helper()
	g := two{w: w, holders: open(t, w, cfg)}
	g.b, g.wire = on(t, w, cfg)
	holder := try(t, g.holders, "k")
	g.first = stand(t, g.b, "k")
	g.asked = backend.ReadClock(bg)
	places, err := w.Mini.ZMembers("gsl:queue::{k}")
	if err != nil || len(places) != 1 {
		t.Fatal(places, err)
	}
	g.process, _, _ = strings.Cut(places[0], " ")
	g.second = stand(t, open(t, w, cfg), "k")
	g.wire.Forget()
	w.Pass(after)
	free(t, holder)
	return g
}

// token returns the token on the key.
func (g two) token(t *testing.T) string {
	t.Helper()
	value, err := g.w.Mini.Get("k")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// tell sends the message about the gift of the first waiter once more.
func (g two) tell(t *testing.T, token string) {
	t.Helper()
	if g.w.Mini.Publish("gsl:turn:"+g.process, fmt.Sprintf("5 %d %sk", len(token), token)) != 1 {
		t.Error("the message has no subscriber")
	}
	synctest.Wait()
}

// The first waiter holds the key from the release on, without a command of its
// own. Trust counts from before its last refused try: the server wrote the key
// after that.
func TestReleaseGivesTheKeyToTheFirstWaiter(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 2*time.Second)
		synctest.Wait() // the message has come
		token := gift.token(t)
		if left := w.Mini.TTL("k"); left != ttl {
			t.Errorf("the key was given for %v", left)
		}
		if _, err := gift.holders.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("a later client got %v", err)
		}
		held(t, gift.second)
		g := got(t, gift.first)
		for _, c := range gift.wire.Sent() {
			if !c.Is("PING") {
				t.Errorf("the waiter sent %v", c)
			}
		}
		if term := g.Term(); g.Token() != token || !term.Given || term.TTL != ttl ||
			term.Sent != gift.asked {
			t.Errorf("token %q, given %q; %+v, refused at %v", g.Token(), token, term, gift.asked)
		}
		extend(t, g)
		if g.Term().Given {
			t.Error("a renewed term counts as given")
		}
		free(t, g)
		granted(t, gift.second)
	})
}

// A try that reached no server is no refusal: the gift may have come before it.
func TestTrustInAGiftCountsFromARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gift := given(t, w, modern.Config{Fair: true}, 0)
		synctest.Wait()
		w.Pass(time.Second)
		holder := got(t, gift.first)
		p := stand(t, gift.b, "k")
		asked := backend.ReadClock(bg)
		w.Pass(time.Second)
		gift.wire.Fault(redistest.Rule{When: writes, Do: redistest.Answer(redistest.Loading)})
		if _, err := p.Try(bg, ttl); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		held(t, gift.second)
		if err := gift.second.Leave(bg); err != nil {
			t.Error(err)
		}
		free(t, holder)
		synctest.Wait()
		g := got(t, p)
		if sent := g.Term().Sent; sent != asked {
			t.Errorf("trust counts from %v, and the last refusal was asked for at %v", sent, asked)
		}
		free(t, g)
	})
}

func TestGivenKeyBringsAGreaterFencingNumber(t *testing.T) {
	for name, message := range map[string]bool{"with its message": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b := open(t, w, modern.Config{Fence: true})
				holder := try(t, b, "k")
				p := stand(t, b, "k")
				free(t, holder)
				if message {
					synctest.Wait()
				}
				g := got(t, p)
				if fenceOf(g) <= fenceOf(holder)+7 {
					t.Errorf("number %d follows %d", fenceOf(g), fenceOf(holder))
				}
				next, _ := g.(backend.Sharer).Share()
				free(t, next)
				if last := try(t, b, "k"); fenceOf(last) <= fenceOf(g)+7 {
					t.Errorf("number %d follows the block of %d", fenceOf(last), fenceOf(g))
				} else {
					free(t, last)
				}
			})
		})
	}
}

// The waiter's connection for messages was cut when the message was under way.
// Its next try finds its token on the key.
func TestGiftWhoseMessageIsLostIsFoundByATry(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 0)
		gift.wire.Cut()
		synctest.Wait()
		token := gift.token(t)
		g := got(t, gift.first)
		if g.Token() != token || w.Mini.TTL("k") != ttl {
			t.Errorf("%q has the key, which was given to %q", g.Token(), token)
		}
		free(t, g)
		granted(t, gift.second)
	})
}

// A second message, or one that comes after its waiter has found the gift, is
// about a lease that is held.
func TestSecondMessageTakesNoKeyFromItsHolder(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 0)
		g := got(t, gift.first)
		for range 2 {
			gift.tell(t, g.Token())
		}
		if value := gift.token(t); value != g.Token() {
			t.Errorf("the key holds %q", value)
		}
		shared, ok := g.(backend.Sharer).Share()
		if !ok {
			t.Fatal("not shared")
		}
		gift.tell(t, g.Token())
		extend(t, shared)
		free(t, shared)
		gift.tell(t, g.Token()) // later than the release: the second waiter has the key
		granted(t, gift.second)
	})
}

// The waiter gave up at the instant at which it got the key.
func TestGiftToAWaiterThatLeavesGoesOn(t *testing.T) {
	for name, cfg := range forms {
		for when, message := range map[string]bool{"before the message": false, "after it": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *redistest.World) {
					gift := given(t, w, cfg, 0)
					if message {
						synctest.Wait()
					}
					if err := gift.first.Leave(bg); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					g := got(t, gift.second)
					if !g.Term().Given {
						t.Error("the second waiter had to take the key")
					}
					free(t, g)
				})
			})
		}
	}
}

// The process answers the message by giving the key on: its waiter is gone.
func TestGiftToAProcessWithoutTheWaiterGoesOn(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b, wire := on(t, w, cfg)
		other := open(t, w, cfg)
		holder := try(t, other, "k")
		first, second := stand(t, b, "k"), stand(t, other, "k")
		wire.Fault(redistest.Rule{ // its Leave is lost
			When: func(c redistest.Command) bool { return c.Is("EVALSHA") || c.Is("EVAL") },
			Do:   redistest.CutBefore})
		if err := first.Leave(bg); err == nil {
			t.Fatal("left")
		}
		subscribed(t, b, other)
		free(t, holder)
		synctest.Wait()
		g := got(t, second)
		if !g.Term().Given {
			t.Error("the second waiter had to take the key")
		}
		free(t, g)
	})
}

// The key may have the token of an attempt without an answer, or may get it
// later. So nothing is given to it: its place is used up, and the process hands
// over what it gets by that name.
func TestTokenOfAnUnknownTryIsNeverGiven(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b, wire := on(t, w, cfg)
		other := open(t, w, cfg)
		holder := try(t, other, "k")
		first := stand(t, b, "k")
		wire.Fault(redistest.Rule{When: writes, Do: redistest.Silence})
		_, err := first.Try(bg, ttl)
		undone := unsure(t, err)
		if _, err := first.Try(bg, ttl); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("the place was used again: %v", err)
		}
		second := stand(t, other, "k")
		free(t, holder) // to the first, by a message
		synctest.Wait()
		g := got(t, second)
		_ = undone.Release(bg)
		if value, _ := w.Mini.Get("k"); value != g.Token() {
			t.Errorf("the key holds %q", value)
		}
		free(t, g)
	})
}

// subscribed makes the process of b listen again.
func subscribed(t *testing.T, b, other *modern.Backend) {
	t.Helper()
	holder := try(t, other, "other")
	if err := stand(t, b, "other").Leave(bg); err != nil {
		t.Error(err)
	}
	free(t, holder)
}

// Its process does not run, and its connections stay open.
func TestFrozenHeadCostsOneTTL(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 0)
		w.Pass(ttl - time.Millisecond)
		held(t, gift.second)
		w.Pass(time.Millisecond)
		g := got(t, gift.second)
		for range 4 { // it is frozen for three TTLs in all
			w.Pass(ttl / 2)
			extend(t, g)
		}
		// It runs again, and believes nothing that is over.
		late := got2(t, gift.first)
		if _, err := late.Extend(bg, ttl); !errors.Is(err, lock.ErrLost) {
			t.Errorf("the late waiter renewed: %v", err)
		}
		if err := late.Release(bg); !errors.Is(err, lock.ErrLost) {
			t.Errorf("the late waiter released: %v", err)
		}
		if value := gift.token(t); value != g.Token() {
			t.Errorf("the key holds %q", value)
		}
		free(t, g)
	})
}

// got2 returns the grant of a place whose message has come, but is over.
func got2(t *testing.T, p backend.Place) backend.Grant {
	t.Helper()
	g := got(t, p)
	if term := g.Term(); !term.Given || backend.ReadClock(bg).Elapsed-term.Sent.Elapsed < term.TTL {
		t.Errorf("a gift that is over is trusted by %+v", term)
	}
	return g
}

// The server restarts empty, before or after the message, or its clock is set
// forward. The holder learns at its next renewal that another client may
// have the key, as of any other key.
func TestForgottenGiftIsLostAtItsRenewal(t *testing.T) {
	for name, forget := range map[string]func(two){
		"flushed before the message": func(g two) { g.w.Mini.FlushAll() },
		"flushed after it":           func(g two) { synctest.Wait(); g.w.Mini.FlushAll() },
		"a clock set forward":        func(g two) { synctest.Wait(); g.w.StepServer(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				gift := given(t, w, modern.Config{}, 0)
				forget(gift)
				synctest.Wait()
				g := got(t, gift.first)
				next := try(t, gift.holders, "k")
				if _, err := g.Extend(bg, ttl); !errors.Is(err, lock.ErrLost) {
					t.Errorf("renewed: %v", err)
				}
				if value := gift.token(t); value != next.Token() {
					t.Errorf("the key holds %q", value)
				}
				if err := g.Release(bg); !errors.Is(err, lock.ErrLost) {
					t.Errorf("released: %v", err)
				}
				free(t, next)
				_ = gift.second.Leave(bg)
				w.Mini.Del("k")
			})
		})
	}
}

// A clock that is set back only makes the key last longer.
func TestGiftOutlivesAServersClockThatIsSetBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gift := given(t, w, modern.Config{}, 0)
		synctest.Wait()
		w.StepServer(-time.Hour)
		g := got(t, gift.first)
		held(t, gift.second)
		extend(t, g)
		free(t, g)
		granted(t, gift.second)
	})
}

// The waiter cannot be called there: it polls, and so may take a free key.
func TestKeyIsFreeWhereTheHeadCannotBeCalled(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		deaf, wire := on(t, w, cfg)
		wire.Fault(redistest.Rule{
			Command: "SUBSCRIBE", Times: -1, Do: redistest.Answer(redistest.NoPerm)})
		b := open(t, w, cfg)
		holder := try(t, b, "k")
		first, second := stand(t, deaf, "k"), stand(t, b, "k")
		free(t, holder)
		if w.Mini.Exists("k") {
			t.Error("the key was given")
		}
		g := got(t, first)
		held(t, second)
		free(t, g)
		granted(t, second)
	})
}

// A message that names a place is only a reason to ask.
func TestStaleCallOnlyMakesAPlaceAsk(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fair: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		places, err := w.Mini.ZMembers("gsl:queue::{k}")
		if err != nil || len(places) != 1 {
			t.Fatal(places, err)
		}
		f := strings.SplitN(places[0], " ", 4)
		wire.Forget()
		for _, said := range []string{
			fmt.Sprintf("0 %d %sk", len(f[3]), f[3]), "", "x", "1", "1 9 token", "-1 22 " + f[3] + "k",
			"1 x " + f[3],
		} {
			if w.Mini.Publish("gsl:turn:"+f[0], said) != 1 {
				t.Fatal("the message has no subscriber")
			}
		}
		synctest.Wait()
		held(t, p)
		free(t, holder)
		granted(t, p)
	})
}

func TestReleaseWorksWithAnUnreadableCounter(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fair: true, Fence: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		w.Mini.Set("gsl:fence::{m5p}", "no number")
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

func TestForcedReleaseGivesToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		if deleted, err := b.ForceRelease(bg, "k", holder.Token()); !deleted || err != nil {
			t.Fatal(deleted, err)
		}
		synctest.Wait()
		g := got(t, p)
		if !g.Term().Given {
			t.Error("the waiter had to take the key")
		}
		free(t, g)
	})
}

func TestRefusalNamesTheKeysEndToTheMicrosecond(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		w.Mini.Set("k", "somebody else's token")
		w.Mini.SetTTL("k", 5*time.Second)
		w.Pass(300 * time.Microsecond)
		p := enter(t, b, "k")
		_, err := p.Try(bg, ttl)
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
		if _, err := b.Contract().Try(bg, "k", ttl); err == nil ||
			!strings.Contains(err.Error(), "Config.Token") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// A client of another library may take a key without a value.
func TestKeyWithAnEmptyValueIsNotGiven(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b := open(t, w, cfg)
		w.Mini.Set("k", "")
		first, second := stand(t, b, "k"), stand(t, b, "k")
		held(t, second)
		held(t, first)
		if value, err := w.Mini.Get("k"); value != "" || err != nil {
			t.Errorf("the key holds %q, %v", value, err)
		}
		w.Mini.Del("k")
		granted(t, first)
		granted(t, second)
	})
}

// The server knows only the TTL with which the place was entered.
func TestGiftIsNotTrustedForLongerThanItWasWritten(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		holder := try(t, b, "k")
		p := enter(t, b, "k")
		for _, d := range []time.Duration{ttl / 2, ttl} {
			if _, err := p.Try(bg, d); !errors.Is(err, lock.ErrHeld) {
				t.Fatal(err)
			}
		}
		free(t, holder)
		synctest.Wait()
		g := got(t, p)
		if left := w.Mini.TTL("k"); g.Term().TTL != left {
			t.Errorf("trusted for %v, and the server has %v", g.Term().TTL, left)
		}
		free(t, g)
	})
}

// The server executed the first try, and a proxy said that it failed. So there
// is no refusal from which trust could count.
func TestGiftBeforeAnyRefusalIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{Fair: true})
		holder := try(t, b, "k")
		p := enter(t, b, "k")
		var sent redistest.Command
		wire.Fault(redistest.Rule{When: func(c redistest.Command) bool { sent = c; return writes(c) },
			Do: redistest.Answer("ERR upstream failure")})
		if _, err := p.Try(bg, ttl); err == nil || errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		conn := w.Pool().Get()
		defer conn.Close()
		if _, err := conn.Do(sent[0], redis.Args{}.AddFlat([]string(sent[1:]))...); err != nil {
			t.Fatal(err)
		}
		free(t, holder)
		synctest.Wait()
		w.Pass(time.Second)
		asked := backend.ReadClock(bg)
		g := got(t, p)
		if term := g.Term(); term.Sent != asked || term.Given || w.Mini.TTL("k") != ttl {
			t.Errorf("%+v, asked at %v; the server has %v", term, asked, w.Mini.TTL("k"))
		}
		free(t, g)
	})
}

// The key is being given up anyway. A command of its own might come first, and
// the release would find no token.
func TestMessageDuringAReleaseDoesNothing(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 0)
		g := got(t, gift.first)
		gift.wire.Forget()
		gate := redistest.NewGate()
		scripts := func(c redistest.Command) bool { return c.Is("EVALSHA") || c.Is("EVAL") }
		gift.wire.Fault(redistest.Rule{When: scripts, Do: redistest.HoldRequest(gate)})
		released := make(chan error, 1)
		go func() { released <- g.Release(bg) }()
		<-gate.Reached()
		gift.tell(t, g.Token())
		gate.Open()
		if err := <-released; err != nil {
			t.Error(err)
		}
		if n := gift.wire.Count("EVALSHA"); n != 1 {
			t.Errorf("%d scripts", n)
		}
		granted(t, gift.second)
	})
}

// A lease that the server has lost is nobody's any more, nor is its place.
func TestLostGiftLeavesNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gift := given(t, w, modern.Config{}, 0)
		g := got(t, gift.first)
		w.Mini.Del("k")
		if _, err := g.Extend(bg, ttl); !errors.Is(err, lock.ErrLost) {
			t.Fatal(err)
		}
		w.Mini.Set("k", g.Token())
		gift.tell(t, g.Token())
		granted(t, gift.second)
	})
}

// Several processes do not run, and their connections stay open: the first
// costs one TTL, each of the others the two seconds that it has to answer a
// call.
func TestFrozenWaitersCostTheFairQueueLittle(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		cfg := modern.Config{Fair: true}
		holder := try(t, open(t, w, cfg), "k")
		for range 3 {
			stand(t, open(t, w, cfg), "k")
		}
		last := stand(t, open(t, w, cfg), "k")
		free(t, holder)
		w.Pass(ttl)
		for range 2 {
			held(t, last)
			w.Pass(2*time.Second + time.Millisecond)
		}
		granted(t, last)
	})
}

// A place whose waiter was not seen for 15 seconds counts no more, wherever it
// is in the queue: no release gives it the key.
func TestPlacesOfTheDeadAreNotGivenTheKey(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		b, frozen := open(t, w, cfg), open(t, w, cfg)
		holder := try(t, b, "k")
		var live []backend.Place
		for range 2 {
			live = append(live, stand(t, open(t, w, cfg), "k"))
			stand(t, frozen, "k")
		}
		for range 4 {
			w.Pass(5 * time.Second)
			extend(t, holder)
			for _, p := range live {
				held(t, p)
			}
		}
		free(t, holder)
		for _, p := range live {
			granted(t, p)
		}
	})
}

// The holder's own place, left in the queue by a try whose answer was wrong, is
// nobody's: no release gives the key to it.
func TestReleaseDoesNotGiveTheKeyToItsHolder(t *testing.T) {
	inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
		gift := given(t, w, cfg, 0)
		synctest.Wait()
		g := got(t, gift.first)
		numbers := 0
		if cfg.Fence {
			numbers = 8
		}
		w.Mini.ZAdd("gsl:queue::{k}", 1, fmt.Sprintf("%s 10000 %d %s", gift.process, numbers, g.Token()))
		gift.wire.Forget()
		free(t, g)
		synctest.Wait()
		if n := gift.wire.Count("EVALSHA"); n != 1 {
			t.Errorf("%d scripts: the holder got its key again", n)
		}
		granted(t, gift.second)
	})
}

// The waiter that was passed over wanted fewer numbers.
func TestGiftDrawsAsManyNumbersAsItsWaiterWants(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fence: true})
		holder := try(t, b, "k")
		p := stand(t, b, "k")
		w.Mini.ZAdd("gsl:queue::{k}", 1, "ended 10000 1 token")
		free(t, holder)
		synctest.Wait()
		g := got(t, p)
		free(t, g)
		next := try(t, b, "k")
		if fenceOf(next) <= fenceOf(g)+7 {
			t.Errorf("number %d follows the block of %d", fenceOf(next), fenceOf(g))
		}
		free(t, next)
	})
}

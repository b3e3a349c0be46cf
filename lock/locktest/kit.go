// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// World is what the kit needs: an empty store, and time that can be made to
// pass.
type World struct {
	// Backend returns a backend on the same store, as another process would
	// have. If its contract has a Close method, the kit calls it at the end.
	Backend func() backend.Store

	// Pass lets d pass, for the store and for every clock of the world.
	Pass func(d time.Duration)

	// Clock goes into lock.Config. Nil: the machine's clock.
	Clock lock.Clock

	// TTL is the TTL that the kit asks for. FreeAfter is how long after it an
	// abandoned key becomes free, since the backend may wait beyond the TTL.
	TTL, FreeAfter time.Duration

	// RealTime says that time also passes by itself, on a machine that may be
	// busy. Tests that let no time pass then use 16 times the TTL. The others
	// look at a key half a TTL before its end, not a tenth. Such a test may
	// fail because the machine was busy. If more than a quarter of a TTL went
	// by besides what Pass let pass, it runs again in another world. The TTL
	// then is twice as long, as long as that is within a minute.
	RealTime bool

	// Seize gives the key to another client, against all rules.
	Seize func(key string)

	// Cut is needed for [Traits].Session. From now on the store still carries
	// out what b asks to take a key, but the reply is lost. What b asks to give
	// a key back is lost altogether. Signs of life of b's session, and looks at
	// keys, get through as before. heal ends that.
	Cut func(b backend.Store) (heal func())
}

// Traits are promises that a backend does not keep, and abilities that its
// store lacks.
type Traits struct {
	NotRenewable bool // Extend fails with ErrNotRenewable
	LateRelease  bool // a release after the loss frees the key of the next holder
	BlindRelease bool // a release within the TTL does not notice that the key was seized
	SameTokens   bool // two grants of one instant have the same token
	CannotWake   bool // implements Waker, but its store cannot report changes
	Barging      bool // its queue wakes in order, but any waiter may take a free key

	// Session says that grants live as long as a session with the store, which
	// one Extend keeps alive for all of them. So the Term of a new grant may
	// count from an earlier sign of life. And a key whose release was not
	// confirmed does not free itself: the backend must give it back later.
	Session bool
}

// Run checks a backend. It calls world for each test, with that test's T.
func Run(t *testing.T, traits Traits, world func(t *testing.T) *World) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.check(t, traits, world) })
	}
}

// RunInBubbles is Run with each test in a synctest bubble of its own. There
// Pass is a sleep in virtual time and costs nothing.
func RunInBubbles(t *testing.T, traits Traits, world func(t *testing.T) *World) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.check(t, traits, world) })
		})
	}
}

type test struct {
	name string
	run  func(*kit)
}

var tests = []test{
	{"OneGrantAmongMany", (*kit).oneGrantAmongMany},
	{"TryReportsAHeldKeyAtOnce", (*kit).tryReportsAHeldKeyAtOnce},
	{"ReleasedKeyIsFree", (*kit).releasedKeyIsFree},
	{"AbandonedKeyFreesItself", (*kit).abandonedKeyFreesItself},
	{"TokensDiffer", (*kit).tokensDiffer},
	{"TermCountsFromBeforeTheWrite", (*kit).termCountsFromBeforeTheWrite},
	{"ExtendKeepsTheKey", (*kit).extendKeepsTheKey},
	{"SeizedGrantIsLost", (*kit).seizedGrantIsLost},
	{"LateReleaseSparesTheNextHolder", (*kit).lateReleaseSparesTheNextHolder},
	{"SecondReleaseIsLost", (*kit).secondReleaseIsLost},
	{"DeadContextTakesNothing", (*kit).deadContextTakesNothing},
	{"TryRefusesImpossibleArguments", (*kit).tryRefusesImpossibleArguments},
	{"BatchReportsEachGrantsOutcome", (*kit).batchReportsEachGrantsOutcome},
	{"KeptKeyStaysTaken", (*kit).keptKeyStaysTaken},
	{"QueueServesInOrder", (*kit).queueServesInOrder},
	{"LeavingFreesThePlace", (*kit).leavingFreesThePlace},
	{"ReleaseWakes", (*kit).releaseWakes},
	{"WatchReportsATouch", (*kit).watchReportsATouch},
	{"WatchOutlivesARenewal", (*kit).watchOutlivesARenewal},
	{"WatchOfALostGrantReturnsErrLost", (*kit).watchOfALostGrantReturnsErrLost},
	{"WatchReportsToTheRightHolder", (*kit).watchReportsToTheRightHolder},
	{"FencesIncrease", (*kit).fencesIncrease},
	{"CutSessionLeavesNothing", (*kit).cutSessionLeavesNothing},
	{"ClientsLoseNoUpdate", (*kit).clientsLoseNoUpdate},
}

type kit struct {
	*testing.T
	*World
	traits Traits
	key    string

	attempt
}

func (k *kit) ctx() context.Context { return context.Background() }

func (k *kit) backend() backend.Backend { return k.closing(k.Backend()) }

// closing returns the contract of s, which is closed at the end.
func (k *kit) closing(s backend.Store) backend.Backend {
	b := s.Contract()
	if c, ok := b.(interface{ Close() error }); ok {
		k.Cleanup(func() {
			if err := c.Close(); err != nil {
				k.T.Errorf("Close: %v", err)
			}
		})
	}
	return b
}

func (k *kit) take(b backend.Backend) backend.Grant {
	k.Helper()
	g, err := b.Try(k.ctx(), k.key, k.TTL)
	if err != nil {
		k.Fatalf("Try of a free key: %v", err)
	}
	return g
}

// late is how far into a TTL the kit still expects the key to be held.
func (k *kit) late() time.Duration {
	if k.RealTime {
		return k.TTL / 2
	}
	return k.TTL - k.TTL/10
}

func (k *kit) mustBeHeld(b backend.Backend) {
	k.Helper()
	g, err := b.Try(k.ctx(), k.key, k.TTL)
	if err == nil {
		k.Fatal("a key that is held was granted again")
	}
	if !errors.Is(err, backend.ErrHeld) {
		k.Fatalf("Try of a held key: %v; it should wrap ErrHeld", err)
	}
	if g != nil {
		k.Error("Try returned a grant together with an error")
	}
}

func (k *kit) free(g backend.Grant) {
	k.Helper()
	if err := g.Release(k.ctx()); err != nil {
		k.Errorf("Release: %v", err)
	}
}

func (k *kit) wantLost(what string, err error) {
	k.Helper()
	if !errors.Is(err, backend.ErrLost) {
		k.Errorf("%s: %v; it should wrap ErrLost", what, err)
	}
}

func (k *kit) oneGrantAmongMany() {
	var mu sync.Mutex
	var granted []backend.Grant
	var wg sync.WaitGroup
	for range 4 {
		b := k.backend()
		for range 8 {
			wg.Go(func() {
				g, err := b.Try(k.ctx(), k.key, k.TTL)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					granted = append(granted, g)
				case !errors.Is(err, backend.ErrHeld):
					k.Errorf("Try: %v", err)
				}
			})
		}
	}
	wg.Wait()
	if len(granted) != 1 {
		k.Fatalf("%d of 32 attempts got the key", len(granted))
	}
	k.free(granted[0])
}

func (k *kit) tryReportsAHeldKeyAtOnce() {
	b := k.backend()
	g := k.take(b)
	k.mustBeHeld(b)
	k.mustBeHeld(k.backend())
	var held *backend.HeldError
	if _, err := b.Try(k.ctx(), k.key, k.TTL); errors.As(err, &held) && held.Key != k.key {
		k.Errorf("HeldError names key %q, not %q", held.Key, k.key)
	}
	k.free(g)
}

func (k *kit) releasedKeyIsFree() {
	a, b := k.backend(), k.backend()
	for range 3 {
		k.free(k.take(a))
		k.free(k.take(b))
	}
}

func (k *kit) abandonedKeyFreesItself() {
	a, b := k.backend(), k.backend()
	k.take(a)
	k.Pass(k.late())
	k.mustBeHeld(b)
	k.Pass(k.TTL - k.late() + k.FreeAfter)
	k.free(k.take(b))
}

func (k *kit) tokensDiffer() {
	b := k.backend()
	one := k.take(b)
	k.free(one)
	two := k.take(b)
	k.free(two)
	if same := one.Token() == two.Token(); same && !k.traits.SameTokens {
		k.Errorf("two grants have the token %q", one.Token())
	}
	if one.Token() == "" {
		k.Error("a grant without a token")
	}
	if one.Token() != two.Token() && k.traits.SameTokens {
		// Only grants of the same instant must have the same token.
		if one.Term().Sent == two.Term().Sent {
			k.Error("SameTokens is declared, but two grants of one instant differ")
		}
	}
}

func (k *kit) termCountsFromBeforeTheWrite() {
	b := k.backend()
	before := backend.ReadClock(k.ctx())
	g := k.take(b)
	after := backend.ReadClock(k.ctx())
	term := g.Term()
	earliest := before.Elapsed
	if k.traits.Session {
		earliest -= k.TTL // the last sign of life, which must still count
	}
	if term.Sent.Elapsed < earliest || term.Sent.Elapsed > after.Elapsed {
		k.Errorf("sent at %v, called between %v and %v", term.Sent.Elapsed, before.Elapsed, after.Elapsed)
	}
	if term.TTL < 0 || term.TTL > k.TTL {
		k.Errorf("granted for %v, asked for %v", term.TTL, k.TTL)
	}
	if g.Term() != term {
		k.Error("Term changed")
	}
	k.free(g)
}

func (k *kit) extendKeepsTheKey() {
	a, b := k.backend(), k.backend()
	g := k.take(a)
	if k.traits.NotRenewable {
		if _, err := g.Extend(k.ctx(), k.TTL); !errors.Is(err, backend.ErrNotRenewable) {
			k.Errorf("NotRenewable is declared, but Extend returned %v", err)
		}
		k.free(g)
		return
	}
	for range 3 {
		k.Pass(k.TTL / 2)
		term, err := g.Extend(k.ctx(), k.TTL)
		if err != nil {
			k.Fatalf("Extend: %v", err)
		}
		if term.TTL < 0 || term.TTL > k.TTL {
			k.Errorf("extended for %v, asked for %v", term.TTL, k.TTL)
		}
		k.mustBeHeld(b)
	}
	k.free(g)
	k.free(k.take(b))
}

func (k *kit) seizedGrantIsLost() {
	b := k.backend()
	g := k.take(b)
	k.Seize(k.key)
	if !k.traits.NotRenewable {
		_, err := g.Extend(k.ctx(), k.TTL)
		k.wantLost("Extend of a seized key", err)
		_, err = g.Extend(k.ctx(), k.TTL)
		k.wantLost("a second Extend", err)
	}
	k.mustBeHeld(b)
	err := g.Release(k.ctx())
	if !k.traits.BlindRelease {
		k.wantLost("Release of a seized key", err)
	} else if err != nil {
		k.Errorf("BlindRelease is declared, but Release of a seized key returned %v", err)
	}
}

func (k *kit) lateReleaseSparesTheNextHolder() {
	a, b, c := k.backend(), k.backend(), k.backend()
	late := k.take(a)
	k.Pass(k.TTL + k.FreeAfter)
	next := k.take(b)
	k.wantLost("a late Release", late.Release(k.ctx()))
	if k.traits.LateRelease {
		g, err := c.Try(k.ctx(), k.key, k.TTL)
		if err != nil {
			k.Fatalf("LateRelease is declared, but the next holder kept the key: %v", err)
		}
		k.free(g)
		return
	}
	k.mustBeHeld(c)
	k.free(next)
}

func (k *kit) secondReleaseIsLost() {
	b := k.backend()
	g := k.take(b)
	k.free(g)
	k.wantLost("a second Release", g.Release(k.ctx()))
}

func (k *kit) deadContextTakesNothing() {
	b := k.backend()
	ctx, cancel := context.WithCancel(k.ctx())
	cancel()
	if g, err := b.Try(ctx, k.key, k.TTL); err == nil || g != nil {
		k.Errorf("Try with a dead context: grant %v, error %v", g, err)
	}
	k.free(k.take(b))
}

func (k *kit) tryRefusesImpossibleArguments() {
	b := k.backend()
	for _, w := range []struct {
		what string
		key  string
		ttl  time.Duration
	}{
		{"an empty key", "", k.TTL},
		{"no TTL", k.key, 0},
		{"a negative TTL", k.key, -time.Second},
		{"a TTL below what the store can express", k.key, time.Nanosecond},
		{"a TTL of 292 years", k.key, 1<<63 - 1},
	} {
		g, err := b.Try(k.ctx(), w.key, w.ttl)
		if err == nil || errors.Is(err, backend.ErrHeld) || g != nil {
			k.Errorf("%s: grant %v, error %v", w.what, g, err)
		} else if strings.TrimSpace(err.Error()) == "" {
			k.Errorf("%s: an empty error", w.what)
		}
	}
	k.free(k.take(b))
}

func (k *kit) fencesIncrease() {
	a, b := k.backend(), k.backend()
	var last int64
	for i := range 20 {
		g := k.take([]backend.Backend{a, b}[i%2])
		f, ok := g.(backend.Fenced)
		if !ok || f.Fence() == 0 {
			k.free(g)
			return
		}
		if f.Fence() <= last {
			k.Errorf("fence %d after %d", f.Fence(), last)
		}
		last = f.Fence()
		k.free(g)
	}
}

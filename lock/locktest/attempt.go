// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// passing are the tests in which time passes.
var passing = []string{"AbandonedKeyFreesItself", "ExtendKeepsTheKey", "LateReleaseSparesTheNextHolder",
	"BatchReportsEachGrantsOutcome", "KeptKeyStaysTaken", "CutSessionLeavesNothing"}

// unhurried is the factor of the TTL for tests that do not wait for its end.
// Such a long TTL suits any machine.
const unhurried = 16

func (c test) check(t *testing.T, traits Traits, world func(t *testing.T) *World) {
	for longer := time.Duration(1); ; longer *= 2 {
		k := &kit{T: t, World: world(t), traits: traits, key: "locktest:" + c.name}
		k.hurried = k.RealTime && slices.Contains(passing, c.name)
		switch {
		case k.hurried:
			k.TTL *= longer
			k.last = 2*k.TTL > time.Minute
		case k.RealTime:
			k.TTL *= unhurried
		}
		if k.decided(c.run) {
			return
		}
		t.Logf("the machine was too slow for a TTL of %v; trying again with twice the TTL", k.TTL)
	}
}

// attempt is the progress of a test in which time passes by itself.
type attempt struct {
	hurried bool          // the test depends on how busy the machine is
	last    bool          // failures are not excused any more
	began   time.Duration // begin of the run, by the machine's elapsed time
	passed  time.Duration // time that Pass let pass
	vain    bool          // a failure was excused
}

// errInVain ends a run whose failure says nothing about the backend.
var errInVain = errors.New("locktest: the machine was too slow")

// decided runs the test and reports whether its outcome says anything about the
// backend.
func (k *kit) decided(run func(*kit)) bool {
	defer func() {
		if why := recover(); why != nil && why != errInVain {
			panic(why)
		}
	}()
	k.began = backend.ReadClock(context.Background()).Elapsed
	run(k)
	return !k.vain
}

// excused reports whether a failure now may be the machine's fault. That is so
// if more than a quarter of a TTL went by besides what Pass let pass: the tests
// look at a held key a quarter of a TTL before its end or earlier.
func (k *kit) excused() bool {
	beside := backend.ReadClock(context.Background()).Elapsed - k.began - k.passed
	if !k.hurried || k.last || beside <= k.TTL/4 {
		return false
	}
	k.vain = true
	return true
}

// Pass lets d pass in the world, and adds it up.
func (k *kit) Pass(d time.Duration) {
	k.Helper()
	if k.RealTime && !k.hurried {
		k.T.Fatalf("locktest: %s lets time pass but is not listed in passing", k.Name())
	}
	k.passed += d
	k.World.Pass(d)
}

// Error fails the test, unless the failure is excused.
func (k *kit) Error(words ...any) {
	k.Helper()
	if !k.excused() {
		k.T.Error(words...)
	}
}

// Errorf is Error.
func (k *kit) Errorf(format string, words ...any) {
	k.Helper()
	if !k.excused() {
		k.T.Errorf(format, words...)
	}
}

// Fatal ends the run: as failed, or, if that is excused, as one that says
// nothing.
func (k *kit) Fatal(words ...any) {
	k.Helper()
	if k.excused() {
		panic(errInVain)
	}
	k.T.Fatal(words...)
}

// Fatalf is Fatal.
func (k *kit) Fatalf(format string, words ...any) {
	k.Helper()
	if k.excused() {
		panic(errInVain)
	}
	k.T.Fatalf(format, words...)
}

package locktest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// passing are the tests that let time pass.
var passing = []string{"AbandonedKeyFreesItself", "ExtendKeepsTheKey", "LateReleaseSparesTheNextHolder", "BatchTellsEachGrantItsOwn"}

// unhurried is how many times the TTL where nothing waits for its end: then no machine is too slow.
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
		t.Logf("the machine was too slow for a TTL of %v: again with twice as much", k.TTL)
	}
}

// attempt is what is known of a test's progress where time passes by itself.
type attempt struct {
	hurried bool          // the machine may take time for something else that the test counts on
	last    bool          // nothing is excused any more
	began   time.Duration // by the machine's elapsed time
	passed  time.Duration // by Pass
	vain    bool          // a failure was excused
}

// errInVain ends a test whose failure says nothing.
var errInVain = errors.New("locktest: the machine was too slow")

// decided runs the test and reports whether its outcome says anything about the backend.
func (k *kit) decided(run func(*kit)) bool {
	defer func() {
		if why := recover(); why != nil && why != errInVain {
			panic(why)
		}
	}()
	k.began = lock.Mark(context.Background()).Elapsed
	run(k)
	return !k.vain
}

// excused reports whether a failure of this moment may be the machine's. What is expected of a key that
// lives still is expected a quarter of a TTL before its end or earlier.
func (k *kit) excused() bool {
	beside := lock.Mark(context.Background()).Elapsed - k.began - k.passed
	if !k.hurried || k.last || beside <= k.TTL/4 {
		return false
	}
	k.vain = true
	return true
}

// Pass lets time pass in the world, and counts it.
func (k *kit) Pass(d time.Duration) {
	k.Helper()
	if k.RealTime && !k.hurried {
		k.T.Fatalf("locktest: %s is not among those that let time pass", k.Name())
	}
	k.passed += d
	k.World.Pass(d)
}

// Error fails the test, if it is not excused.
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

// Fatal ends the test as failed, or, if it is excused, as one that says nothing.
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

package quorum_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/quorum"
)

// TestNewRefusesMembersThatMakeNoQuorum says why in one sentence each.
func TestNewRefusesMembersThatMakeNoQuorum(t *testing.T) {
	for names, want := range map[string]string{
		"":          "at least three",
		"a":         "at least three",
		"a b":       "at least three",
		"a b c d":   "no more servers may be away than with 3 members",
		"a b a":     "a is named twice",
		"a b c d a": "a is named twice",
	} {
		_, err := quorum.New(join(newServers(lock.Machine, strings.Fields(names)...)), quorum.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("members %q: %v; it should say %q", names, err, want)
		}
	}
	if _, err := quorum.New(join(newServers(lock.Machine, "a", "b", "")), quorum.Config{}); err == nil {
		t.Error("a member without a name")
	}
	if _, err := quorum.New(make([]quorum.Member, 3), quorum.Config{}); err == nil {
		t.Error("nil members")
	}
	if _, err := quorum.New(join(newServers(lock.Machine, "a", "b", "c")), quorum.Config{
		GreatestTTL: -1}); err == nil {
		t.Error("a negative GreatestTTL")
	}
}

// TestTTLBeyondTheGreatestIsRefused: a server that restarted would vote too
// early.
func TestTTLBeyondTheGreatestIsRefused(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{GreatestTTL: time.Second})
		if _, err := lock.New(b, lock.Config{TTL: 2 * time.Second}); err == nil ||
			!strings.Contains(err.Error(), "GreatestTTL") {
			w.Errorf("lock.New: %v", err)
		}
		if err := w.refused(b); err == nil || !strings.Contains(err.Error(), "GreatestTTL") {
			w.Errorf("Try: %v", err)
		}
		g, err := b.Contract().Try(bg, "k", time.Second)
		if err != nil {
			w.Fatal(err)
		}
		if _, err := g.Extend(bg, 2*time.Second); err == nil || errors.Is(err, lock.ErrLost) {
			w.Errorf("Extend: %v", err)
		}
		w.free(g)
	})
}

// TestRestartedMemberDoesNotVote is the counterexample to restarts without
// persistence.
//
//	first   xx-   x--   x--   c was away; b restarted empty
//	server  abc   abc   abc
//	second        ---   -??   b and c would be a majority
func TestRestartedMemberDoesNotVote(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("c").fail("try", errAway, false)
		b := w.open(quorum.Config{})
		g := w.take(b)
		w.at("c").fail("try", nil, false)
		w.at("b").restart(true)
		other := w.open(quorum.Config{})
		if err := w.refused(other); !errors.Is(err, lock.ErrHeld) {
			w.Errorf("refused with %v", err)
		}
		w.want("beside the restarted member", "x--", g.Token())
		w.lost(g) // one vote of two: the holder stops
		time.Sleep(30*time.Second + 2*time.Second)
		w.free(w.take(other))
	})
}

// TestRestartedMembersSayWhenTheyVote: the error has the instant.
func TestRestartedMembersSayWhenTheyVote(t *testing.T) {
	bubble(t, "a b c d e", func(w *world) {
		b := w.open(quorum.Config{GreatestTTL: 10 * time.Second})
		for i, s := range w.servers {
			if i > 1 {
				s.restart(true)
				time.Sleep(time.Second)
			}
		}
		at := time.Now().Add(-3*time.Second + 12*time.Second) // when c, the first of them, votes
		var short *quorum.ShortError
		if err := w.refused(b); !errors.As(err, &short) || !short.VotesAt.Equal(at) || !short.Passing() {
			w.Fatalf("refused with %v", err)
		}
		if !strings.Contains(short.Error(), "enough vote from "+at.UTC().Format("15:04:05Z")+" on") ||
			!strings.Contains(short.Error(), "2 of 5 members vote, and a lock needs 3") {
			w.Errorf("the error: %v", short)
		}
		if survey := b.Check(bg); !errors.As(survey.Err(), &short) || !short.VotesAt.Equal(at) {
			w.Errorf("Check: %v", survey.Err())
		}
		time.Sleep(time.Until(at))
		w.free(w.take(b))
	})
}

// TestRefusedServersHaveNoVote: the others are enough, or the trouble does not
// pass.
func TestRefusedServersHaveNoVote(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		w.at("a").refused = unfit{"it has replicas"}
		g := w.take(b)
		w.want("without a", "-xx", g.Token())
		w.free(g)
		survey := b.Check(bg)
		if !survey.Members[0].Refused || survey.Err() == nil ||
			!strings.Contains(survey.Err().Error(), "a: it has replicas") {
			w.Errorf("Check: %+v, %v", survey, survey.Err())
		}
		w.at("b").refused = unfit{"it may evict keys"}
		var short *quorum.ShortError
		if err := w.refused(b); !errors.As(err, &short) || short.Passing() || !short.VotesAt.IsZero() {
			w.Errorf("refused with %v", err)
		}
	})
}

// TestOneServerHasOneVote: two names lead to it.
func TestOneServerHasOneVote(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		w.at("a").id, w.at("b").id = "run-7", "run-7"
		b := w.open(quorum.Config{})
		g := w.take(b)
		if n := w.at("a").asked("try") + w.at("b").asked("try"); n != 1 {
			w.Errorf("the server was asked for %d votes", n)
		}
		w.free(g)
		err := b.Check(bg).Err()
		if err == nil || !strings.Contains(err.Error(), "are the same server (run id run-7)") {
			w.Errorf("Check: %v", err)
		}
		w.at("b").id = "" // another server answers there now
		if err := b.Check(bg).Err(); err != nil {
			w.Errorf("Check: %v", err)
		}
		w.free(w.take(b))
	})
}

// TestCheckWarnsOfVersionsAndOfWhoIsAway, and finds no error in either.
func TestCheckWarnsOfVersionsAndOfWhoIsAway(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		w.at("a").version = "6.2.0"
		w.at("c").fail("ready", errAway, false)
		survey := b.Check(bg)
		if err := survey.Err(); err != nil {
			w.Errorf("Check: %v", err)
		}
		want := []string{"c is away: connection refused",
			"the members run different versions: a: 6.2.0, b: 7.0.0"}
		if !slices.Equal(survey.Warnings, want) {
			w.Errorf("warnings %q, want %q", survey.Warnings, want)
		}
		g := w.take(b)
		w.want("without c", "xx-", g.Token())
		w.free(g)
	})
}

// TestTooFewAnswersAreNoHolder: the trouble is named, and passes.
func TestTooFewAnswersAreNoHolder(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		w.at("a").fail("try", errAway, false)
		w.at("b").fail("ready", errAway, false)
		var short *quorum.ShortError
		if err := w.refused(b); !errors.As(err, &short) || !short.Passing() ||
			!strings.Contains(err.Error(), "b: connection refused") {
			w.Errorf("refused with %v", err)
		}
	})
}

// TestInspectShowsWhatEachMemberHas, and ForceRelease frees all of them.
func TestInspectShowsWhatEachMemberHas(t *testing.T) {
	bubble(t, "a b c", func(w *world) {
		b := w.open(quorum.Config{})
		if info, err := b.Contract().(backend.Inspector).Describe(bg, "k"); err != nil || info.Held != nil {
			w.Errorf("a free key: %+v, %v", info, err)
		}
		g := w.take(b)
		w.at("c").set("k", "other", time.Hour)
		info, err := b.Contract().(backend.Inspector).Describe(bg, "k")
		var held *lock.HeldError
		if err != nil || info.Value != g.Token() || !errors.As(info.Held, &held) || held.Left != ttl {
			w.Errorf("a held key: %+v, %v", info, err)
		}
		votes := info.Detail.(quorum.Info).Votes
		if len(votes) != 3 || votes[2].Member != "c" || votes[2].Info.Value != "other" {
			w.Errorf("votes %+v", votes)
		}
		w.at("b").drop("k")
		if info, _ := b.Contract().(backend.Inspector).Describe(bg, "k"); !strings.Contains(info.Held.Error(),
			"1 of 3 votes") {
			w.Errorf("a split key: %v", info.Held)
		}
		w.at("b").fail("describe", errAway, false)
		w.at("a").fail("describe", errAway, false)
		if _, err := b.Contract().(backend.Inspector).Describe(bg, "k"); err == nil {
			w.Error("two members are away, and the key was described")
		}
		deleted, err := b.Contract().(backend.Inspector).ForceRelease(bg, "k", "other")
		if err != nil || !deleted {
			w.Errorf("ForceRelease: %v, %v", deleted, err)
		}
		w.want("after ForceRelease", "x--", g.Token())
		deleted, err = b.Contract().(backend.Inspector).ForceRelease(bg, "k", "nobody")
		if err != nil || deleted {
			w.Errorf("ForceRelease of another value: %v, %v", deleted, err)
		}
		synctest.Wait()
	})
}

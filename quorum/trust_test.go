package quorum

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// TestTrustEndsWithTheMajoritysLongestTerm is a table of terms: when each was
// sent and how long it lasts.
func TestTrustEndsWithTheMajoritysLongestTerm(t *testing.T) {
	type term struct{ sent, ttl int }
	for _, c := range []struct {
		terms []term
		need  int
		end   int
	}{
		{[]term{{0, 10}, {0, 10}}, 2, 10},
		{[]term{{0, 10}, {3, 10}}, 2, 10},          // the first vote ends the majority
		{[]term{{3, 10}, {0, 10}, {2, 10}}, 2, 12}, // a third vote outlives it
		{[]term{{0, 10}, {0, 4}, {0, 6}}, 2, 6},    // a member granted less
		{[]term{{0, 0}, {1, 0}, {2, 0}}, 2, 11},    // zero: as much as was asked for
		{[]term{{5, 1}, {1, 9}, {0, 9}, {9, 9}}, 3, 9},
	} {
		var terms []backend.Term
		for _, x := range c.terms {
			terms = append(terms, backend.Term{
				Sent: backend.Instant{Elapsed: time.Duration(x.sent) * time.Second},
				TTL:  time.Duration(x.ttl) * time.Second})
		}
		got := trusted(terms, c.need, 10*time.Second)
		if got.TTL == 0 {
			got.TTL = 10 * time.Second
		}
		if end := got.Sent.Elapsed + got.TTL; end != time.Duration(c.end)*time.Second {
			t.Errorf("%v, %d needed: trust ends at %v, want %ds", c.terms, c.need, end, c.end)
		}
	}
}

// TestRankSpreadsKeysOverTheMembers, so that no member is asked first for most
// keys.
func TestRankSpreadsKeysOverTheMembers(t *testing.T) {
	b := &engine{}
	for i, name := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"} {
		b.members = append(b.members, &member{name: name, index: i})
	}
	firsts := map[string]int{}
	for i := range 3000 {
		key := "stock:" + time.Duration(i).String()
		order := b.rank(key)
		firsts[order[0].String()]++
		if again := b.rank(key); again[0] != order[0] || again[1] != order[1] || len(order) != 3 {
			t.Fatalf("%s is ranked differently the second time", key)
		}
	}
	for name, n := range firsts {
		if n < 850 || n > 1150 {
			t.Errorf("%s is first for %d of 3,000 keys", name, n)
		}
	}
}

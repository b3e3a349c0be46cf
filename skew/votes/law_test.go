package votes

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/skew"
)

// The test derives the law again from nothing but sets of members: every set of
// voters, every set of them that ends early, and every set that a second client
// could ask. It knows no formula.
func TestLawIsWhatAllSetsOfVotesAllow(t *testing.T) {
	for members := 1; members <= 7; members++ {
		for votes := range members + 1 {
			if 2*votes <= members {
				continue
			}
			for ended := range votes + 1 {
				some, all := secondCanHold(members, votes, ended)
				v, err := Law{Members: members, Votes: votes, Lost: ended}.Verdict()
				if err != nil {
					t.Fatal(err)
				}
				if v.TwoHold != some || v.TwoHold != all {
					t.Errorf("%d members, %d votes, %d end early: law %v, some sets %v, all sets %v",
						members, votes, ended, v.TwoHold, some, all)
				}
				if v.TwoHold != (ended > v.Survives) || v.From != v.Survives+1 {
					t.Errorf("%d members, %d votes, %d end early: %+v", members, votes, ended, v)
				}
			}
		}
	}
}

// secondCanHold reports whether a second client can get more than half of the
// members, for some and for all choices of the voters and of those that end
// early.
func secondCanHold(members, votes, ended int) (some, all bool) {
	every := uint(1)<<members - 1
	all = true
	for voters := uint(0); voters <= every; voters++ {
		if bits.OnesCount(voters) != votes {
			continue
		}
		for early := uint(0); early <= every; early++ {
			if early&^voters != 0 || bits.OnesCount(early) != ended {
				continue
			}
			can := false
			for second := uint(0); second <= every; second++ {
				taken := voters &^ early
				can = can || 2*bits.OnesCount(second) > members && second&taken == 0
			}
			some, all = some || can, all && can
		}
	}
	return some, all
}

// The three ways in which a vote ends early count alike, except that a restart
// counts only where the member votes at once.
func TestEachWayToEndEarlyCountsOnce(t *testing.T) {
	for _, c := range []struct {
		law   Law
		ended int
		two   bool
	}{
		{Law{Members: 5}, 0, false},
		{Law{Members: 5, Lost: 1, Jumped: 1}, 2, false},
		{Law{Members: 5, Lost: 1, Jumped: 1, Restarted: 1}, 3, true},
		{Law{Members: 5, Lost: 1, Jumped: 1, Restarted: 1, Wait: true}, 2, false},
		{Law{Members: 5, Restarted: 5, Wait: true}, 0, false},
		{Law{Members: 5, Votes: 3, Jumped: 1}, 1, true},
		{Law{Members: 5, Votes: 3, Lost: 5, Jumped: 5}, 3, true},
		{Law{Members: 4, Votes: 3, Lost: 1}, 1, false},
	} {
		v, err := c.law.Verdict()
		if err != nil || v.Ended != c.ended || v.TwoHold != c.two {
			t.Errorf("%+v: %+v, %v", c.law, v, err)
		}
	}
}

// A fourth member makes a bare majority safer by one and lets no more members
// be away.
func TestEvenMemberAddsSafetyAndNoAvailability(t *testing.T) {
	for _, c := range []struct{ members, bare, all, away int }{
		{1, 0, 0, 0}, {2, 1, 1, 0}, {3, 0, 1, 1}, {4, 1, 2, 1}, {5, 0, 2, 2}, {6, 1, 3, 2}, {7, 0, 3, 3},
	} {
		bare, err := Law{Members: c.members, Votes: c.members/2 + 1}.Verdict()
		if err != nil {
			t.Fatal(err)
		}
		all, err := Law{Members: c.members}.Verdict()
		if err != nil || bare.Survives != c.bare || all.Survives != c.all || all.Away != c.away ||
			bare.Away != c.away {
			t.Errorf("%d members: bare %+v, all %+v, %v", c.members, bare, all, err)
		}
	}
}

func TestImpossibleCountsAreNamed(t *testing.T) {
	for _, c := range []struct {
		law         Law
		field, says string
	}{
		{Law{}, "Members", "from 1 to 99"},
		{Law{Members: 100}, "Members", "from 1 to 99"},
		{Law{Members: 5, Votes: 2}, "Votes", "from 3, the majority, to 5"},
		{Law{Members: 5, Votes: 6}, "Votes", "from 3, the majority, to 5"},
		{Law{Members: 5, Lost: 6}, "Lost", "from 0 to 5"},
		{Law{Members: 5, Restarted: -1}, "Restarted", "from 0 to 5"},
		{Law{Members: 5, Jumped: 9, Wait: true}, "Jumped", "from 0 to 5"},
		{Law{Members: 5, Restarted: 9, Wait: true}, "Restarted", "from 0 to 5"},
	} {
		_, err := c.law.Verdict()
		var bad *skew.ParameterError
		if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Bound, c.says) {
			t.Errorf("%+v: %v", c.law, err)
		}
	}
}

// docs/quorum.md has the same figures.
func TestDocumentsTableIsTheLaws(t *testing.T) {
	page, err := os.ReadFile("../../docs/quorum.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## The law\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for members := 1; members <= 7; members++ {
		bare, _ := Law{Members: members, Votes: members/2 + 1}.Verdict()
		all, err := Law{Members: members}.Verdict()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(table, fmt.Sprintf("\n| %d |", members)) {
			continue
		}
		row := fmt.Sprintf("\n| %d | %d | %d | %d | %d |\n", members, all.Majority, all.Away, all.Survives,
			bare.Survives)
		if rows++; !strings.Contains(table, row) {
			t.Errorf("no row %q", row)
		}
	}
	if rows < 6 {
		t.Errorf("only %d rows", rows)
	}
}

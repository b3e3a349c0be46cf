// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// groups of the rules below
const (
	oldOnes = iota
	newOnes
)

func someRules() rules {
	return rules{
		honest: 60 * time.Second,
		told:   30 * time.Second,
	}
}

// span returns a hold, in seconds, in which two units are sold. Its release
// takes until freed. An old client's release deletes whatever value the key
// has.
func span(group int, start, stop, freed float64) *hold {
	s := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	return &hold{
		kind: []kind{oldClient, newClient}[group], asked: s(start), start: s(start),
		stop: s(stop), freed: s(freed),
		deletes: group == oldOnes, units: 2,
	}
}

// keeps returns the hold with a release that deletes nothing.
func keeps(h *hold) *hold {
	h.deletes = false
	return h
}

func show(all []episode) string {
	var b strings.Builder
	for _, e := range all {
		word := "bad"
		if e.cause != "" {
			word = "excused"
		}
		fmt.Fprintf(&b, "%v-%v %s;", e.start.Seconds(), e.end.Seconds(), word)
	}
	return b.String()
}

// episodeCase is what a group of holders did, and the episodes that it makes.
type episodeCase struct {
	name  string
	rules rules
	holds []*hold
	want  string
}

// old and young are spans of an old client and of a getsetlock client, in
// seconds.
func old(start, stop, freed float64) *hold   { return span(oldOnes, start, stop, freed) }
func young(start, stop, freed float64) *hold { return span(newOnes, start, stop, freed) }

func TestEpisodesExcuseOnlyNamedCauses(t *testing.T) {
	sharing := someRules()
	sharing.sharing = true
	free := someRules()
	free.free = "it does not matter"
	for _, c := range []episodeCase{
		{"nobody", someRules(), nil, ""},
		{"one after the other", someRules(), []*hold{old(0, 1, 1.1), young(1, 2, 2.1)}, ""},
		{"of no length", someRules(), []*hold{old(0, 5, 5), young(1, 1, 1)}, ""},
		{"two that should not", someRules(), []*hold{young(1, 3, 3), old(0, 2, 2)}, "1-2 bad;"},
		{"three are one episode", someRules(),
			[]*hold{old(0, 4, 4), old(1, 3, 3), young(2, 5, 5)}, "1-4 bad;"},
		{"two episodes", someRules(), []*hold{old(0, 10, 10), young(1, 2, 2), young(3, 4, 4)},
			"1-2 bad;3-4 bad;"},
		{"exactly as long as is honest", someRules(),
			[]*hold{old(0, 59, 60), young(58, 61, 61)}, "58-59 bad;"},
		{"overrun", someRules(), []*hold{old(0, 70, 70), young(61, 62, 62)}, "61-62 excused;"},
		{"overrun by a release that took long", someRules(),
			[]*hold{old(0, 59, 61), old(60.5, 63, 63), young(61, 62, 62)},
			"61-62 excused;"},
		{"the chain behind an overrun", someRules(),
			[]*hold{old(0, 70, 70), old(65, 75, 75), young(71, 80, 80),
				old(76, 90, 90)},
			"65-70 excused;71-75 excused;76-80 excused;"},
		{"the chain after a release that took long", someRules(),
			[]*hold{old(0, 70, 70), old(65, 75, 77), young(76, 78, 78),
				old(77.5, 79, 79)},
			"65-70 excused;77.5-78 excused;"},
		{"a client that no release explains", someRules(),
			[]*hold{old(0, 70, 70), old(65, 75, 75), young(66, 68, 68)},
			"65-70 bad;"},
		{"a link of a chain that deletes nothing", someRules(),
			[]*hold{old(0, 70, 70), old(65, 75, 75), keeps(old(71, 80, 80)),
				old(81, 90, 90), young(85, 86, 86)},
			"65-70 excused;71-75 excused;85-86 bad;"},
		{"a client between two deletions", someRules(),
			[]*hold{old(0, 70, 70), young(65, 80, 80), old(71, 90, 90),
				young(81, 82, 82)},
			"65-70 excused;71-80 excused;81-82 bad;"},
		{"during an overrun, before its lease is over", someRules(),
			[]*hold{old(0, 70, 70), young(59, 65, 65)}, "59-65 bad;"},
		{"an overrun that was over long before", someRules(),
			[]*hold{old(0, 70, 70), old(80, 90, 90), young(85, 86, 86)},
			"85-86 bad;"},
		{"a new client may not overrun", someRules(),
			[]*hold{young(0, 70, 70), old(61, 62, 62)}, "61-62 bad;"},
		{"two new clients are never excused", someRules(),
			[]*hold{old(0, 70, 70), young(61, 65, 65), young(64, 66, 66)},
			"61-66 bad;"},
		{"a new client stopped in time", someRules(),
			[]*hold{old(0, 70, 70), young(61, 101, 101), old(71, 80, 80)},
			"61-70 excused;71-80 excused;"},
		{"a new client went on after another entered", someRules(),
			[]*hold{old(0, 70, 70), young(61, 101.5, 101.5), old(71, 80, 80)},
			"61-70 excused;71-80 bad;"},
		{"no bound, no overrun", rules{},
			[]*hold{old(0, 1e6, 1e6), young(5, 6, 6)}, "5-6 bad;"},
		{"old clients that do not exclude each other", sharing,
			[]*hold{old(0, 5, 5), old(1, 6, 6), young(5.5, 7, 7)},
			"1-5 excused;5.5-6 excused;"},
		{"a single one of these old clients", sharing, []*hold{old(0, 5, 5), young(1, 6, 6)}, "1-5 bad;"},
		{"overlaps that do no harm", free, []*hold{young(0, 5, 5), young(1, 6, 6)}, "1-5 excused;"},
	} {
		if got := show(c.rules.episodes(c.holds, nil)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// An overlap has an excuse only where something differed from what the new
// clients knew, at that time, and beyond the bound.
func TestEpisodesExcuseWhatClientsWereNotTold(t *testing.T) {
	const sec = time.Second
	told := func() rules {
		r := someRules()
		r.lease, r.spread, r.gap, r.margin = 60*sec, 2*sec, 3*sec, 4*sec
		return r
	}
	apart := func(by time.Duration, from, to float64) rules {
		r := told()
		r.clocks = func(since, until time.Duration) (low, high time.Duration) {
			if until.Seconds() < from || since.Seconds() > to {
				return 0, 0
			}
			return -by, 0
		}
		return r
	}
	beside := func() []*hold { return []*hold{span(oldOnes, 100, 110, 110), span(newOnes, 105, 115, 115)} }
	still := func(begin, end float64) []*hold {
		holds := []*hold{span(newOnes, 100, 150, 150), span(oldOnes, 140, 145, 145)}
		s := span(newOnes, begin, end, end)
		holds[0].host = &machine{stops: []stretch{{s.start, s.stop}}}
		return holds
	}
	for _, c := range []struct {
		name  string
		rules rules
		holds []*hold
		late  []write
		want  string
	}{
		{"as told", told(), beside(), nil, ""},
		{"clocks as far apart as told", apart(2*sec, 0, 200), beside(), nil, ""},
		{"clocks further apart", apart(2*sec+1, 0, 200), beside(), nil, causeClocks},
		{"clocks further apart when the stamp was written", apart(3*sec, 0, 41), beside(), nil, causeClocks},
		{"clocks further apart long before", apart(3*sec, 0, 39), beside(), nil, ""},
		{"clocks further apart afterwards", apart(3*sec, 116, 200), beside(), nil, ""},
		{"a write as late as told", told(), beside(), []write{{90 * sec, 3 * sec}}, ""},
		{"a later write", told(), beside(), []write{{90 * sec, 3*sec + 1}}, causeStall},
		{"a later write long before", told(), beside(), []write{{39 * sec, 9 * sec}}, ""},
		{"a later write afterwards", told(), beside(), []write{{116 * sec, 9 * sec}}, ""},
		{"a new client paused for as long as its margin", told(), still(130, 134), nil, ""},
		{"a new client paused for longer", told(), still(130, 149), nil, causeStill},
		{"a new client paused after the overlap began", told(), still(142, 149), nil, ""},
	} {
		for _, e := range c.rules.episodes(c.holds, c.late) {
			if e.cause != c.want {
				t.Errorf("%s: from %v %q, want %q", c.name, e.start, e.cause, c.want)
			}
		}
	}
}

// ledger returns a book in which a product with a stock of 10 was sold that
// often, with these holds.
func ledger(sold, left int, holds ...*hold) *book {
	return &book{now: func() time.Duration { return 0 }, products: map[string]*product{
		"tea": {sku: "tea", stock: 10, left: left, sold: sold, holds: holds}}}
}

func TestOversoldCountsUnitsThatNeverLeftTheStock(t *testing.T) {
	overrun := []*hold{span(oldOnes, 0, 70, 70), span(newOnes, 61, 62, 62)}
	bad := []*hold{span(oldOnes, 100, 110, 110), span(oldOnes, 105, 106, 106)}
	for _, c := range []struct {
		name          string
		sold, left    int
		holds         []*hold
		over, excused int
		well          bool
	}{
		{"all accounted for", 10, 0, nil, 0, 0, true},
		{"some left, all accounted for", 7, 3, nil, 0, 0, true},
		{"more than there was", 12, 0, nil, 2, 0, false},
		{"a deduction undone before the goods ran out", 7, 5, nil, 2, 0, false},
		{"during an overrun", 12, 0, overrun, 2, 2, true},
		{"during an overrun, with another overlap", 12, 0, append(overrun[:2:2], bad...), 2, 0, false},
		{"more units than were sold in an overrun", 15, 0, overrun, 5, 4, false},
		{"an overlap that did no harm", 10, 0, bad, 0, 0, false},
	} {
		j := someRules().judge(ledger(c.sold, c.left, c.holds...))
		if j.Oversold != c.over || j.OversoldExcused != c.excused || j.Well() != c.well {
			t.Errorf("%s: %+v", c.name, j)
		}
	}
}

// An overlap of two old clients says nothing about the new ones.
func TestOverlapsWithNewClientsAreCountedApart(t *testing.T) {
	b := ledger(10, 0,
		span(oldOnes, 0, 70, 70), span(oldOnes, 65, 75, 75), // excused, of old clients
		span(newOnes, 71, 72, 72),                                  // excused, with a new client
		span(oldOnes, 100, 110, 110), span(oldOnes, 105, 106, 106), // of old clients
		span(oldOnes, 200, 210, 210), span(newOnes, 205, 206, 206), // with a new client
	)
	j := someRules().judge(b)
	if want := (Episodes{Overlaps: 4, OverlapsExcused: 2, WithNew: 2,
		WithNewExcused: 1}); j.Episodes != want {
		t.Errorf("%+v, want %+v", j.Episodes, want)
	}
	v := visit{from: 60 * time.Second, to: 150 * time.Second}
	if got, want := b.during(v).Episodes, (Episodes{3, 2, 1, 1}); got != want {
		t.Errorf("in a visit %+v, want %+v", got, want)
	}
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scenario is one question that is put to several adapters.
type Scenario struct {
	Name     string
	Title    string
	Adapters []string          // names of the adapters that take part
	Bases    map[string]string // the baseline of an adapter's ratios, by adapter; default: bare
	Rounds   int
	Metrics  []Metric // in the order of their columns

	// Measure answers the question for one adapter, once.
	Measure func(ctx context.Context, r *Runner, a Adapter) (Figures, error)
}

// Metric is a column of the table.
type Metric struct {
	Name  string
	Head  string
	Ratio bool // also show the ratio to the baseline
}

// Figures are the figures of one measurement, by metric.
type Figures map[string]float64

// acquisitions is the figure by which commands are divided; it is not a row.
const acquisitions = "acquisitions"

func (s Scenario) order(metric string) int {
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == metric })
	if i < 0 {
		return len(s.Metrics)
	}
	return i
}

// base returns the baseline of an adapter's ratios.
func (s Scenario) base(adapter string) string {
	if other, ok := s.Bases[adapter]; ok {
		return other
	}
	return Baseline().Name
}

// Pick returns the scenarios that words name, by the whole name or by the part
// before the slash; all of them if there are no words.
func Pick(all []Scenario, words ...string) ([]Scenario, error) {
	if len(words) == 0 {
		return all, nil
	}
	var some []Scenario
	for _, s := range all {
		group, _, _ := strings.Cut(s.Name, "/")
		if slices.Contains(words, s.Name) || slices.Contains(words, group) {
			some = append(some, s)
		}
	}
	for _, w := range words {
		if !slices.ContainsFunc(all,
			func(s Scenario) bool { return s.Name == w || strings.HasPrefix(s.Name, w+"/") }) {
			return nil, fmt.Errorf("no scenario is called %q; there are: %s", w,
				strings.Join(names(all), ", "))
		}
	}
	return some, nil
}

// PickAdapters returns the adapters that words names, and bare, with which they
// are compared. The names are separated by semicolons, since names contain
// commas. It returns all adapters if words is empty.
func PickAdapters(all []Adapter, words string) ([]Adapter, error) {
	if words == "" {
		return all, nil
	}
	wanted := []string{Baseline().Name}
	for word := range strings.SplitSeq(words, ";") {
		word = strings.TrimSpace(word)
		if _, err := find(all, word); err != nil {
			return nil, err
		}
		wanted = append(wanted, word)
	}
	return slices.DeleteFunc(slices.Clone(all),
		func(a Adapter) bool { return !slices.Contains(wanted, a.Name) }), nil
}

func names(all []Scenario) (names []string) {
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

const (
	usualTTL = 30 * time.Second
	keepTTL  = 10 * time.Second
	killTTL  = 2 * time.Second
)

// Scenarios returns all questions that can be put to any adapter. peers are the
// names of other libraries' adapters with their defaults, tuned those with
// settings that favour waiters.
func Scenarios(peers, tuned []string) []Scenario {
	with := func(own ...string) []string { return append(own, peers...) }
	waiting := func(own ...string) []string { return append(with(own...), tuned...) }
	return []Scenario{
		uncontended("uncontended", "one goroutine, acquire and release", 1,
			with("bare", "bare, contexts", "modern", "modern, fenced", "modern, fair")),
		uncontended("keys/64", "64 goroutines, a key each", 64, with("bare", "modern", "modern, fenced")),
		uncontended("keys/1000", "1,000 goroutines, a key each", 1000,
			with("bare", "modern", "modern, fenced")),
		oneKey(with("bare", "modern", "modern, no hand-over", "modern, shared", "modern, fenced",
			"modern, fair")),
		processes("processes/1ms", "one key, 4 processes × 4 goroutines, held for 1 ms, then a rest of 5 ms",
			4,
			Spec{Goroutines: 4, Keys: 1, Hold: time.Millisecond, Rest: 5 * time.Millisecond,
				Window: 1200 * time.Millisecond}, 3,
			waiting("bare", "modern", "modern, no hand-over", "modern, fair", Hardened, Impolite)),
		processes("processes/300ms", "8 keys, 2 processes, each key held for 300 ms in turns", 2,
			Spec{Goroutines: 8, Keys: 8, Hold: 300 * time.Millisecond, Rest: 250 * time.Millisecond,
				Window: 2200 * time.Millisecond}, 2,
			waiting("bare", "modern", "modern, fair", Hardened, Impolite)),
		processes("far/1ms", "one key, 4 processes, the server 1 ms away, held for 1 ms, taken again at once", 4,
			Spec{Goroutines: 1, Keys: 1, Hold: time.Millisecond, Away: time.Millisecond,
				Window: 1200 * time.Millisecond}, 3,
			waiting("bare", "modern", "modern, fair")),
		processes("far/30ms",
			"one key, 4 processes, the server 30 ms away, held for 1 ms, taken again at once", 4,
			Spec{Goroutines: 1, Keys: 1, Hold: time.Millisecond, Away: 30 * time.Millisecond,
				Window: 6 * time.Second}, 1,
			waiting("bare", "modern", "modern, fair")),
		killed(waiting("bare", "modern", "modern, fair")),
		keeping("leases/10000", "10,000 leases of 10 s held in one process", 10_000,
			with("bare", "modern", "modern, fenced")),
		keeping("leases/100000", "100,000 leases of 10 s held in one process", 100_000, []string{"modern"}),
		crowding([]string{"modern", "modern, fair"}),
		thronging("waiting/10000", "10,000 keys are held by one process, and another waits for each of them",
			10_000, []string{"modern", "modern, fair"}),
		givingBack("give-back/100000",
			"100,000 leases are given back by 4,000 goroutines and Close, the server 1 ms away", 100_000,
			time.Millisecond,
			[]string{"modern", "modern, fenced", "modern, fair"}),
		pairs(),
	}
}

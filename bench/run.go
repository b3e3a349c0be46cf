package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Runner runs measurements on a server of its own.
type Runner struct {
	Adapters  []Adapter
	Scenarios []Scenario

	Addr string // of the server; no other program uses it

	// Child is the command that runs [Child] with the same adapters.
	Child []string

	// Rounds, if not zero, replaces each scenario's own number of rounds.
	Rounds int

	// Quick shortens every window, to check that everything works; the figures
	// then mean nothing.
	Quick bool

	// Progress is called before each measurement. It may be nil.
	Progress func(done, total int, scenario, adapter string)

	pool  *redis.Pool
	first string // the first failure within a measurement that continued
	made  int    // number of measurements begun; each has its own keys
}

// Row is one figure: a median over the rounds.
type Row struct {
	Scenario, Adapter, Metric string
	Value                     float64

	// Ratio is the median of the ratios to the scenario's baseline in the same
	// round; nil if there is no baseline.
	Ratio *float64
}

// Report is the result of all measurements.
type Report struct {
	Rows     []Row
	Failures []string // measurements that failed, and why
	Notes    []string // failures within measurements that were completed
}

// Run measures every scenario. A measurement that fails is reported and left
// out. The error means that nothing could be measured at all, or that ctx
// ended.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	r.pool = Server{Addr: r.Addr}.Pool()
	defer r.pool.Close()
	if _, err := r.commands(); err != nil {
		return nil, err
	}
	total, done := 0, 0
	for _, s := range r.Scenarios {
		total += len(r.takingPart(s)) * r.rounds(s)
	}
	rep := &Report{}
	for _, s := range r.Scenarios {
		rounds := map[string][]Figures{}
		adapters := r.takingPart(s)
		for round := range r.rounds(s) {
			for i := range adapters {
				a := adapters[(i+round)%len(adapters)] // each round begins with another adapter
				if r.Progress != nil {
					r.Progress(done, total, s.Name, a.Name)
				}
				done++
				f, err := r.measure(ctx, s, a)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				if err != nil {
					rep.fail(s, a, err)
				}
				if r.first != "" {
					rep.note(s, a, r.first)
				}
				rounds[a.Name] = append(rounds[a.Name], f) // f may be nil, to keep the rounds aligned
			}
		}
		rep.add(s, adapters, rounds)
	}
	return rep, nil
}

func (r *Runner) takingPart(s Scenario) []Adapter {
	var some []Adapter
	for _, a := range r.Adapters {
		if slices.Contains(s.Adapters, a.Name) {
			some = append(some, a)
		}
	}
	return some
}

func (r *Runner) rounds(s Scenario) int {
	switch {
	case r.Rounds > 0:
		return r.Rounds
	case r.Quick:
		return 1
	}
	return s.Rounds
}

// measure makes one measurement of one adapter.
func (r *Runner) measure(ctx context.Context, s Scenario, a Adapter) (Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r.made++
	before, err := r.commands()
	if err != nil {
		return nil, err
	}
	r.first = ""
	f, err := s.Measure(ctx, r, a)
	if err != nil {
		return nil, err
	}
	after, err := r.commands()
	if err != nil {
		return nil, err
	}
	if n := f[acquisitions]; n > 0 {
		f["commands"] = (after - before) / n
	}
	delete(f, acquisitions)
	return f, nil
}

// commands returns how many commands the server has executed, including those
// inside scripts but not INFO, which asks for the number.
func (r *Runner) commands() (float64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	text, err := redis.String(conn.Do("INFO", "commandstats"))
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(text) {
		var n float64
		name, rest, ok := strings.Cut(line, ":")
		if !ok || name == "cmdstat_info" {
			continue
		}
		if _, err := fmt.Sscanf(rest, "calls=%g,", &n); err == nil {
			sum += n
		}
	}
	return sum, nil
}

func (rep *Report) fail(s Scenario, a Adapter, err error) {
	rep.Failures = addOnce(rep.Failures, fmt.Sprintf("%s (%s): %v", s.Name, a.Name, err))
}

func (rep *Report) note(s Scenario, a Adapter, text string) {
	rep.Notes = addOnce(rep.Notes, fmt.Sprintf("%s (%s): %s", s.Name, a.Name, text))
}

func addOnce(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

// add makes rows from a scenario's rounds. Ratios are computed within a round,
// to the adapter's baseline.
func (rep *Report) add(s Scenario, adapters []Adapter, rounds map[string][]Figures) {
	for _, a := range adapters {
		names := map[string]bool{}
		for _, f := range rounds[a.Name] {
			for name := range f {
				names[name] = true
			}
		}
		sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
			return cmp.Or(s.order(a)-s.order(b), strings.Compare(a, b))
		})
		for _, metric := range sorted {
			row := Row{Scenario: s.Name, Adapter: a.Name, Metric: metric}
			var values, ratios []float64
			for i, f := range rounds[a.Name] {
				v, ok := f[metric]
				if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
					continue
				}
				values = append(values, v)
				if base, ok := at(rounds[s.base(a.Name)], i)[metric]; ok && base != 0 {
					ratios = append(ratios, v/base)
				}
			}
			if len(values) == 0 {
				continue
			}
			row.Value = median(values)
			if s.order(metric) == len(s.Metrics) { // troubles: report them if there was one in any round
				if row.Value = slices.Max(values); row.Value == 0 {
					continue
				}
			}
			if len(ratios) > 0 {
				ratio := median(ratios)
				row.Ratio = &ratio
			}
			rep.Rows = append(rep.Rows, row)
		}
	}
}

func at(rounds []Figures, i int) Figures {
	if i >= len(rounds) {
		return nil
	}
	return rounds[i]
}

package bench

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

	"github.com/getsetlock/getsetlock/redisconn"
)

// Runner runs measurements.
type Runner struct {
	Adapters  []Adapter
	Scenarios []Scenario

	Redis  string // address of the server
	Target string // address of a store other than Redis, instead
	Access Access
	Prefix string // prefix of every key; keys with it are deleted at the end

	// Clean, if Target is set, deletes what is left under names that begin with
	// prefix. Run calls it at the end.
	Clean func(prefix string)

	// Child is the command that runs [Child] with the same adapters.
	Child []string

	// Rounds, if not zero, replaces each scenario's own number of rounds.
	Rounds int

	// Quick shortens every window, to check that everything works; the figures
	// then mean nothing.
	Quick bool

	// Alone says that no other program uses the server, so its count of
	// commands is the measurement's.
	Alone bool

	// Progress is called before each measurement. It may be nil.
	Progress func(done, total int, scenario, adapter string)

	pool  *redis.Pool
	first string // the first failure within a measurement that continued
	made  int    // number of measurements begun; each has its own prefix, so their keys never meet
}

// Row is one figure: a median over the rounds.
type Row struct {
	Scenario string  `json:"scenario"`
	Adapter  string  `json:"adapter"`
	Metric   string  `json:"metric"`
	Value    float64 `json:"value"`

	// Ratio is the median of the ratios to the scenario's baseline in the same
	// round; nil if there is no baseline.
	Ratio *float64 `json:"ratio"`
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
	leave, err := r.connect()
	if err != nil {
		return nil, err
	}
	defer leave()
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

// connect asks a Redis server whether it is there. leave deletes what the
// measurements left.
func (r *Runner) connect() (leave func(), err error) {
	if r.Target != "" {
		return func() { r.Clean(r.Prefix) }, nil
	}
	address, err := redisconn.Parse(r.Redis)
	if err != nil {
		return nil, err
	}
	if r.pool, err = address.Pool(r.Access.options()); err != nil {
		return nil, err
	}
	if err := r.server("PING"); err != nil {
		r.pool.Close()
		return nil, err
	}
	return func() {
		r.clean()
		r.pool.Close()
	}, nil
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
	if n := f[acquisitions]; r.Alone && n > 0 {
		f["commands"] = (after - before) / n
	}
	delete(f, acquisitions)
	return f, nil
}

// commands returns how many commands the server has executed, including those
// inside scripts but not INFO, which asks for the number.
func (r *Runner) commands() (float64, error) {
	if !r.Alone {
		return 0, nil
	}
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

func (r *Runner) server(name string, args ...any) error {
	conn := r.pool.Get()
	defer conn.Close()
	_, err := conn.Do(name, args...)
	return err
}

// clean deletes the keys that measurements left under this Runner's prefix,
// such as locks of killed processes. It also deletes the counters of benchmarks
// that were killed; their other keys expire.
func (r *Runner) clean() {
	conn := r.pool.Get()
	defer conn.Close()
	// A namespace is the prefix without its colons. All benchmarks share what
	// precedes the last word of the prefix.
	above := r.Prefix[:strings.LastIndex(strings.TrimSuffix(r.Prefix, ":"), ":")+1]
	if above == "" {
		above = r.Prefix
	}
	pattern := "*" + strings.ReplaceAll(above, ":", "?") + "*"
	for cursor := "0"; ; {
		page, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
		if err != nil || len(page) != 2 {
			return // the server no longer answers; the keys expire by themselves
		}
		cursor, _ = redis.String(page[0], nil)
		keys, _ := redis.Strings(page[1], nil)
		for _, key := range keys {
			if strings.Contains(strings.ReplaceAll(key, "-", ":"), r.Prefix) || abandoned(conn, key) {
				_, _ = conn.Do("DEL", key)
			}
		}
		if cursor == "0" {
			return
		}
	}
}

// forsaken is the age of a counter's last number after which its benchmark must
// have ended: a measurement takes minutes.
const forsaken = time.Hour

// abandoned reports whether key is the counter of a benchmark that was killed.
// The counter has no TTL, but its value is the server's time of the last
// acquisition, in µs.
func abandoned(conn redis.Conn, key string) bool {
	if !strings.HasPrefix(key, "gsl:fence:") {
		return false
	}
	drawn, err := redis.Int64(conn.Do("GET", key))
	if err != nil {
		return false
	}
	now, err := redis.Int64s(conn.Do("TIME"))
	return err == nil && len(now) == 2 && now[0]*1_000_000-drawn > forsaken.Microseconds()
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

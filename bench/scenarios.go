package main

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// spec completes a scenario's Spec.
func (r *Runner) spec(s Spec, kind string, a Adapter) Spec {
	s.Kind, s.Adapter = kind, a.Name
	s.Addr, s.Prefix = r.Addr, r.key("")
	if s.TTL == 0 {
		s.TTL = usualTTL
	}
	if s.Keys == 0 {
		s.Keys = 1
	}
	if r.Quick {
		s.Window = min(s.Window, 150*time.Millisecond)
		s.Hold, s.Rest = s.Hold/10, s.Rest/10
		if s.Kind == "keep" {
			s.Keys, s.TTL = s.Keys/100, 300*time.Millisecond
		}
	}
	return s
}

// key returns a name that no other measurement uses.
func (r *Runner) key(name string) string { return fmt.Sprintf("bench:%d:%s", r.made, name) }

// one runs a measurement with a single process.
func (r *Runner) one(ctx context.Context, s Spec) (*Result, error) {
	all, err := together(ctx, r.Child, nil, s)
	if err != nil {
		return nil, err
	}
	r.first = all[0].Failure
	return all[0], nil
}

func (r *Result) total() (n float64) {
	for _, c := range r.Counts {
		n += float64(c)
	}
	return n
}

func (r *Result) starved() (n float64) {
	for _, c := range r.Counts {
		if c == 0 {
			n++
		}
	}
	return n
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func uncontended(name, title string, goroutines int, adapters []string) Scenario {
	return alone(name, title, goroutines, 400*time.Millisecond, adapters)
}

// alone returns a scenario in which goroutines of one process take a key each.
func alone(name, title string, goroutines int, window time.Duration, adapters []string) Scenario {
	s := Scenario{Name: name, Title: title, Adapters: adapters, Rounds: 7, Metrics: []Metric{
		{"us_p50", "µs p50", goroutines == 1}, {"us_p99", "µs p99", false}, {"per_s", "acquisitions/s", true},
		{"stuck", "stuck", false},
		{"allocations", "allocations", false}, {"bytes", "bytes", false}, {"messages", "messages", false},
		{"commands", "commands", false},
	}}
	if goroutines > 1 {
		s.Rounds = 3
	}
	s.Measure = func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
		res, err := r.one(ctx, r.spec(Spec{Goroutines: goroutines, Keys: goroutines, Window: window}, "loop",
			a))
		if err != nil {
			return nil, err
		}
		return res.looped(Figures{
			"us_p50": micros(res.OpP50), "us_p99": micros(res.OpP99), "stuck": res.starved(),
			"allocations": float64(res.Allocs) / res.total(), "bytes": float64(res.Bytes) / res.total(),
		})
	}
	return s
}

// looped adds the figures that all loops have. If nothing was acquired while
// the window was open, that is an answer too, but without times.
func (r *Result) looped(f Figures) (Figures, error) {
	n := r.total()
	if n == 0 {
		if r.Failure != "" {
			return nil, fmt.Errorf("nothing was acquired: %s", r.Failure)
		}
		maps.DeleteFunc(f, func(name string, _ float64) bool {
			return strings.Contains(name, "_p50") || strings.Contains(name, "_p99")
		})
	}
	f["per_s"] = n / r.Elapsed.Seconds()
	if r.Messages > 0 { // else nobody counted: a store other than Redis
		f["messages"] = float64(r.Messages) / n
	}
	f["failed"], f["hung"] = float64(r.Failed), float64(r.Hung)
	f[acquisitions] = n
	return f, nil
}

func oneKey(adapters []string) Scenario {
	return Scenario{
		Name: "one-key", Title: "one key, 256 goroutines of one process, nothing done inside",
		Adapters: adapters, Rounds: 3,
		Metrics: []Metric{
			{"per_s", "hand-offs/s", true}, {"wait_ms_p50", "wait p50 ms", false},
			{"wait_ms_max", "longest ms", false}, {"starved", "starved", false},
			{"jain", "Jain", false}, {"messages", "messages", false}, {"commands", "commands", false},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			res, err := r.one(ctx, r.spec(Spec{Goroutines: 256, Keys: 1, Window: time.Second}, "loop", a))
			if err != nil {
				return nil, err
			}
			return res.looped(Figures{
				"wait_ms_p50": millis(res.WaitP50), "wait_ms_max": millis(res.WaitMax),
				"starved": res.starved(), "jain": jain(res.Counts),
			})
		},
	}
}

func processes(name, title string, n int, s Spec, rounds int, adapters []string) Scenario {
	s.Spans = true
	return Scenario{
		Name: name, Title: title, Adapters: adapters, Rounds: rounds,
		Metrics: []Metric{
			{"gap_us_p50", "gap p50 µs", true}, {"gap_us_p99", "gap p99 µs", true},
			{"per_s", "acquisitions/s", false},
			{"wait_ms_max", "longest ms", false}, {"starved", "starved", false}, {"jain", "Jain", false},
			{"overlaps", "overlaps", false},
			{"messages", "messages", false}, {"commands", "commands", false},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			specs := make([]Spec, n)
			for i := range specs {
				specs[i] = r.spec(s, "loop", a)
			}
			all, err := together(ctx, r.Child, nil, specs...)
			if err != nil {
				return nil, err
			}
			sum := &Result{}
			for _, res := range all {
				sum.Counts, sum.Spans = append(sum.Counts, res.Counts...), append(sum.Spans, res.Spans...)
				sum.Messages += res.Messages
				sum.Failed, sum.Hung = sum.Failed+res.Failed, sum.Hung+res.Hung
				sum.Elapsed, sum.WaitMax = max(sum.Elapsed, res.Elapsed), max(sum.WaitMax, res.WaitMax)
				if sum.Failure == "" {
					sum.Failure = res.Failure
				}
			}
			r.first = sum.Failure
			between, overlaps := gaps(sum.Spans)
			return sum.looped(Figures{
				"gap_us_p50": micros(between.quantile(0.5)), "gap_us_p99": micros(between.quantile(0.99)),
				"wait_ms_max": millis(sum.WaitMax), "starved": sum.starved(), "jain": jain(sum.Counts),
				"overlaps": float64(overlaps),
			})
		},
	}
}

// killed returns the scenario in which a process that holds some keys is killed
// while another waits for them.
func killed(adapters []string) Scenario {
	const keys = 8
	return Scenario{
		Name: "killed", Title: "the holder is killed, TTL 2 s: how long after the expiry the next one has it",
		Adapters: adapters, Rounds: 1,
		Metrics: []Metric{{"late_ms_p50", "late p50 ms", false}, {"late_ms_max", "latest ms", false},
			{"messages", "messages a waiter", false}},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			s := Spec{Goroutines: 1, Keys: keys, TTL: killTTL, Rest: 37 * time.Millisecond,
				Window: 30 * time.Second}
			heir, err := start(ctx, r.Child, r.fullSpec(s, "inherit", a))
			if err != nil {
				return nil, err
			}
			defer heir.kill()
			dying, err := start(ctx, r.Child, r.fullSpec(s, "hold", a))
			if err != nil {
				return nil, err
			}
			dying.kill()
			ends, err := r.expiries(a, r.fullSpec(s, "hold", a))
			if err != nil {
				return nil, err
			}
			if err := heir.begin(); err != nil {
				return nil, err
			}
			res, err := heir.result()
			if err != nil {
				return nil, err
			}
			late := make([]float64, keys)
			for i, had := range res.Held {
				late[i] = float64(had-ends[i]) / 1e6
			}
			return Figures{"late_ms_p50": median(late), "late_ms_max": quantile(late, 1),
				"messages": float64(res.Messages) / keys}, nil
		},
	}
}

// fullSpec is spec without the shortcuts of Quick, for a measurement that must
// await an expiry.
func (r *Runner) fullSpec(s Spec, kind string, a Adapter) Spec {
	full := *r
	full.Quick = false
	return full.spec(s, kind, a)
}

// expiries returns when the keys expire, in ns of this machine's wall clock.
// Servers before 7.0 report only the remaining time, cut to a millisecond.
func (r *Runner) expiries(a Adapter, s Spec) ([]int64, error) {
	conn := r.pool.Get()
	defer conn.Close()
	before := time.Now()
	pair, err := redis.Int64s(conn.Do("TIME"))
	if err != nil || len(pair) != 2 {
		return nil, fmt.Errorf("reading the server's clock: %w", err)
	}
	now := before.Add(time.Since(before) / 2)
	ahead := pair[0]*1e9 + pair[1]*1e3 - now.UnixNano()
	ends := make([]int64, s.Keys)
	for i := range ends {
		key := a.key(s.name(i))
		at, err := redis.Int64(conn.Do("PEXPIRETIME", key))
		if err != nil {
			left, leftErr := redis.Int64(conn.Do("PTTL", key))
			if leftErr != nil {
				return nil, leftErr
			}
			at = (time.Now().UnixNano()+ahead)/1e6 + left
			if left < 0 {
				at = left
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("key %q of the killed holder has no expiry (%d)", key, at)
		}
		ends[i] = at*1e6 - ahead
	}
	return ends, nil
}

func keeping(name, title string, n int, adapters []string) Scenario {
	return Scenario{
		Name: name, Title: title, Adapters: adapters, Rounds: 1,
		Metrics: []Metric{
			{"bytes_a_lease", "bytes a lease", true}, {"goroutines", "goroutines", false},
			{"messages_per_s", "messages/s", true},
			{"busiest", "busiest 0.1 s", false}, {"cpu_percent", "CPU %", true}, {"lost", "lost", false},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			s := r.spec(Spec{Goroutines: takers, Keys: n, TTL: keepTTL, Window: 5 * time.Second}, "keep", a)
			res, err := r.one(ctx, s)
			if err != nil {
				return nil, err
			}
			f := Figures{
				"bytes_a_lease":  float64(res.Resident) / float64(s.Keys),
				"goroutines":     float64(res.Goroutines),
				"messages_per_s": float64(res.Messages) / res.Elapsed.Seconds(),
				"busiest":        float64(res.Busiest), "lost": float64(res.Lost),
				"hung": float64(res.Hung),
			}
			if res.CPU > 0 {
				f["cpu_percent"] = 100 * res.CPU.Seconds() / res.Elapsed.Seconds()
			}
			return f, nil
		},
	}
}

func crowding(adapters []string) Scenario {
	const n = 10_000
	return Scenario{
		Name: "waiters", Title: "10,000 goroutines wait for one key that is held", Adapters: adapters,
		Rounds: 1,
		Metrics: []Metric{
			{"bytes_a_waiter", "heap bytes a waiter", false},
			{"resident_a_waiter", "resident, with the stack", false},
			{"goroutines", "goroutines a waiter", false}, {"messages_per_s", "messages/s", false},
		},
		Measure: func(ctx context.Context, r *Runner, a Adapter) (Figures, error) {
			res, err := r.one(ctx, r.spec(Spec{Goroutines: n, Window: 3 * time.Second}, "crowd", a))
			if err != nil {
				return nil, err
			}
			return Figures{
				"bytes_a_waiter": float64(res.Bytes) / n, "resident_a_waiter": float64(res.Resident) / n,
				"goroutines":     float64(res.Goroutines) / n,
				"messages_per_s": float64(res.Messages) / res.Elapsed.Seconds(),
			}, nil
		},
	}
}

// pairs compares the legacy lock at its defaults with its own commands. The
// window is long enough to include the gaps that the lock leaves to old clients
// it has not seen: one in each second in which it holds the key.
func pairs() Scenario {
	const verbatim, hardened = "bare SETNX, DEL", "bare, the hardened scripts"
	s := alone("legacy",
		"the legacy lock at its defaults, each mode compared with its own commands by bare redigo", 1,
		5*time.Second, []string{verbatim, "legacy, verbatim", hardened, Hardened, Impolite})
	s.Rounds = 3
	s.Bases = map[string]string{
		verbatim: verbatim, "legacy, verbatim": verbatim, hardened: hardened, Hardened: hardened,
		Impolite: hardened,
	}
	return s
}

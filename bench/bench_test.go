// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// TestMain lets the test program be a process of a measurement too.
func TestMain(m *testing.M) {
	spec, ok := os.LookupEnv(processEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if err := work(spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const millisecond = time.Millisecond

// with returns locks of this repository and the other libraries with their
// defaults.
func with(own ...string) []string {
	return append(own, "redsync", "redislock", "rueidislock", "rueidislock, one key")
}

// waiting returns with(own) and the polling libraries, set to poll as often as
// is useful in a wait.
func waiting(own ...string) []string {
	return append(with(own...), "redsync, every 1 ms", "redislock, every 1 ms")
}

// each measures every lock, at the servers and with a prefix of keys of its
// own. The first lock is the one with which the others are compared. Each round
// (BENCH_ROUND) begins with another lock.
func each(b *testing.B, servers int, locks []string, measure func(b *testing.B, s Spec)) {
	s := Spec{Setup: Setup{TTL: 30 * time.Second}}
	for range servers {
		server := redistest.Real(b, redistest.Options{Path: os.Getenv("BENCH_SERVER")})
		s.Addrs = append(s.Addrs, server.Addr())
	}
	round, _ := strconv.Atoi(os.Getenv("BENCH_ROUND"))
	for i := range locks {
		s.Lock = locks[(i+round)%len(locks)]
		b.Run("lock="+s.Lock, func(b *testing.B) {
			for b.Loop() {
				s.Prefix = fmt.Sprint("bench:", measured.Add(1))
				measure(b, s)
			}
		})
	}
}

var measured atomic.Int64

// brief returns a twentieth of d for go test -short, which checks that
// everything works; the figures then mean nothing.
func brief(d time.Duration) time.Duration {
	if testing.Short() {
		return d / 20
	}
	return d
}

// fewer returns a hundredth of n for go test -short.
func fewer(n int) int {
	if testing.Short() {
		return n / 100
	}
	return n
}

// figures are what a benchmark reports, by unit. An underscore is a blank in
// the heading of the table.
type figures map[string]float64

func report(b *testing.B, res Result, f figures) {
	b.ReportMetric(0, "ns/op") // left out
	if n := res.total(); n > 0 {
		f["messages"], f["commands"] = float64(res.Messages)/n, res.Commands/n
	}
	for unit, v := range f {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			b.ReportMetric(v, unit)
		}
	}
}

func (r Result) total() (n float64) {
	for _, c := range r.Counts {
		n += float64(c)
	}
	return n
}

// rate is the number of acquisitions a second.
func (s Spec) rate(r Result) float64 { return r.total() / s.Window.Seconds() }

// starved is how many goroutines got nothing.
func (r Result) starved() (n float64) {
	for _, c := range r.Counts {
		if c == 0 {
			n++
		}
	}
	return n
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// One goroutine acquires and releases, with nobody else about.
func BenchmarkUncontended(b *testing.B) {
	locks := with("bare", "modern", "modern, fenced", "modern, fair", "legacy, verbatim", "legacy, hardened")
	each(b, 1, locks, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 1, 1, brief(time.Second)
		uncontended(b, s)
	})
}

func uncontended(b *testing.B, s Spec) {
	res := together(b, nil, s)
	report(b, res, figures{"µs_p50": micros(res.TurnP50), "allocations": float64(res.Allocs) / res.total()})
}

func BenchmarkKeys64(b *testing.B)   { keys(b, 64) }
func BenchmarkKeys1000(b *testing.B) { keys(b, 1000) }

// keys lets goroutines of one process take a key each.
func keys(b *testing.B, goroutines int) {
	each(b, 1, with("bare", "modern", "modern, fenced"), func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = goroutines, goroutines, brief(time.Second)
		res := together(b, nil, s)
		report(b, res, figures{"acquisitions/s": s.rate(res), "µs_p99": micros(res.TurnP99),
			"stuck": res.starved(), "allocations": float64(res.Allocs) / res.total()})
	})
}

// 256 goroutines of one process want one key and do nothing inside.
func BenchmarkOneKey(b *testing.B) {
	locks := with("bare", "modern", "modern, no hand-over", "modern, fenced", "modern, fair")
	each(b, 1, locks, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 256, 1, brief(time.Second)
		res := together(b, nil, s)
		report(b, res, figures{"hand-offs/s": s.rate(res), "wait_p50_ms": millis(res.WaitP50),
			"longest_ms": millis(res.WaitMax), "starved": res.starved(), "Jain": jain(res.Counts)})
	})
}

// Four processes with four goroutines each want one key. They hold it for 1 ms
// and then rest for 5.
func BenchmarkProcesses1ms(b *testing.B) {
	locks := waiting("bare", "modern", "modern, no hand-over", "modern, fair", "legacy, hardened")
	each(b, 1, locks, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 4, 1, brief(1200*millisecond)
		s.Hold, s.Rest = millisecond, 5*millisecond
		contend(b, 4, s)
	})
}

// The same without a rest, so that a process can keep the key to itself.
func BenchmarkProcessesAtOnce(b *testing.B) {
	locks := waiting("bare", "modern", "modern, no hand-over", "modern, fair", "legacy, hardened")
	each(b, 1, locks, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 1, 1, brief(1200*millisecond)
		s.Hold = millisecond
		contend(b, 4, s)
	})
}

// Two processes take 8 keys in turns and hold each for 300 ms.
func BenchmarkProcesses300ms(b *testing.B) {
	each(b, 1, waiting("bare", "modern", "modern, fair", "legacy, hardened"), func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 8, 8, brief(2200*millisecond)
		s.Hold, s.Rest = brief(300*millisecond), brief(250*millisecond)
		contend(b, 2, s)
	})
}

// The server is 30 ms away. Four processes take one key again at once.
// rueidislock with its defaults does not get beyond its first acquisition.
func BenchmarkFar30ms(b *testing.B) {
	locks := slices.DeleteFunc(waiting("bare", "modern", "modern, fair"),
		func(name string) bool { return name == "rueidislock" })
	each(b, 1, locks, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 1, 1, brief(4*time.Second)
		s.Hold, s.Away = millisecond, 30*millisecond
		contend(b, 4, s)
	})
}

// contend lets n processes want the same keys.
func contend(b *testing.B, n int, s Spec) {
	s.Spans = true
	res := together(b, nil, slices.Repeat([]Spec{s}, n)...)
	between, passed, overlaps := gaps(res.Spans)
	report(b, res, figures{
		"gap_p50_µs": micros(quantile(between, 0.5)), "gap_p99_µs": micros(quantile(between, 0.99)),
		"to_others_%": 100 * float64(passed) / float64(len(between)+overlaps), "longest_ms": millis(res.WaitMax),
		"starved": res.starved(), "Jain": jain(res.Counts), "overlaps": float64(overlaps)})
}

// The process that holds eight keys is killed while another waits for them.
func BenchmarkKilled(b *testing.B) {
	each(b, 1, waiting("bare", "modern", "modern, fair"), func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.TTL = 8, 8, max(brief(2*time.Second), time.Second)
		doomed := s
		doomed.Keep, doomed.Rest = true, s.TTL/50 // so that the keys do not expire together
		s.Window, s.Spans, s.Once = s.TTL+max(brief(time.Second), 200*millisecond), true, true
		var ends []int64
		res := together(b, func() {
			_ = doomed.start(b).cmd.Process.Kill()
			ends = s.expiries(b)
		}, s)
		var late []time.Duration
		for _, span := range res.Spans {
			late = append(late, time.Duration(span.Acquired-ends[span.Key]))
		}
		report(b, res, figures{"late_p50_ms": millis(quantile(late, 0.5)),
			"latest_ms": millis(quantile(late, 1)), "starved": res.starved()})
	})
}

// expiries returns when the keys expire, in ns of the wall clock. It needs
// Redis 7.0.
func (s Spec) expiries(b *testing.B) (ends []int64) {
	conn, err := redis.Dial("tcp", s.Addrs[0])
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for i := range s.Keys {
		at, err := redis.Int64(conn.Do("PEXPIRETIME", s.name(i)))
		if at == -2 { // no such key: rueidislock's has another name
			at, err = redis.Int64(conn.Do("PEXPIRETIME", "rueidislock:0:"+s.name(i)))
		}
		if err != nil || at < 0 {
			b.Fatalf("key %q of the killed holder expires at %d: %v", s.name(i), at, err)
		}
		ends = append(ends, at*1e6)
	}
	return ends
}

// One process holds 10,000 leases of 10 s and renews them.
func BenchmarkLeases(b *testing.B) {
	each(b, 1, with("bare", "modern", "modern, fenced"), func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Keep = 64, fewer(10_000), true
		s.TTL, s.Window = max(brief(10*time.Second), time.Second), brief(5*time.Second)
		res := together(b, nil, s)
		report(b, res, figures{"bytes_a_lease": float64(res.Resident) / float64(s.Keys),
			"goroutines": float64(res.Goroutines), "messages/s": float64(res.Messages) / s.Window.Seconds(),
			"lost": float64(res.Lost)})
	})
}

// 4,000 goroutines give back 100,000 leases through connections of 1 ms.
func BenchmarkGiveBack(b *testing.B) {
	each(b, 1, []string{"modern", "modern, fenced", "modern, fair"}, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Keep, s.Away = fewer(4000), fewer(100_000), true, millisecond
		s.TTL = max(brief(10*time.Second), time.Second)
		res := together(b, nil, s)
		report(b, res, figures{"seconds": res.GaveBack.Seconds()})
	})
}

// One process holds 10,000 keys, and another waits for each of them.
func BenchmarkWaiting(b *testing.B) {
	each(b, 1, []string{"modern", "modern, fair"}, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.TTL = fewer(10_000), fewer(10_000), max(brief(s.TTL), 2*time.Second)
		settle, window := brief(10*time.Second), brief(10*time.Second)
		s.Window = settle + window + brief(time.Second)
		holder := s
		holder.Goroutines, holder.Keep = 64, true
		both := []*process{s.start(b), holder.start(b)}
		for _, p := range both {
			p.tell()
		}
		<-time.After(settle) // by then all of them wait and ask at their usual pace
		used, ran := info(b, s.Addrs[0], "cpu", cpu), commands(b, s.Addrs...)
		<-time.After(window)
		used = info(b, s.Addrs[0], "cpu", cpu) - used
		report(b, Result{}, figures{"server_CPU_%": 100 * used / window.Seconds(),
			"commands/s": (commands(b, s.Addrs...) - ran) / window.Seconds()})
		for _, p := range both {
			p.result()
		}
	})
}

// threeServers measures the locks on three servers, each 1 ms away.
func threeServers(b *testing.B, measure func(b *testing.B, s Spec)) {
	locks := []string{"redsync", "quorum", "quorum, fenced"}
	each(b, 3, locks, func(b *testing.B, s Spec) {
		s.TTL, s.Away = 2*time.Second, millisecond
		for _, addr := range s.Addrs {
			seat(b, addr, s.Setup)
		}
		measure(b, s)
	})
}

// seat writes the record with which a server votes at once. Clients would write
// it when they have watched a new server for two minutes.
func seat(tb testing.TB, addr string, s Setup) {
	tb.Helper()
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	if err := redistest.Seat(conn.Do, addr, s.Addrs, s.TTL); err != nil {
		tb.Fatal(err)
	}
}

// One goroutine acquires and releases on three servers, each 1 ms away.
func BenchmarkQuorum(b *testing.B) {
	threeServers(b, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Window = 1, 1, brief(time.Second)
		uncontended(b, s)
	})
}

// 64 clients, each with its own connections, want one key on three servers.
func BenchmarkQuorum64(b *testing.B) {
	threeServers(b, func(b *testing.B, s Spec) {
		s.Clients, s.Goroutines, s.Keys = 64, 64, 1
		s.Window, s.Spans = brief(5*time.Second), true
		res := together(b, nil, s)
		_, _, overlaps := gaps(res.Spans)
		report(b, res, figures{"acquisitions/s": s.rate(res), "wait_p50_ms": millis(res.WaitP50),
			"longest_ms": millis(res.WaitMax), "starved": res.starved(), "overlaps": float64(overlaps)})
	})
}

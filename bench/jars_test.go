// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/interop"
)

// Four Java clients with the original jar, which polls, and four processes of
// getsetlock, which are woken, want one key. Each holds it for 1 ms and asks
// again at once.
func BenchmarkJars(b *testing.B) {
	each(b, 1, []string{"legacy, hardened", "legacy, hardened, impolite"}, func(b *testing.B, s Spec) {
		s.Goroutines, s.Keys, s.Spans = 1, 1, true
		s.Hold, s.Window = millisecond, max(brief(6*time.Second), time.Second)
		var jars []*interop.Loop
		for range 4 {
			jars = append(jars, startJar(b, s))
		}
		if _, err := jars[0].Reach(b.Context(), 20); err != nil { // by then the JVM has loaded its classes
			b.Fatal(err)
		}
		var begun time.Time
		res := together(b, func() { begun = time.Now() }, slices.Repeat([]Spec{s}, 4)...)
		theirs := stopJars(b, jars, begun.UnixNano(), begun.Add(s.Window).UnixNano())
		_, _, overlaps := gaps(append(res.Spans, theirs.Spans...))
		b.ReportMetric(theirs.total()/s.Window.Seconds(), "Java/s")
		report(b, Result{}, figures{"getsetlock_%": 100 * res.total() / (res.total() + theirs.total()),
			"getsetlock/s":        s.rate(res),
			"fewest_of_a_process": float64(slices.Min(res.Counts)),
			"fewest_of_a_jar":     float64(slices.Min(theirs.Counts)),
			"longest_ms":          millis(res.WaitMax), "longest_of_a_jar_ms": millis(theirs.WaitMax),
			"overlaps": float64(overlaps)})
	})
}

func startJar(b *testing.B, s Spec) *interop.Loop {
	c := interop.SharedClient(b, s.Addrs[0])
	if err := c.Lock(b.Context(), interop.Jar, s.name(0), 2*time.Minute, time.Minute); err != nil {
		b.Fatal(err)
	}
	loop, err := c.StartLoop(b.Context(), s.Prefix+":counter", s.Hold, 0)
	if err != nil {
		b.Fatal(err)
	}
	return loop
}

// stopJars ends the Java clients and returns their acquisitions within the
// window. A wait that the window cuts counts with its part inside.
func stopJars(b *testing.B, jars []*interop.Loop, from, to int64) (all Result) {
	for _, jar := range jars {
		if err := jar.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for _, jar := range jars {
		if _, err := jar.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		spans, err := jar.Spans(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		count := 0
		for _, s := range spans {
			asked, held, released := s.Asked*1000, s.Held*1000, s.Released*1000
			if released > from && asked < to {
				all.WaitMax = max(all.WaitMax, time.Duration(min(held, to)-max(asked, from)))
			}
			if held >= from && held < to {
				count++
				all.Spans = append(all.Spans, Span{Acquired: held, Released: released, Process: -1})
			}
		}
		all.Counts = append(all.Counts, count)
	}
	return all
}

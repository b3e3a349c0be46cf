// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// watched runs the fleet, and returns the result of a census and the recorded
// lines.
func watched(t *testing.T, seed uint64, span time.Duration) (*audit.Result, []string) {
	t.Helper()
	f, err := New(seed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	folded, err := census.New(census.Config{Lease: Lease, Gap: Gap})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	err = f.Run(t.Context(), span, func(o offset.Observed) {
		folded.Add(o)
		lines = append(lines, o.String())
	})
	if err != nil {
		t.Fatal(err)
	}
	e, findings := folded.Evidence()
	return &audit.Result{Evidence: e, Findings: findings}, lines
}

func TestCensusFindsEveryMishapOfTheDemo(t *testing.T) {
	r, _ := watched(t, 1, 2*time.Minute)
	kinds := map[string]bool{}
	for _, f := range r.Findings {
		kinds[f.Kind] = true
	}
	for _, want := range []string{"step", "shared_address", "overrun", "overlap", "mixture", "clock_off",
		"job_too_long"} {
		if !kinds[want] {
			t.Errorf("no finding %q", want)
		}
	}
	for _, m := range Members() {
		if m.StepAt > 0 || m.Key == "lock:mail" || m.Key == "lock:report" {
			continue // reported as contradictions, or in two dialects
		}
		for _, w := range r.Evidence.Writers {
			if w.Addr == m.Addr && (m.Offset < w.Offset.Low || m.Offset > w.Offset.High ||
				!w.Offset.Bounded()) {
				t.Errorf("%s: offset %v is not in %v", m.Name, m.Offset, w.Offset.Interval)
			}
		}
	}
}

func TestSameSeedGivesTheSameRun(t *testing.T) {
	_, a := watched(t, 7, 20*time.Second)
	_, b := watched(t, 7, 20*time.Second)
	_, c := watched(t, 8, 20*time.Second)
	if len(a) < 100 || len(a) != len(b) || a[len(a)-1] != b[len(b)-1] {
		t.Errorf("%d and %d lines", len(a), len(b))
	}
	if len(a) == len(c) && a[len(a)-1] == c[len(c)-1] {
		t.Error("another seed gives the same run")
	}
}

func TestEndOfContextEndsTheRun(t *testing.T) {
	f, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err = f.Run(ctx, time.Hour, func(offset.Observed) {
		if seen++; seen == 50 {
			cancel()
		}
	})
	if err != nil || seen > 60 {
		t.Errorf("%d events, %v", seen, err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

func TestListOfRefusesEmptyList(t *testing.T) {
	var impossible *skew.ParameterError
	if _, err := ListOf("Job", nil); !errors.As(err, &impossible) || impossible.Field != "Job" {
		t.Error(err)
	}
	if _, err := ListOf("Job", []time.Duration{sec, -1}); err == nil ||
		!strings.Contains(err.Error(), "Job") {
		t.Errorf("a negative span: %v", err)
	}
	d, err := ListOf("Job", []time.Duration{sec})
	if err != nil || d.list[0] != sec {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestAnyReportsServerTroubles(t *testing.T) {
	for _, c := range []struct {
		of   ServerTroubles
		want bool
	}{
		{ServerTroubles{}, false},
		{ServerTroubles{Step: Steps{Every: 1}}, true}, {ServerTroubles{Slew: Slews{Every: 1}}, true},
	} {
		if got := c.of.Any(); got != c.want {
			t.Errorf("%+v: %v", c.of, got)
		}
	}
}

func TestEveryCauseHasAWord(t *testing.T) {
	for c, want := range map[Cause]string{
		CauseNone: "none", CauseSkew: "skew", CauseJob: "job", CauseJump: "jump", CauseProtocol: "protocol",
		5: "Cause(5)"} {
		if got := c.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Done goes from 0 to 1, by time or by acquisitions, whichever is further.
func TestDoneIsTheGreaterShareOfTimeAndAcquisitions(t *testing.T) {
	start := func(acquisitions int64, span time.Duration) *Simulator {
		t.Helper()
		m, err := New(Fleet{Dialect: dialect.Jedis(), Clients: 1, Lease: sec, Job: constantly(100 * ms),
			Rest: constantly(100 * ms), Acquisitions: acquisitions, For: span})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		acquisitions int64
		span         time.Duration
		low, high    float64
	}{{0, time.Hour, 0.0002, 0.02}, {100, 0, 0.2, 0.6}, {100, time.Hour, 0.2, 0.6},
		{1 << 40, 10 * sec, 0.3, 1}} {
		m := start(c.acquisitions, c.span)
		if d := m.Done(); d != 0 {
			t.Errorf("at the start %v", d)
		}
		for m.tally.acquisitions < 30 {
			if !m.Run(1) {
				t.Fatal("it ended early")
			}
		}
		if d := m.Done(); d < c.low || d > c.high {
			t.Errorf("%d acquisitions, %v: done %v, want %v to %v", c.acquisitions, c.span, d, c.low, c.high)
		}
	}
	m := start(1, 0)
	for m.Run(100) {
	}
	if d := m.Done(); d != 1 {
		t.Errorf("at the end %v", d)
	}
}

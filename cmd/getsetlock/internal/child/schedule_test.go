// SPDX-License-Identifier: Apache-2.0

package child

import (
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }

func TestUnrenewedTermsBeforeAndKillsAtTheLeasesEnd(t *testing.T) {
	for _, c := range []struct {
		until, grace float64
		term, kill   time.Time
	}{
		{27, 7.5, at(19.5), at(27)},
		{27, 0, at(27), at(27)},
		{5, 10, at(-5), at(5)}, // the grace is longer than what is left: TERM is due already
	} {
		got := Unrenewed(at(c.until), time.Duration(c.grace*float64(time.Second)))
		if !got.Term.Equal(c.term) || !got.Kill.Equal(c.kill) {
			t.Errorf("until %v, grace %v: %v", c.until, c.grace, got)
		}
	}
}

func TestOvertakenTermsAtOnceAndKillsByTheLeasesEnd(t *testing.T) {
	for _, c := range []struct{ now, until, grace, kill float64 }{
		{3, 27, 7.5, 10.5},
		{22, 27, 7.5, 27},
		{27, 27, 7.5, 27},
		{30, 27, 7.5, 27}, // the lease is over already: KILL is due
		{3, 27, 0, 3},
	} {
		got := Overtaken(at(c.now), at(c.until), time.Duration(c.grace*float64(time.Second)))
		if !got.Term.Equal(at(c.now)) || !got.Kill.Equal(at(c.kill)) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestSoonerNeverDelaysASchedule(t *testing.T) {
	first := Schedule{Term: at(5), Kill: at(20)}
	for _, c := range []struct{ second, want Schedule }{
		{Schedule{at(1), at(11)}, Schedule{at(1), at(11)}},
		{Schedule{at(9), at(19)}, Schedule{at(5), at(19)}},
		{Schedule{at(9), at(29)}, first},
	} {
		if got := first.Sooner(c.second); got != c.want {
			t.Errorf("%v after %v: %v", c.second, first, got)
		}
	}
	if got := (Schedule{}).Sooner(first); got != first {
		t.Errorf("a first verdict: %v", got)
	}
}

func TestDefaultGraceIsAtMostAQuarterOfTheLease(t *testing.T) {
	for lease, want := range map[time.Duration]time.Duration{
		30 * time.Second: 7500 * time.Millisecond,
		40 * time.Second: 10 * time.Second,
		time.Hour:        10 * time.Second,
		time.Second:      250 * time.Millisecond,
	} {
		if got := DefaultGrace(lease); got != want {
			t.Errorf("%v: %v, want %v", lease, got, want)
		}
	}
}

func TestCheckGraceRefusesToEndAHealthyLease(t *testing.T) {
	const lease, renew, margin = 30 * time.Second, 10 * time.Second, 3 * time.Second
	for _, c := range []struct {
		grace, renew time.Duration
		says         string
	}{
		{DefaultGrace(lease), renew, ""},
		{17*time.Second - time.Millisecond, renew, ""},
		{17 * time.Second, renew, "at most 16.999s"},
		{40 * time.Second, renew, "a lease of 30s"},
		{-time.Second, renew, "negative"},
		{26 * time.Second, 0, ""},
		{27 * time.Second, 0, "that is 27s"},
	} {
		err := CheckGrace(c.grace, lease, c.renew, margin)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("grace %v, renewal every %v: %v", c.grace, c.renew, err)
		}
	}
}

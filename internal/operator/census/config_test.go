// SPDX-License-Identifier: Apache-2.0

package census

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func TestConfigIsFilledAndChecked(t *testing.T) {
	c, err := Config{}.Filled()
	if err != nil || c.Match != "*" || c.PollEvery != 100*time.Millisecond || c.MaxKeys != 1000 ||
		c.MaxWriters != 1000 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []struct {
		cfg  Config
		says string
	}{
		{Config{Lease: -1}, "Lease -1ns: must be at least 0"},
		{Config{Job: -2}, "Job -2ns"},
		{Config{PollEvery: -1}, "PollEvery -1ns"},
		{Config{Greatest: dialect.LongestStamp + 1}, "must be at most"},
		{Config{Lease: time.Minute, Greatest: time.Second}, "Greatest 1s: must be at least Lease 1m0s"},
		{Config{MaxKeys: -1}, "MaxKeys -1"},
		{Config{DB: -1}, "DB -1"},
		{Config{Dialects: []dialect.Dialect{{Name: "half"}}}, "Dialects: no valid dialect"},
	} {
		if _, err := New(bad.cfg); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%v, want %q", err, bad.says)
		}
	}
	if _, err := (Config{Lease: time.Minute, Greatest: time.Minute}).Filled(); err != nil {
		t.Error(err)
	}
}

func TestFindingsAreReadWorstFirst(t *testing.T) {
	want := []Finding{
		{Severity: SeverityError, DB: 1, Key: "z"},
		{Severity: SeverityWarning, DB: 0, Key: "b"},
		{Severity: SeverityWarning, DB: 1, Key: "a", Writer: "1"},
		{Severity: SeverityWarning, DB: 1, Key: "a", Writer: "2", What: "x"},
		{Severity: SeverityWarning, DB: 1, Key: "a", Writer: "2", What: "y"},
		{Severity: SeverityNote},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Finding.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestGuessedBoundProvesNothing(t *testing.T) {
	for b, want := range map[Bound]time.Duration{
		{AtLeast: time.Second}: time.Second, {AtLeast: -time.Second}: 0,
		{AtLeast: time.Second, Guessed: true}: 0,
	} {
		if got := b.Proved(); got != want {
			t.Errorf("%+v proves %v", b, got)
		}
	}
}

package offset

import (
	"slices"
	"testing"
	"time"
)

func TestForgottenWriterIsGone(t *testing.T) {
	f, err := NewFleet(0)
	if err != nil {
		t.Fatal(err)
	}
	f.Writer("anna")
	f.Writer("bert")
	f.Forget("anna")
	if got := f.names(); !slices.Equal(got, []string{"bert"}) {
		t.Errorf("%v", got)
	}
}

func TestIntervalShowsItsEnds(t *testing.T) {
	for i, want := range map[Interval]string{
		{Low: -time.Second, High: 2 * time.Second}:  "−1s … +2s",
		{Low: 0, High: 0}:                           "+0s … +0s",
		{Low: NoLow, High: time.Second}:             "? … +1s",
		{Low: time.Second, High: NoHigh}:            "+1s … ?",
		{Low: -2 * time.Second, High: -time.Second}: "−2s … −1s",
	} {
		if got := i.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What is shown contains what was proved, in few digits.
func TestContradictionNamesKindAndTime(t *testing.T) {
	for _, c := range []struct {
		by          Interval
		from, until int64
		says        string
	}{
		{Interval{time.Second, 2 * time.Second}, 0, 1e9,
			"clock stepped by +1s … +2s, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:01Z"},
		{Interval{-1547597440, -1450372131}, 749301999, 1e9 + 39838001,
			"clock stepped by −1.548s … −1.45s, between 1970-01-01T00:00:00.749Z and 1970-01-01T00:00:01.04Z"},
		{Interval{1450372131, 1547597440}, 0, 0,
			"clock stepped by +1.45s … +1.548s, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:00Z"},
		{Interval{1000000001, 1000002001}, 0, 0,
			"clock stepped by +1s … +1.000003s, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:00Z"},
		{Interval{NoLow, -1}, 0, 0,
			"clock stepped by ? … +0s, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:00Z"},
		{Interval{1, NoHigh}, 0, 0,
			"clock stepped by +0s … ?, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:00Z"},
	} {
		got := Contradiction{Kind: Step, By: c.by, From: time.Unix(0, c.from), Until: time.Unix(0, c.until)}
		if got.String() != c.says {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
}

func TestClockWithoutWriteHasNoLine(t *testing.T) {
	f, err := NewFleet(0)
	if err != nil {
		t.Fatal(err)
	}
	if line, ok := f.Writer("anna").Line(time.Unix(0, 0)); ok {
		t.Errorf("%+v", line)
	}
}

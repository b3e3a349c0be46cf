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

func TestContradictionNamesKindAndTime(t *testing.T) {
	c := Contradiction{Kind: Step, By: Interval{Low: time.Second, High: 2 * time.Second},
		From: time.Unix(0, 0), Until: time.Unix(1, 0)}
	if got, want := c.String(),
		"clock stepped by +1s … +2s, between 1970-01-01T00:00:00Z and 1970-01-01T00:00:01Z"; got != want {
		t.Errorf("%q, want %q", got, want)
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

// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"strings"
	"testing"
	"time"
)

func TestLimitShowsItsBoundOrNone(t *testing.T) {
	if got := (Limit{Bound: time.Second, Bounded: true}).String(); got != "1s" {
		t.Error(got)
	}
	if got := (Limit{Bound: time.Second}).String(); got != "none" {
		t.Error(got)
	}
}

func TestParameterErrorNamesFieldValueAndBound(t *testing.T) {
	err := &ParameterError{Field: "Lease", Value: 0, Bound: "more than 0"}
	if got := err.Error(); got != "skew: Lease 0: must be more than 0" {
		t.Error(got)
	}
}

func TestTraceInWordsHasOneLinePerEvent(t *testing.T) {
	tr := Trace{Events: []Event{
		{At: 0, Who: "old1", What: "clock", Arg: -2, HasArg: true},
		{At: 12, Who: "old1", What: "setnx", Result: "won"},
		{At: 13, Who: "server", What: "step", Arg: 3, HasArg: true},
	}}
	lines := strings.Split(strings.TrimSuffix(tr.Words(), "\n"), "\n")
	if len(lines) != 3 || lines[0] != "   0  old1   reads its clock, which is -2, and makes its stamp" ||
		!strings.HasPrefix(lines[1], "  12  old1   SETNX: ") ||
		lines[2] != "  13  server its clock steps by +3" {
		t.Errorf("%q", lines)
	}
}

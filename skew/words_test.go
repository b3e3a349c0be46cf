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

func TestGoalsAndRulesAreReadByTheirNames(t *testing.T) {
	for i, name := range goals {
		if g, err := ParseGoal(name); err != nil || g != Goal(i) {
			t.Errorf("%s: %v, %v", name, g, err)
		}
	}
	if _, err := ParseGoal("glory"); err == nil || !strings.Contains(err.Error(), `"glory" is not a goal`) {
		t.Error(err)
	}
	all := Rule(0)
	for i, name := range ruleNames {
		if r, err := ParseRules(name); err != nil || r != 1<<i {
			t.Errorf("%s: %b, %v", name, r, err)
		}
		all |= 1 << i
	}
	if r, err := ParseRules(all.String()); err != nil || r != all {
		t.Errorf("%b, %v, want %b", r, err, all)
	}
	if r, err := ParseRules(""); err != nil || r != 0 {
		t.Errorf("%b, %v", r, err)
	}
	for _, bad := range []string{"no such rule", ruleNames[0] + "x", ruleNames[0] + ", no such rule"} {
		if _, err := ParseRules(bad); err == nil || !strings.Contains(err.Error(), "is not a rule") {
			t.Errorf("%q: %v", bad, err)
		}
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

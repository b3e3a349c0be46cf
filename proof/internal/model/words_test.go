// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"
)

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

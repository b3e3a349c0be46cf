// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// paths returns all fields of a JSON document. Fields of list elements come
// after [].
func paths(prefix string, v any) map[string]bool {
	all := make(map[string]bool)
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			all[prefix+name] = true
			maps.Copy(all, paths(prefix+name+".", inner))
		}
	case []any:
		for _, inner := range v {
			maps.Copy(all, paths(prefix[:max(len(prefix)-1, 0)]+"[].", inner))
		}
	}
	return all
}

// Scripts rely on these names. A missing name is a broken promise; a new name
// is a line in the changelog.
var promised = []string{
	"causes", "causes[].cause", "causes[].overlaps", "causes[].oversold",
	"clocks", "clocks.longest_stop_ms", "clocks.spread_ms", "clocks.steps", "clocks.stops",
	"clocks.told_gap_ms", "clocks.told_spread_ms",
	"groups", "groups[].acquisitions", "groups[].clients", "groups[].commands", "groups[].lost",
	"groups[].name", "groups[].protocol", "groups[].retries", "groups[].sales", "groups[].takeovers",
	"groups[].wait_max_ms", "groups[].wait_p50_ms", "groups[].wait_p99_ms",
	"longest_overlap_ms", "ok", "orders", "overlaps", "overlaps_excused", "overlaps_with_new",
	"overlaps_with_new_excused", "oversold", "oversold_excused",
	"protocol", "refused", "sales", "schema", "seed", "server", "unserved", "virtual_ms", "wall_ms",
}

func TestJSONHasTheFieldsThatScriptsRelyOn(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol = "watch" })
	text, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(paths("", v)))
	if !slices.Equal(got, promised) {
		t.Errorf("fields are\n%q, want\n%q", got, promised)
	}
}

func TestUnknownValuesAreNull(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol = "none" })
	res.VirtualMS = nil // as on a real server
	text, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		VirtualMS any `json:"virtual_ms"`
		Groups    []map[string]any
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"virtual_ms": v.VirtualMS, "wait_p50_ms": v.Groups[0]["wait_p50_ms"],
		"wait_p99_ms": v.Groups[0]["wait_p99_ms"],
	} {
		if value != nil {
			t.Errorf("%s is %v", name, value)
		}
	}
}

func TestGroupsAreSortedByName(t *testing.T) {
	protocols["test-many"] = protocolKind{
		groups: func(p Plan) []groupSpec {
			var all []groupSpec
			for i := range 5 {
				all = append(all, groupSpec{name: fmt.Sprint("g", (i*3+1)%5), clients: 1,
					make: newTransactions})
			}
			return all
		},
		rules: func(Plan) (rules, error) { return rules{}, nil },
	}
	defer delete(protocols, "test-many")
	res := rehearse(t, func(p *Plan) { p.Protocol = "test-many" })
	if !slices.IsSortedFunc(res.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Errorf("%+v", res.Groups)
	}
}

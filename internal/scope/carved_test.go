package scope

import (
	"testing"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// A carved namespace takes its keys out of the shorter one's scope. Every
// encoding is tried, for L and for M.
func TestCarvedKeysBelongToTheLongestNamespace(t *testing.T) {
	for _, e := range spellings {
		all, order := Namespace("", e).Except("order:", "order:eu:"),
			Namespace("order:", e).Except("order:eu:")
		for name, owner := range map[string]string{
			"stock:1": "", "order": "", "order:1": "order:", "order:eu": "order:", "order:eu:1": "order:eu:",
		} {
			// An M without a tag of its own may also belong to the L with
			// braces.
			for _, key := range []string{spelled(t, name, e), Mark(spelled(t, name+"{x}", e))} {
				if got := all.Covers(0, key); got != (owner == "") {
					t.Errorf("%v %q: covered by the empty namespace: %v", e, key, got)
				}
				if got := order.Covers(0, key); got != (owner == "order:") {
					t.Errorf("%v %q: covered by order: %v", e, key, got)
				}
			}
			if got := Carved(name, []string{"order:", "order:eu:"}); got != owner {
				t.Errorf("%q is carved into %q, want %q", name, got, owner)
			}
		}
	}
	if s := Namespace("", dialect.Plain).Except(); !s.Covers(0, "x") || s.Covers(1, "x") {
		t.Error("Except without exceptions changed the scope")
	}
}

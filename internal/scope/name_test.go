// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"strings"
	"testing"
)

// Other languages write these names too, so the test pins them.
func TestNameHasNoColonAndReadsBack(t *testing.T) {
	for namespace, want := range map[string]string{
		"":            "",
		"stock":       "stock",
		"order:":      "order%3A",
		"a:b":         "a%3Ab",
		"{cart}:":     "%7Bcart%7D%3A",
		"50%":         "50%25",
		"%3A":         "%253A",
		"night run":   "night run",
		"gr\u00fcn.1": "gr\u00fcn.1",
	} {
		name := InName(namespace)
		if name != want {
			t.Errorf("the name of %q is %q, want %q", namespace, name, want)
		}
		if strings.ContainsAny(name, ":{}") {
			t.Errorf("%q contains a character that ends a name", name)
		}
		if back, ok := OfName(name); !ok || back != namespace {
			t.Errorf("%q reads back as %q, %v", name, back, ok)
		}
	}
	for _, never := range []string{"a:b", "{a}", "%", "%3a", "%41"} {
		if back, ok := OfName(never); ok {
			t.Errorf("%q is read as the name of %q, but InName never returns it", never, back)
		}
	}
}

func TestNamespaceOfControlCharactersIsRefused(t *testing.T) {
	for _, bad := range []string{"a\n", "\x00", "\xff", "a\u2028b"} {
		if IsName(bad) {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, good := range []string{"", "order:", "{cart}:", "a b", "50%", "\u9501:"} {
		if !IsName(good) {
			t.Errorf("%q is refused", good)
		}
	}
}

func FuzzNameReadsBack(f *testing.F) {
	f.Add("order:%3A{}")
	f.Fuzz(func(t *testing.T, namespace string) {
		name := InName(namespace)
		if back, ok := OfName(name); !ok || back != namespace || strings.ContainsAny(name, ":{}") {
			t.Errorf("%q is named %q, which reads back as %q, %v", namespace, name, back, ok)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"path"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

var spellings = []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}

// spelled returns the name as a client with that encoding sends it.
func spelled(t *testing.T, name string, e dialect.Encoding) string {
	t.Helper()
	key, err := (dialect.Dialect{KeyEncoding: e}).EncodeKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// The keys are those that clients send, L and M. A watch's marker is a key of
// the namespace too and must be covered like one.
func TestScopeCoversEachSpellingInItsDatabase(t *testing.T) {
	if spelled(t, "lock", dialect.JDK) != "\xac\xed\x00\x05t\x00\x04lock" {
		t.Fatal("this is not how Spring encodes the key")
	}
	matching := Matching("lock*").In(3)
	for _, e := range spellings {
		owns := Namespace("lock", e).In(3)
		for name, want := range map[string]bool{
			"lock": true, "lock:x": true, "lockgsl-sight:46pp": true, "loc": false, "a:lock": false,
			"": false} {
			key := spelled(t, name, e)
			for _, key := range []string{key, Mark(key)} {
				if matching.Covers(3, key) != want || owns.Covers(3, key) != want {
					t.Errorf("%s %q: matching %v, namespace %v", e, key, matching.Covers(3, key),
						owns.Covers(3, key))
				}
				if matching.Covers(0, key) || owns.Covers(0, key) {
					t.Errorf("%s %q is covered in database 0", e, key)
				}
			}
		}
		for _, other := range spellings {
			if key := spelled(t, "lock:x", other); owns.Covers(3, key) != (e == other) {
				t.Errorf("%s owns %q: %v", e, key, owns.Covers(3, key))
			}
		}
	}
}

// The test spells the marker of each pattern and namespace, and reads it back.
// A pattern without a star has no marker.
func TestScopeCoversItsOwnMarker(t *testing.T) {
	nonce := strings.Repeat("A2", 13)
	for pattern, want := range map[string]string{
		"": "gsl-sight:%", "*": "gsl-sight:%", "lock:*": "lock:gsl-sight:%", "*:lock": "gsl-sight:%:lock",
		"a*b*c": "agsl-sight:%bc", "[kl]o?k*": "koakgsl-sight:%",
		`lo\*ck*`: "lo*ckgsl-sight:%", "lock": "", `lock\*`: "", "[*]x": "",
	} {
		s := Matching(pattern).In(3)
		name, ok := s.Sight(nonce)
		if want = strings.ReplaceAll(want, "%", nonce); name != want || ok != (want != "") {
			t.Errorf("%q is marked by %q, %v", pattern, name, ok)
		}
		if !ok {
			continue
		}
		for _, e := range spellings {
			key := spelled(t, name, e)
			got, by, is := Sighted(key)
			if !is || got != nonce || by != e || !s.Covers(3, key) || s.Covers(0, key) {
				t.Errorf("%q in %s: %q, %v, %v", key, e, got, by, is)
			}
		}
	}
	for _, begin := range []string{"", "lock", `l"k`, "l\u00e9"} {
		for _, e := range spellings {
			s := Namespace(begin, e)
			if name, ok := s.Sight(nonce); !ok || !s.Covers(0, spelled(t, name, e)) {
				t.Errorf("%q is marked by %q", begin, name)
			}
		}
	}
	for _, key := range []string{"lock", "gsl-sight:", "gsl-sight:short",
		"gsl-sight:" + strings.Repeat("a", 26)} {
		if _, _, is := Sighted(key); is {
			t.Errorf("%q is a marker", key)
		}
	}
}

func TestScopeLeavesOutABrokenSpelling(t *testing.T) {
	s := Matching("lock*")
	for _, key := range []string{
		"\xac\xed\x00\x05t\x00\x05lock", "\xac\xed\x00\x05s\x00\x04lock", "\xac\xed\x00\x05t\x00\x04",
		"\xac\xed", `"lock`, `"`, `"\u006cock"`, "",
	} {
		if s.Covers(0, key) {
			t.Errorf("%q is covered", key)
		}
	}
}

func TestEmptyNamespaceOwnsEveryKeyOfItsSpelling(t *testing.T) {
	for _, e := range spellings {
		for _, other := range spellings {
			key := spelled(t, "lock", other)
			if got, want := Namespace("", e).Covers(0, key), e == dialect.Plain || e == other; got != want {
				t.Errorf("%s owns %q: %v", e, key, got)
			}
			if !Matching("").Covers(0, key) || !Matching("*").Covers(0, key) || (Scope{}).Covers(0, key) {
				t.Errorf("%q", key)
			}
		}
	}
}

// The names include characters that a serializer changes.
func TestPatternFindsEveryCoveredKey(t *testing.T) {
	names := []string{"lock", "lock:x", `lock"x`, `lock\x`, "lock*x", "lock?x", "lock[x", "lock\nx",
		"lock\x00x", "lock\u00e9", "lock\U0001f512x", "a:lock", "x"}
	for _, pattern := range []string{
		"*", "lock*", "lock", "*lock", "l?ck*", "[kl]ock*", `lock\**`, `lock\"*`, "lock\U0001f512*",
		"lock\n*", "*x", "lock:[x-z]", "lock??"} {
		s := Matching(pattern)
		for _, name := range names {
			for _, e := range spellings {
				key := spelled(t, name, e)
				for _, key := range []string{key, Mark(key)} {
					if s.Covers(0, key) && !matches(s.Pattern(), key) {
						t.Errorf("%q covers %q, and %q does not find it", pattern, key, s.Pattern())
					}
				}
			}
		}
	}
	for _, begin := range names {
		for _, e := range spellings {
			s := Namespace(begin, e)
			for _, key := range []string{
				spelled(t, begin, e), spelled(t, begin+":1", e), Mark(spelled(t, begin+":1", e))} {
				if !s.Covers(0, key) || !matches(s.Pattern(), key) {
					t.Errorf("%s %q by %q", e, key, s.Pattern())
				}
			}
		}
	}
	for pattern, want := range map[string]string{
		"": "*", "***": "*", "lock:*": "*lock:*", "stock": "*stock*", "*:lock": "*:lock*", "a*b": "*a*b*",
		"lock:[0-9]*": "*lock:*", `lo\*ck*`: `*lo\*ck*`, `a\*`: `*a\**`, `\`: "*",
	} {
		if got := Matching(pattern).Pattern(); got != want {
			t.Errorf("the pattern of %q is %q", pattern, got)
		}
	}
}

func TestPatternsMatchAsOnTheServer(t *testing.T) {
	for _, c := range []struct {
		pattern, key string
		want         bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"lock:*", "lock:", true}, {"lock:*", "lock", false},
		{"*:lock", "a:lock:lock", true}, {"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false}, {"?", "", false}, {"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false},
		{"[c-a]x", "bx", true}, {`\*`, "*", true}, {`\*`, "x", false},
		{`[\]]`, "]", true}, {"[abc", "c", true}, {"", "", true}, {"", "x", false},
	} {
		if got := matches(c.pattern, c.key); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.key, got)
		}
	}
	for _, pattern := range []string{"a*", "*a*", "?b*", "x[a-z]y"} {
		for _, key := range []string{"", "a", "ab", "bab", "xby", "xBy"} {
			if want, _ := path.Match(pattern, key); matches(pattern, key) != want {
				t.Errorf("%q on %q: path.Match says %v", pattern, key, want)
			}
		}
	}
	if matches(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 5000)) {
		t.Error("matched")
	}
}

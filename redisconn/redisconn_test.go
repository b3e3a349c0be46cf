// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestAddressesAreReadAsDocumented(t *testing.T) {
	for raw, want := range map[string]struct {
		hosts, path, master, user, password, redacted string
		db                                            int
	}{
		"redis://127.0.0.1:6379": {
			hosts: "127.0.0.1:6379", redacted: "redis://127.0.0.1:6379"},
		"redis://cache":     {hosts: "cache:6379", redacted: "redis://cache:6379"},
		"REDIS://cache/":    {hosts: "cache:6379", redacted: "redis://cache:6379"},
		"redis://cache:1/3": {hosts: "cache:1", db: 3, redacted: "redis://cache:1/3"},
		"redis://:word@cache/3": {
			hosts: "cache:6379", db: 3, password: "word", redacted: "redis://:***@cache:6379/3"},
		"redis://app:a%40%2Fb@cache": {
			hosts: "cache:6379", user: "app", password: "a@/b", redacted: "redis://app:***@cache:6379"},
		"redis://app:a@b:c@cache": {
			hosts: "cache:6379", user: "app", password: "a@b:c", redacted: "redis://app:***@cache:6379"},
		"rediss://[::1]:7000/1": {
			hosts: "[::1]:7000", db: 1, redacted: "rediss://[::1]:7000/1"},
		"rediss://[::1]": {hosts: "[::1]:6379", redacted: "rediss://[::1]:6379"},
		"unix:///run/redis.sock": {
			path: "/run/redis.sock", redacted: "unix:///run/redis.sock"},
		"unix:///run/a%20b@c.sock?db=2": {
			path: "/run/a b@c.sock", db: 2, redacted: "unix:///run/a%20b@c.sock?db=2"},
		"unix:///s?user=app&password=a%40b": {
			path: "/s", user: "app", password: "a@b", redacted: "unix://app:***@/s"},
		"unix://app:word@/s": {
			path: "/s", user: "app", password: "word", redacted: "unix://app:***@/s"},
		"redis+sentinel://a,b:1,[::2]/mymaster": {
			hosts: "a:26379 b:1 [::2]:26379", master: "mymaster",
			redacted: "redis+sentinel://a:26379,b:1,[::2]:26379/mymaster"},
		"redis://app@cache":   {hosts: "cache:6379", user: "app", redacted: "redis://***@cache:6379"},
		"redis://app:@cache/": {hosts: "cache:6379", user: "app", redacted: "redis://***@cache:6379"},
		"rediss+sentinel://app@a/m": {
			hosts: "a:26379", master: "m", user: "app", redacted: "rediss+sentinel://***@a:26379/m"},
		"redis+sentinel://:word@a/my%2Fm/4": {
			hosts: "a:26379", master: "my/m", db: 4, password: "word",
			redacted: "redis+sentinel://:***@a:26379/my%2Fm/4"},
		"redis+cluster://a,b:1,[::2]": {
			hosts: "a:6379 b:1 [::2]:6379", redacted: "redis+cluster://a:6379,b:1,[::2]:6379"},
		"rediss+cluster://app:word@a/": {
			hosts: "a:6379", user: "app", password: "word", redacted: "rediss+cluster://app:***@a:6379"},
	} {
		a, err := Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got := want
		got.hosts, got.path, got.master = strings.Join(a.hosts, " "), a.path, a.master
		got.user, got.password, got.db, got.redacted = a.user, a.password, a.db, a.Redacted()
		if got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", raw, got, want)
		}
	}
}

// Each address has one fault, and holds the password s3cret@x in one of its
// spellings.
var wrong = map[string]string{
	"s3cret%40x@host:6379":                        "must begin with",
	"http://:s3cret%40x@host":                     "must begin with",
	"etcds://:s3cret%40x@host":                    "takes it by --target",
	"zookeeper://:s3cret%40x@host":                "takes it by --target",
	"redis:/:s3cret%40x@host":                     "must begin with",
	"s3cret%40x://host":                           "must begin with",
	"redis://app:s3cret%4@host":                   "two hexadecimal digits",
	"redis://s3cret%zz:word@host":                 "two hexadecimal digits",
	"redis://:a/s3cret%40x@host/0":                "percent-encoded",
	"redis://:a?s3cret%40x@host/0":                "percent-encoded",
	"redis://:a#s3cret%40x@host/0":                "percent-encoded",
	"redis://:s3cret%40x@":                        "no host",
	"redis://:s3cret%40x@:6379":                   "no host",
	"redis://app:s3cret%40x":                      "not a port",
	"redis://host:0/s3cret%40x":                   "not a port",
	"redis://:s3cret%40x@a:b:6379":                "brackets",
	"redis://:s3cret%40x@host:99999":              "not a port",
	"redis://host/s3cret%40x":                     "number of a database",
	"redis://:s3cret%40x@host/-1":                 "number of a database",
	"redis://:s3cret%40x@host/0?db=1":             "no ?parameters",
	"redis://:s3cret%40x@host?password=s3cret%40": "no ?parameters",
	"redis://:s3cret%40x@a,b":                     "several hosts",
	"redis+sentinel://:s3cret%40x@a,b":            "sentinels know the master",
	"redis+sentinel://:s3cret%40x@a,,b/m":         "no host",
	"redis+sentinel://:s3cret%40x@a/m/s3cret":     "number of a database",
	"redis+cluster://:s3cret%40x@a,b/1":           "no numbered databases",
	"redis+cluster://:s3cret%40x@a,,b":            "no host",
	"unix://s3cret%40x/run/redis.sock":            "three slashes",
	"unix://:s3cret%40x@host/run/redis.sock":      "three slashes",
	"unix:///run?pass=s3cret%40x":                 "only db, user and password",
	"unix:///run?s3cret%40x":                      "only db, user and password",
	"unix:///run?password=s3cret%4":               "two hexadecimal digits",
	"unix:///run?db=s3cret%40x":                   "number of a database",
	"unix://:s3cret%40x@/run?password=s3cret":     "two places",
	"unix:///run%zzs3cret":                        "path of its socket",
}

func TestParseExplainsAFaultAndDoesNotRepeatIt(t *testing.T) {
	for raw, says := range wrong {
		_, err := Parse(raw)
		if err == nil {
			t.Errorf("%s: accepted", raw)
			continue
		}
		if text := err.Error(); !strings.Contains(text, says) || strings.Contains(text, "s3cret") ||
			strings.ContainsRune(text, '\n') {
			t.Errorf("%s: %s", raw, text)
		}
	}
}

func TestNoVerbPrintsThePassword(t *testing.T) {
	a, err := Parse("redis://app:s3cret%40x@host/1")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"a": a, "p": &a})
	if err != nil {
		t.Fatal(err)
	}
	type holder struct {
		A Address
		P *Address
	}
	for _, text := range []string{
		string(encoded), a.String(), a.GoString(),
		fmt.Sprintf("%v %+v %#v %s %q %d %x", a, a, a, a, a, a, a),
		fmt.Sprintf("%v %+v %#v %s %x", &a, &a, &a, &a, &a),
		fmt.Sprintf("%v %+v", holder{a, &a}, holder{a, &a}),
	} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, fmt.Sprintf("%x", "s3cret")) {
			t.Error(text)
		}
		if !strings.Contains(text, "redis://app:") {
			t.Errorf("says nothing: %s", text)
		}
	}
}

func TestPickPrefersFlagThenEnvironmentThenDefault(t *testing.T) {
	env := map[string]string{Env: "redis://env"}
	get := func(k string) string { return env[k] }
	if got := Pick("redis://flag", get); got != "redis://flag" {
		t.Error(got)
	}
	if got := Pick("", get); got != "redis://env" {
		t.Error(got)
	}
	if got := Pick("", func(string) string { return "" }); got != Default {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for raw := range wrong {
		f.Add(raw)
	}
	f.Add("redis://app:a%40b@cache:1/3")
	f.Add("redis+sentinel://a,b:1,[::2]/my%20master/2")
	f.Add("unix:///run/a%20b@c.sock?db=2")
	f.Add("rediss+sentinel://app@a,b/m")
	f.Add("rediss+cluster://app@a,b")
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := Parse(raw)
		if err != nil {
			if a.kind != "" {
				t.Fatalf("an address together with an error: %v", a)
			}
			return
		}
		if a.password != "" {
			return
		}
		b, err := Parse(a.Redacted())
		if err != nil || b.Redacted() != a.Redacted() || b.db != a.db || b.path != a.path ||
			b.master != a.master {
			t.Fatalf("%q became %q, which is %v (%v)", raw, a.Redacted(), b, err)
		}
	})
}

// Only Nodes leads to a cluster. What needs one server refuses it, and Nodes
// gives no seeds for one server.
func TestClusterHasNodesAndNoPool(t *testing.T) {
	a, err := Parse("redis+cluster://a:1,b:2")
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := a.Nodes(Options{}); err != nil || strings.Join(nodes.Seeds, " ") != "a:1 b:2" {
		t.Errorf("nodes %q, %v", nodes.Seeds, err)
	}
	if _, err := a.Pool(Options{}); err == nil || !strings.Contains(err.Error(), "several nodes") {
		t.Errorf("pool: %v", err)
	}
	if _, err := Open(t.Context(), "redis+cluster://a:1", Options{}); err == nil ||
		!strings.Contains(err.Error(), "several nodes") {
		t.Errorf("open: %v", err)
	}
	one, err := Parse("redis://a")
	if err != nil {
		t.Fatal(err)
	}
	if nodes, err := one.Nodes(Options{}); err != nil || len(nodes.Seeds) > 0 {
		t.Errorf("nodes of one server: %q, %v", nodes.Seeds, err)
	}
}

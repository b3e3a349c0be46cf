// SPDX-License-Identifier: Apache-2.0

package backing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

var both = map[string]Store{"etcd": {Name: "etcd", Port: "2379"},
	"zookeeper": {Name: "ZooKeeper", Port: "2181", Path: "chroot"}}

func TestAddressNamesServersUserAndPath(t *testing.T) {
	for raw, want := range map[string]Address{
		"etcd://a":             {Scheme: "etcd", Servers: []string{"a:2379"}},
		"etcd://a:1,b,[::1]:3": {Scheme: "etcd", Servers: []string{"a:1", "b:2379", "[::1]:3"}},
		"etcds://u:p%2Fw@a/": {
			Scheme: "etcd", TLS: true, User: "u", password: "p/w", Servers: []string{"a:2379"}},
		"ETCD://a":   {Scheme: "etcd", Servers: []string{"a:2379"}},
		"etcd://u@a": {Scheme: "etcd", User: "u", Servers: []string{"a:2379"}},
		"zookeeper://a,b:5/locks/of%20me": {
			Scheme: "zookeeper", Servers: []string{"a:2181", "b:5"}, Path: "/locks/of me"},
	} {
		got, store, err := Parse(raw, both)
		if err != nil || got.Scheme != want.Scheme || got.TLS != want.TLS || got.User != want.User ||
			got.password != want.password || got.Path != want.Path ||
			!slices.Equal(got.Servers, want.Servers) {
			t.Errorf("%s: %+v %q %q, %v", raw, got, got.Path, got.password, err)
		}
		if store.Name != both[want.Scheme].Name {
			t.Errorf("%s: store %q", raw, store.Name)
		}
	}
}

func TestAddressNeverShowsItsPassword(t *testing.T) {
	a, _, err := Parse("zookeepers://ann:s3cret@a,b/x", both)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{a.String(), fmt.Sprintf("%+v %#v %s", a, a, a)} {
		if strings.Contains(text, "s3cret") ||
			!strings.Contains(text, "zookeepers://ann:***@a:2181,b:2181/x") {
			t.Errorf("%q", text)
		}
	}
	for _, raw := range []string{"etcd://ann:s3cret@", "etcd://ann:s3c%ret@a", "etcd://ann:s3cret@a/path",
		"etcd://ann:/s3cret@a", "s3cret://a", "s3cret", "etcd://:s3cret@a", "etcd://a b@s3cret:1:2",
		"ann:s3cret@host://x", "zookeeper://a/%zs3cret"} {
		_, _, err := Parse(raw, both)
		if err == nil || strings.Contains(err.Error(), "s3cret") && !strings.HasPrefix(raw, "s3cret:") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestWrongAddressSaysWhatToWrite(t *testing.T) {
	for raw, want := range map[string]string{
		"10.0.0.1:2379":  "write etcd://host:port or zookeeper://host:port",
		"consul://a":     `"consul" is unknown: write etcd://host:port`,
		"redis://a":      "redis:// is an address for --redis",
		"unix:///s":      "unix:// is an address for --redis",
		"etcd://a/x":     "has no path",
		"etcd://a,,b":    "write etcd://host:port,host:port",
		"etcd://a:72000": "no number from 1 to 65535: write etcd://host:port",
		"etcd://a:0,b":   "no number from 1 to 65535",
		"etcd://a:http":  "no number from 1 to 65535",
		"zookeeper:///x": "write zookeeper://host:port,host:port",
	} {
		if _, _, err := Parse(raw, both); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestSmallCommandNamesTheFullOne(t *testing.T) {
	for _, raw := range []string{"etcd://a", "etcds://a", "zookeeper://a/x", "zookeepers://a"} {
		_, _, err := Parse(raw, nil)
		if err == nil || !strings.Contains(err.Error(), Install) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

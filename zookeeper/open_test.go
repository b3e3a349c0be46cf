// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"slices"
	"strings"
	"testing"
)

func TestParseReadsAddresses(t *testing.T) {
	for _, c := range []struct {
		address string
		servers []string
		want    Config
	}{
		{"zookeeper://a:1,b:2/locks", []string{"a:1", "b:2"}, Config{Chroot: "/locks"}},
		{"zookeeper://a", []string{"a"}, Config{}},
		{"zookeeper://[::1]:2181/", []string{"[::1]:2181"}, Config{}},
		{"zookeeper://a/shop/locks/", []string{"a"}, Config{Chroot: "/shop/locks"}},
		{"zookeeper://a/100%25", []string{"a"}, Config{Chroot: "/100%"}},
		{"zookeeper://ann:s%40%2F@a/l", []string{"a"}, Config{Chroot: "/l", User: "ann", Password: "s@/"}},
		{"zookeeper://ann:s@cret@a", []string{"a"}, Config{User: "ann", Password: "s@cret"}},
	} {
		servers, cfg, err := Parse(c.address, Config{})
		if err != nil || !slices.Equal(servers, c.servers) || cfg.Chroot != c.want.Chroot ||
			cfg.User != c.want.User || cfg.Password != c.want.Password {
			t.Errorf("%s: %q, %+v, %v", c.address, servers, cfg, err)
		}
	}
	_, cfg, err := Parse("zookeeper://a", Config{Chroot: "/locks", User: "ann", Password: "secret"})
	if err != nil || cfg.Chroot != "/locks" || cfg.User != "ann" || cfg.Password != "secret" {
		t.Errorf("the Config's own choices: %+v, %v", cfg, err)
	}
}

func TestParseRefusesWhatIsNoAddress(t *testing.T) {
	for _, c := range []struct {
		address string
		cfg     Config
		word    string
	}{
		{"etcd://a", Config{}, "zookeeper://"},
		{"a:2181", Config{}, "zookeeper://"},
		{"zookeeper://", Config{}, "lacks a server"},
		{"zookeeper://a,,b", Config{}, "lacks a server"},
		{"zookeeper://a/l?x=1", Config{}, "%3F"},
		{"zookeeper://a/%zz", Config{}, "cannot be read"},
		{"zookeeper://:secret@a", Config{}, "user"},
		{"zookeeper://a/one", Config{Chroot: "/two"}, "/two"},
		{"zookeeper://ann:secret@a", Config{User: "bob"}, "Config.User"},
		{"zookeeper://ann:se/secret@a?", Config{}, "ann:…@a"},
	} {
		_, _, err := Parse(c.address, c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: the error does not say %q: %v", c.address, c.word, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", c.address, err)
		}
	}
}

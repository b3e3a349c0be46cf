// SPDX-License-Identifier: Apache-2.0

package backing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parsed(t *testing.T, raw string) Address {
	t.Helper()
	a, _, err := Parse(raw, both)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPasswordComesFromOnePlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "word")
	if err := os.WriteFile(file, []byte("from file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		raw        string
		o          Options
		want, says string
	}{
		{"etcd://a", Options{}, "", ""},
		{"etcd://u:p@a", Options{}, "p", ""},
		{"etcd://u@a", Options{Password: "q"}, "q", ""},
		{"etcd://u@a", Options{PasswordFile: file}, "from file", ""},
		{"etcd://u:p@a", Options{PasswordFile: file}, "", "in two ways"},
		{"etcd://u@a", Options{Password: "q", PasswordFile: file}, "", "in two ways"},
		{"etcd://u@a", Options{}, "", "--password-file"},
		{"etcd://a", Options{Password: "q"}, "", "write etcd://user@host:port"},
		{"etcd://u@a", Options{PasswordFile: empty}, "", "is empty"},
		{"etcd://u@a", Options{PasswordFile: "/no/file"}, "", "reading the password: open /no/file"},
	} {
		got, err := c.o.Login(parsed(t, c.raw))
		if got != c.want || (err == nil) != (c.says == "") ||
			err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %+v: %q, %v", c.raw, c.o, got, err)
		}
	}
}

func TestCertificatesNeedAnAddressWithTLS(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		raw  string
		o    Options
		says string
	}{
		{"etcd://a", Options{CACert: "x"}, "write the address as etcds://"},
		{"zookeeper://a", Options{Cert: "x", Key: "y"}, "write the address as zookeepers://"},
		{"etcds://a", Options{CACert: "/no/file"}, "--cacert"},
		{"etcds://a", Options{CACert: bad}, "holds no PEM certificate"},
		{"etcds://a", Options{Cert: "x"}, "give both"},
		{"etcds://a", Options{Cert: bad, Key: bad}, "the client certificate"},
	} {
		if err := c.o.Check(parsed(t, c.raw)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %+v: %v", c.raw, c.o, err)
		}
	}
	if config, err := (Options{}).TLS(parsed(t, "etcd://a")); config != nil || err != nil {
		t.Errorf("without TLS: %v, %v", config, err)
	}
	if config, err := (Options{}).TLS(parsed(t, "etcds://a")); config == nil || err != nil {
		t.Errorf("with TLS: %v, %v", config, err)
	}
}

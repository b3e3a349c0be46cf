// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Nothing is sent: each of these is wrong before that.
func TestPoolRefusesOptionsThatContradict(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	word, empty, lines := file("word", "s3cret\n"), file("empty", "\n"), file("lines", "s3cret\ns3cret\n")
	tokens := func(context.Context) (string, string, error) { return "", "", nil }
	conn := func(context.Context) (net.Conn, error) { return nil, nil }
	const sentinels = "redis+sentinel://a/m"
	for _, c := range []struct {
		address string
		options Options
		says    string
	}{
		{"redis://s3cret@host", Options{}, "a user and no password"},
		{"redis://s3cret:@host", Options{}, "a user and no password"},
		{"unix:///run?user=s3cret", Options{}, "a user and no password"},
		{"redis://host", Options{User: "s3cret"}, "$GETSETLOCK_PASSWORD_FILE"},
		{"redis://:s3cret@host", Options{Password: "s3cret"}, "in two ways"},
		{"redis://:s3cret@host", Options{PasswordFile: word}, "in two ways"},
		{"redis://host", Options{Password: "s3cret", PasswordFile: word},
			"$GETSETLOCK_PASSWORD, Options.Password), a file (--password-file, $GETSETLOCK_PASSWORD_FILE"},
		{"redis://host", Options{Credentials: tokens, PasswordFile: word}, "in two ways"},
		{"redis://host", Options{Credentials: tokens, User: "app"}, "leave Options.User empty"},
		{"redis://app@host", Options{User: "app", Password: "s3cret"}, "given twice"},
		{"redis://host", Options{PasswordFile: filepath.Join(dir, "none")}, "no such file"},
		{"redis://host", Options{PasswordFile: empty}, "is empty"},
		{"redis://host", Options{PasswordFile: lines}, "several lines"},
		{"redis://host", Options{SentinelPassword: "s3cret"}, "redis+sentinel://"},
		{sentinels, Options{SentinelPassword: "s3cret", SentinelPasswordFile: word},
			"$GETSETLOCK_SENTINEL_PASSWORD_FILE"},
		{sentinels, Options{SentinelUser: "s3cret"}, "has no password"},
		{sentinels, Options{SentinelPasswordFile: empty}, "is empty"},
		{sentinels, Options{SentinelPlain: true}, "nothing is encrypted"},
		{"redis://host", Options{Cert: word, Key: word}, "begin with rediss://"},
		{"redis://host", Options{TLS: new(tls.Config)}, "begin with rediss://"},
		{"rediss://host", Options{Key: word}, "$GETSETLOCK_CERT and $GETSETLOCK_KEY_FILE"},
		{"rediss://host", Options{Cert: word, Key: word}, "failed to find any PEM data"},
		{sentinels, Options{Conn: conn}, "write the address as redis://"},
		{"redis://host", Options{Conn: conn, DialContext: new(net.Dialer).DialContext}, "give one"},
	} {
		a, err := Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Pool(c.options)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s, wants %q: %v", c.address, c.says, err)
		}
	}
}

func TestVariablesFitTheAddress(t *testing.T) {
	all := func(name string) string { return name }
	password := Options{Password: EnvPassword, PasswordFile: EnvPasswordFile}
	certs := Options{CACert: EnvCACert, CACertFrom: "$" + EnvCACert, Cert: EnvCert, Key: EnvKeyFile}
	for address, want := range map[string]Options{
		"redis://app@host":   password,
		"redis://:word@host": {},
		"rediss://:w@host":   certs,
		"http://host":        {},
		"rediss+sentinel://:w@a/m": {CACert: certs.CACert, CACertFrom: certs.CACertFrom, Cert: EnvCert,
			Key: EnvKeyFile, SentinelUser: EnvSentinelUser, SentinelPassword: EnvSentinelPassword,
			SentinelPasswordFile: EnvSentinelPasswordFile},
	} {
		if got := OptionsFromEnv(address, all); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", address, got, want)
		}
	}
}

// The variables of the environment are no password by themselves.
func TestLibraryReadsNoVariable(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireAuth("s3cret")
	t.Setenv(EnvPassword, "s3cret")
	if _, err := Open(t.Context(), "redis://"+m.Addr(), Options{}); err == nil ||
		!strings.Contains(err.Error(), "demands a password") {
		t.Error(err)
	}
	o := OptionsFromEnv("redis://"+m.Addr(), os.Getenv)
	pool, err := Open(t.Context(), "redis://"+m.Addr(), o)
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
}

func TestOpenTellsWhereNobodyListens(t *testing.T) {
	_, err := Open(t.Context(), "redis://:s3cret@"+nobody(t), Options{})
	if err == nil || !strings.Contains(err.Error(), "could not open redis://:***@127.0.0.1:1: ") ||
		!strings.Contains(err.Error(), "nothing listens there") {
		t.Error(err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package out

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/redisconn"
)

func TestEnvironmentsCertificatesBelongToItsServer(t *testing.T) {
	const env, file = redisconn.Env, redisconn.EnvCACert
	for _, c := range []struct {
		flags      ServerFlags
		vars       map[string]string
		raw, certs string
	}{
		{ServerFlags{}, nil, redisconn.Default, ""},
		{ServerFlags{}, map[string]string{file: "/e.pem"}, redisconn.Default, ""},
		{ServerFlags{}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://e", "/e.pem"},
		{ServerFlags{}, map[string]string{env: "redis://e", file: "/e.pem"}, "redis://e", ""},
		{ServerFlags{}, map[string]string{env: "unix:///e", file: "/e.pem"}, "unix:///e", ""},
		{ServerFlags{CACert: "/f.pem"}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://e",
			"/f.pem"},
		{ServerFlags{Redis: "rediss://f"}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://f",
			""},
		{ServerFlags{Redis: "rediss://f", CACert: "/f.pem"}, map[string]string{file: "/e.pem"}, "rediss://f",
			"/f.pem"},
		// Without an address in the environment, it belongs to the flag's.
		{ServerFlags{Redis: "rediss://f"}, map[string]string{file: "/e.pem"}, "rediss://f", "/e.pem"},
		{ServerFlags{Redis: "rediss://e"}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://e",
			"/e.pem"},
	} {
		e := &Env{Getenv: func(name string) string { return c.vars[name] }}
		if raw, options := c.flags.Picked(e); raw != c.raw || options.CACert != c.certs {
			t.Errorf("%+v, %v: %q and %q, want %q and %q", c.flags, c.vars, raw, options.CACert, c.raw,
				c.certs)
		}
	}
}

func TestEnvironmentHasTheWholePathOfCertificates(t *testing.T) {
	e := &Env{Getenv: func(string) string { return "" }}
	f := ServerFlags{Redis: "rediss://app@f/2", CACert: "f.pem", Cert: "c.pem", Key: "k.pem",
		PasswordFile: "word"}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"GETSETLOCK_REDIS=rediss://app@f/2", "GETSETLOCK_PASSWORD_FILE=" + here + "/word",
		"GETSETLOCK_CACERT=" + here + "/f.pem", "GETSETLOCK_CERT=" + here + "/c.pem",
		"GETSETLOCK_KEY_FILE=" + here + "/k.pem"}
	if got := f.Environment(e); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A password must not reach a server that it is not for.
func TestPasswordsBelongToTheirServer(t *testing.T) {
	vars := map[string]string{"GETSETLOCK_PASSWORD": "s3cret", "GETSETLOCK_SENTINEL_PASSWORD": "s3cret2"}
	e := &Env{Getenv: func(name string) string { return vars[name] }}
	for _, c := range []struct{ variable, flag, server, sentinel string }{
		{"", "", "s3cret", ""},
		{"", "redis://f", "s3cret", ""},
		{"redis://e", "", "s3cret", ""},
		{"redis://e", "redis://e", "s3cret", ""},
		{"redis://e", "redis://f", "", ""},
		{"redis://:word@e", "", "", ""},
		{"redis+sentinel://e/m", "", "s3cret", "s3cret2"},
		{"redis+sentinel://e/m", "redis+sentinel://f/m", "", ""},
	} {
		vars["GETSETLOCK_REDIS"] = c.variable
		f := ServerFlags{Redis: c.flag}
		_, o := f.Picked(e)
		if o.Password != c.server || o.SentinelPassword != c.sentinel {
			t.Errorf("%+v: got %q and %q", c, o.Password, o.SentinelPassword)
		}
		f.PasswordFile = "word"
		if _, o := f.Picked(e); o.Password != "" || o.PasswordFile != "word" {
			t.Errorf("%+v: with a file got %q and %q", c, o.Password, o.PasswordFile)
		}
	}
}

// The user has set the password that the error asks for, and a rule that is
// easily forgotten keeps it from this server.
func TestErrorNamesPasswordsThatAreNotUsed(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("s3cret")
	vars := map[string]string{"GETSETLOCK_PASSWORD": "s3cret"}
	e := &Env{Getenv: func(name string) string { return vars[name] }}
	for variable, unused := range map[string]bool{"redis://another": true, "": false} {
		vars["GETSETLOCK_REDIS"] = variable
		pool, _, err := (&ServerFlags{Redis: "redis://" + server.Addr()}).Open(e)
		if err != nil {
			t.Fatal(err)
		}
		c, err := pool.DialContext(t.Context())
		if unused != (err != nil) {
			t.Fatalf("%q: %v", variable, err)
		}
		const says = "not used: $GETSETLOCK_PASSWORD, set for the server of $GETSETLOCK_REDIS"
		if unused && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret")) {
			t.Error(err)
		}
		if c != nil {
			c.Close()
		}
	}
}

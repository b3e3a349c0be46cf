// SPDX-License-Identifier: Apache-2.0

package out

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
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
		e := in(c.vars)
		if got := c.flags.Addresses(e)[0]; got != c.raw || c.flags.options(e, got).CACert != c.certs {
			t.Errorf("%+v, %v: %q and %+v, want %q and %q", c.flags, c.vars, got,
				c.flags.options(e, got), c.raw, c.certs)
		}
	}
}

func TestEnvironmentHasTheWholePathOfCertificates(t *testing.T) {
	e := in(nil)
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
	e := in(vars)
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
		o := f.options(e, f.Addresses(e)[0])
		if o.Password != c.server || o.SentinelPassword != c.sentinel {
			t.Errorf("%+v: got %q and %q", c, o.Password, o.SentinelPassword)
		}
		f.PasswordFile = "word"
		if o := f.options(e, f.Addresses(e)[0]); o.Password != "" || o.PasswordFile != "word" {
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
	e := in(vars)
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

// in returns an environment with a store called mem.
func in(vars map[string]string) *Env {
	return &Env{Getenv: func(name string) string { return vars[name] },
		Stores: map[string]backing.Store{"mem": {Name: "Memory", Port: "1"}}}
}

// A password reaches no server that it is not for.
func TestVariablesBelongToTheStoreOfAVariable(t *testing.T) {
	const word = redisconn.EnvPassword
	for _, c := range []struct {
		flags ServerFlags
		vars  map[string]string
		raw   string // empty: Redis
		word  string
		says  string
	}{
		{ServerFlags{}, nil, "", "", ""},
		{ServerFlags{Target: "mem://u@t"}, map[string]string{word: "w"}, "mem://u@t", "w", ""},
		{ServerFlags{}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://u@e", "w", ""},
		{ServerFlags{Target: "mem://u@e"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://u@e",
			"w", ""},
		{ServerFlags{Target: "mem://u@t"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "", "",
			"not used: $GETSETLOCK_PASSWORD, set for the server of $GETSETLOCK_TARGET, while --target names another"},
		{ServerFlags{Target: "mem://t"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "mem://t", "",
			""},
		{ServerFlags{Target: "mem://t"}, map[string]string{redisconn.Env: "redis://r", word: "w"}, "mem://t",
			"", ""},
		{ServerFlags{Redis: "redis://f"}, map[string]string{EnvTarget: "mem://u@e", word: "w"}, "", "", ""},
		{ServerFlags{Redis: "redis://f", Target: "mem://t"}, nil, "", "", "name two servers"},
		{ServerFlags{}, map[string]string{EnvTarget: "mem://e", redisconn.Env: "redis://r"}, "", "",
			"name two servers"},
		{ServerFlags{Target: "mem://u:p@t"}, map[string]string{word: "w"}, "mem://u:p@t", "", ""},
		{ServerFlags{}, map[string]string{EnvTarget: "gone://e"}, "", "", "$GETSETLOCK_TARGET: "},
	} {
		got, err := c.flags.PickTarget(in(c.vars))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v, %v: %v", c.flags, c.vars, err)
			continue
		}
		if err == nil && (got != nil) != (c.raw != "") ||
			got != nil && (got.Raw != c.raw || got.Options.Password != c.word) {
			t.Errorf("%+v, %v: %+v", c.flags, c.vars, got)
		}
	}
}

func TestStoresVariablesReachNoRedisServer(t *testing.T) {
	vars := map[string]string{EnvTarget: "mem://u@e", redisconn.EnvPassword: "w"}
	f := ServerFlags{}
	for _, f.Redis = range []string{"", "redis://f"} {
		if e := in(vars); f.options(e, f.Addresses(e)[0]).Password != "" {
			t.Errorf("the server of Redis %q gets the store's password", f.Redis)
		}
	}
}

func TestStartedProgramFindsTheStore(t *testing.T) {
	f := ServerFlags{Target: "mem://u@t:5"}
	want := []string{"GETSETLOCK_TARGET=mem://u@t:5", "GETSETLOCK_PASSWORD=w"}
	if got := f.Environment(in(map[string]string{redisconn.EnvPassword: "w"})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

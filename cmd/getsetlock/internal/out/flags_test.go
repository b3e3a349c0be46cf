package out

import (
	"path/filepath"
	"slices"
	"testing"

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
	f := ServerFlags{Redis: "rediss://:word@f/2", CACert: "f.pem"}
	whole, err := filepath.Abs("f.pem")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"GETSETLOCK_REDIS=rediss://:word@f/2", "GETSETLOCK_CACERT=" + whole}
	if got := f.Environment(e); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

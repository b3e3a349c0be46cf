package cli

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/getsetlock/getsetlock/internal/redisurl"
)

func TestCertificatesOfTheEnvironmentBelongToItsServer(t *testing.T) {
	const env, file = redisurl.Env, redisurl.EnvCACert
	for _, c := range []struct {
		flags      serverFlags
		vars       map[string]string
		raw, certs string
	}{
		{serverFlags{}, nil, redisurl.Default, ""},
		{serverFlags{}, map[string]string{file: "/e.pem"}, redisurl.Default, ""},
		{serverFlags{}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://e", "/e.pem"},
		{serverFlags{}, map[string]string{env: "redis://e", file: "/e.pem"}, "redis://e", ""},
		{serverFlags{}, map[string]string{env: "unix:///e", file: "/e.pem"}, "unix:///e", ""},
		{serverFlags{caCert: "/f.pem"}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://e", "/f.pem"},
		{serverFlags{redis: "rediss://f"}, map[string]string{env: "rediss://e", file: "/e.pem"}, "rediss://f", ""},
		{serverFlags{redis: "rediss://f", caCert: "/f.pem"}, map[string]string{file: "/e.pem"}, "rediss://f", "/f.pem"},
	} {
		e := &Env{Getenv: func(name string) string { return c.vars[name] }}
		if raw, options := c.flags.picked(e); raw != c.raw || options.CACert != c.certs {
			t.Errorf("%+v, %v: %q and %q, want %q and %q", c.flags, c.vars, raw, options.CACert, c.raw, c.certs)
		}
	}
}

func TestACertificateFileIsHandedOnWithItsWholePath(t *testing.T) {
	e := &Env{Getenv: func(string) string { return "" }}
	f := serverFlags{redis: "rediss://:word@f/2", caCert: "f.pem"}
	whole, err := filepath.Abs("f.pem")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"GETSETLOCK_REDIS=rediss://:word@f/2", "GETSETLOCK_CACERT=" + whole}
	if got := f.environment(e); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestACertificateVariableIsNamedInErrors(t *testing.T) {
	s := newStage(t)
	s.vars["GETSETLOCK_REDIS"], s.vars["GETSETLOCK_CACERT"] = "rediss://h", "/no/f"
	s.want(s.run("ls"), 2, "", "$GETSETLOCK_CACERT: open /no/f")
	s.want(s.run("ls", "--cacert", "/no/g"), 2, "", "--cacert: open /no/g")
}

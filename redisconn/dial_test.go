// SPDX-License-Identifier: Apache-2.0

package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

// dial connects as the command does and returns the error of PING.
func dial(t *testing.T, raw string, o Options) error {
	t.Helper()
	a, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := a.Pool(o)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := pool.GetContext(t.Context())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do("PING")
	return err
}

// fake is a server that knows only the given commands. It answers AUTH like a
// proxy that does not know the command: it repeats what it was sent.
func fake(t *testing.T, commands map[string]server.Cmd) string {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	repeat := func(c *server.Peer, cmd string, args []string) {
		text := fmt.Sprintf("ERR unknown command '%s', with args beginning with: %q, %s", cmd, args,
			strings.Join(args, " "))
		c.WriteError(text[:min(len(text), 120)]) // real servers shorten it too
	}
	if commands["AUTH"] == nil {
		if err := s.Register("AUTH", repeat); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range commands {
		if err := s.Register(name, f); err != nil {
			t.Fatal(err)
		}
	}
	return s.Addr().String()
}

func grumble(c *server.Peer, _ string, args []string) {
	c.WriteError("ERR who is " + strings.Join(args, " with ") + "?")
}

func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// nobody is an address without a server: no other test can be given that port.
func nobody(*testing.T) string { return "127.0.0.1:1" }

func sentinelFor(t *testing.T, master string) string {
	host, port, err := net.SplitHostPort(master)
	if err != nil {
		t.Fatal(err)
	}
	return fake(t, map[string]server.Cmd{"SENTINEL": func(c *server.Peer, _ string, args []string) {
		if len(args) != 2 || args[0] != "get-master-addr-by-name" || args[1] != "mymaster" {
			c.WriteNull()
			return
		}
		c.WriteStrings([]string{host, port})
	}})
}

func withRole(role string) map[string]server.Cmd {
	return map[string]server.Cmd{
		"ROLE": func(c *server.Peer, _ string, _ []string) { c.WriteLen(1); c.WriteBulk(role) },
		"PING": func(c *server.Peer, _ string, _ []string) { c.WriteInline("PONG") },
	}
}

func TestUserPasswordAndDatabaseArriveAtTheServer(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("app", "s3cret@x")
	if err := dial(t, "redis://app:s3cret%40x@"+m.Addr()+"/3", Options{}); err != nil {
		t.Fatal(err)
	}
	a, err := Parse("redis://app:s3cret%40x@" + m.Addr() + "/3")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := a.Pool(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c := pool.Get()
	defer c.Close()
	if _, err := c.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if got, err := m.DB(3).Get("k"); got != "v" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// The file still has the old password when the server has the new one. A
// password that was never right is a mistake, and so is one that cannot change.
func TestRefusedPasswordPassesWithinARotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fromFile := Options{PasswordFile: file}
	fromFunc := Options{Credentials: func(context.Context) (string, string, error) {
		password, err := os.ReadFile(file)
		return "", string(password), err
	}}
	for name, c := range map[string]struct {
		options Options
		first   string // password at the first dial
		passes  bool
	}{
		"file":                    {fromFile, "old", true},
		"func":                    {fromFunc, "old", true},
		"file, never right":       {fromFile, "typo", false},
		"password of the options": {Options{Password: "old"}, "old", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := miniredis.RunT(t)
			m.RequireAuth("old")
			write(c.first)
			a, err := Parse("redis://" + m.Addr())
			if err != nil {
				t.Fatal(err)
			}
			pool, err := a.Pool(c.options)
			if err != nil {
				t.Fatal(err)
			}
			dial := func() error {
				conn, err := pool.DialContext(t.Context())
				if err == nil {
					conn.Close()
				}
				return err
			}
			_ = dial()
			m.RequireAuth("new")
			err = dial()
			var judged interface{ Passing() bool }
			if errors.As(&wire.NotSentError{Err: err}, &judged); err == nil || judged.Passing() != c.passes {
				t.Errorf("%v passes: %v", err, !c.passes)
			}
			write("new")
			if err := dial(); c.passes && err != nil {
				t.Error(err)
			}
		})
	}
}

// The table has every way in which connecting fails, each with the password in
// the address.
func TestNoConnectingErrorShowsThePassword(t *testing.T) {
	m := miniredis.RunT(t)
	m.RequireUserAuth("app", "another")
	open := miniredis.RunT(t)
	file := filepath.Join(t.TempDir(), "socket")
	short := Options{Timeout: 50 * time.Millisecond}
	who := "app:s3cret%40x@"
	for name, c := range map[string]struct {
		raw     string
		options Options
		says    string
	}{
		"nobody listens": {"redis://" + who + nobody(t), Options{}, "refused"},
		"no such host": {
			"redis://" + who + "no-such-host.invalid", Options{}, "no-such-host.invalid"},
		"silent":             {"redis://" + who + silent(t), short, ""},
		"wrong password":     {"redis://" + who + m.Addr(), Options{}, "WRONGPASS"},
		"no password wanted": {"redis://" + who + open.Addr(), Options{}, "WRONGPASS"},
		"repeats what it was sent": {
			"redis://" + who + fake(t, nil), Options{},
			"unknown command 'AUTH', with args beginning with: ***"},
		"repeats, once encoded": {
			"redis://app:s3cret%2540x@" + fake(t, nil), Options{}, "unknown command"},
		"odd characters": {
			"redis://app:s3cret%22%0A%01@" + fake(t, map[string]server.Cmd{"AUTH": grumble}), Options{},
			"with ***?"},
		"repeats it shortened": {
			"redis://app:s3cret%40x" + strings.Repeat("y", 200) + "@" + fake(t, nil), Options{},
			"unknown command"},
		"repeats it otherwise": {
			"redis://" + who + fake(t, map[string]server.Cmd{"AUTH": grumble}), Options{},
			"who is app with ***?"},
		"TLS to a silent server": {
			"rediss://" + who + silent(t), short,
			"no answer to the TLS handshake; if the server does not speak TLS at that port, write redis://"},
		"TLS to a plain server": {"rediss://" + who + open.Addr(), Options{}, "no TLS there"},
		"no socket":             {"unix://" + who + file, Options{}, "no such file"},
		"no such CA file":       {"rediss://" + who + "host", Options{CACert: file}, "--cacert"},
		"CA file without TLS":   {"redis://" + who + "host", Options{CACert: file}, "rediss://"},
		"no sentinel": {
			"redis+sentinel://" + who + nobody(t) + "/mymaster", Options{}, "refused"},
		"no such master": {
			"redis+sentinel://" + who + sentinelFor(t, "127.0.0.1:1") + "/other", Options{},
			"knows no such master; check that name"},
		"master not there": {
			"redis+sentinel://" + who + sentinelFor(t, nobody(t)) + "/mymaster", Options{}, "refused"},
		"master wants another": {
			"redis+sentinel://" + who + sentinelFor(t, m.Addr()) + "/mymaster", Options{}, "WRONGPASS"},
		"master repeats it": {
			"redis+sentinel://" + who + sentinelFor(t, fake(t, nil)) + "/mymaster", Options{},
			"unknown command"},
		"sentinel does not know it": {
			"redis+sentinel://" + who + fake(t, nil) + "/mymaster", Options{}, "SENTINEL"},
	} {
		err := dial(t, c.raw, c.options)
		if err == nil {
			t.Errorf("%s: connected", name)
			continue
		}
		if text := shows(err, "s3cret"); text != "" {
			t.Errorf("%s: %s", name, text)
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// shows returns the text in which err, or an error that it wraps, shows the
// secret; empty if none does.
func shows(err error, secret string) string {
	for err != nil {
		if text := fmt.Sprintf("%v %+v %#v %q", err, err, err, err); strings.Contains(text, secret) {
			return text
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			break
		}
		err = u.Unwrap()
	}
	return ""
}

func TestRefusedLoginStaysAnErrorReply(t *testing.T) {
	err := dial(t, "redis://:s3cret@"+fake(t, nil), Options{})
	if _, ok := err.(redis.Error); !ok {
		t.Errorf("%T: %v", err, err)
	}
}

func TestSentinelsAreAskedUntilOneLeadsToAMaster(t *testing.T) {
	master := fake(t, withRole("master"))
	replica := fake(t, withRole("slave"))
	hosts := strings.Join([]string{nobody(t), sentinelFor(t, replica), sentinelFor(t, master)}, ",")
	if err := dial(t, "redis+sentinel://"+hosts+"/mymaster", Options{}); err != nil {
		t.Error(err)
	}
	hosts = sentinelFor(t, replica)
	if err := dial(t, "redis+sentinel://"+hosts+"/mymaster", Options{}); err == nil ||
		!strings.Contains(err.Error(), "is not a master") {
		t.Error(err)
	}
}

func TestEndedContextEndsConnecting(t *testing.T) {
	a, err := Parse("redis://:s3cret@" + silent(t))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := a.Pool(Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := pool.GetContext(ctx); err == nil {
		c.Close()
		t.Error("connected to a silent server")
	}
}

func TestErrorNamesACACertFileWithoutCertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := dial(t, "rediss://host", Options{CACert: file})
	if err == nil || !strings.Contains(err.Error(), "empty.pem holds no PEM certificate") {
		t.Error(err)
	}
}

func TestZeroAddressIsNoServer(t *testing.T) {
	if _, err := (Address{}).Pool(Options{}); err == nil {
		t.Error("a pool onto nothing")
	}
}

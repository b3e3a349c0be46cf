// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// Binary is a server program that tests can start.
type Binary struct {
	Name string // such as redis-6.2.11
	Path string
	Features
}

// Features are what a server can do, found by trying it. Versions do not tell:
// a Valkey of 2026 calls itself Redis 7.2.
type Features struct {
	TimeThenWrite bool // a script that called TIME may write
	Effects       bool // a script can make the server replicate what it writes, not itself
	Tracking      bool // CLIENT TRACKING with REDIRECT reports another client's write
	ACL           bool // ACL users
	ClientID      bool
	SetIFEQ       bool // SET with IFEQ, and DELIFEQ or DELEX with IFEQ
}

// Start runs the binary with these options; it sets their Path.
func (b Binary) Start(t testing.TB, o Options) *Server {
	t.Helper()
	o.Path = b.Path
	return Real(t, o)
}

// fetched are the servers that scripts/servers.sh downloads into the cache
// folder, oldest first. The server from the machine's packages comes before
// valkey-9.1.2.
var fetched = []struct{ name, file string }{
	{"redis-2.8.19", "redis-server"},
	{"redis-6.2.11", "redis-server"},
	{"valkey-9.1.2", "valkey-server"},
}

var tried struct {
	sync.Mutex
	binaries []Binary
}

// Servers returns all servers that the tests must work on, from the oldest to
// the newest. Each is tried once per test process. It fails the test if one is
// missing.
func Servers(t testing.TB) []Binary {
	t.Helper()
	tried.Lock()
	defer tried.Unlock()
	if tried.binaries != nil {
		return tried.binaries
	}
	found := locate(t)
	for i := range found {
		found[i].Features = try(t, found[i].Path)
	}
	tried.binaries = found
	return found
}

func locate(t testing.TB) []Binary {
	t.Helper()
	cache, err := program.CacheDir()
	if err != nil {
		t.Fatalf("redistest: no cache folder for the servers that tests need: %v", err)
	}
	var found []Binary
	for _, f := range fetched {
		path := filepath.Join(cache, "servers", f.name, f.file)
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("redistest: %s is missing; `make prepare` fetches it: %v", f.name, err)
		}
		if f.file == "valkey-server" {
			found = append(found, packaged(t))
		}
		found = append(found, Binary{Name: f.name, Path: path})
	}
	return found
}

// packaged returns the redis-server of the machine's packages, whatever its
// version.
func packaged(t testing.TB) Binary {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redistest: redis-server is missing; `make prepare` installs it: %v", err)
	}
	name := "redis-packaged"
	out, _ := exec.Command(path, "--version").Output()
	if m := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); m != nil {
		name = "redis-" + string(m[1])
	}
	return Binary{Name: name, Path: path}
}

// try starts the server and tries each feature.
func try(t testing.TB, path string) Features {
	t.Helper()
	s := Real(t, Options{Path: path})
	defer s.Kill()
	c := s.Pool().Get()
	defer c.Close()
	can := func(command string, args ...any) bool {
		_, err := redis.DoWithTimeout(c, Patience, command, args...)
		return err == nil
	}
	f := Features{
		TimeThenWrite: can("EVAL", "redis.call('TIME') return redis.call('SET', KEYS[1], '1')", 1, "try"),
		Effects:       can("EVAL", "redis.replicate_commands()", 0),
		ACL:           can("ACL", "WHOAMI"),
		ClientID:      can("CLIENT", "ID"),
		SetIFEQ: can("SET", "try", "1", "IFEQ", "0") &&
			(can("DELIFEQ", "try", "0") || can("DELEX", "try", "IFEQ", "0")),
	}
	f.Tracking = tracks(s)
	return f
}

// tracks reports whether the server reports a write by one connection to a
// second, on behalf of a third that read the key.
func tracks(s *Server) bool {
	pool := s.Pool()
	listener, reader, writer := pool.Get(), pool.Get(), pool.Get()
	defer listener.Close()
	defer reader.Close()
	defer writer.Close()
	id, err := redis.Int64(redis.DoWithTimeout(listener, Patience, "CLIENT", "ID"))
	if err != nil {
		return false
	}
	if _, err := redis.DoWithTimeout(reader, Patience, "CLIENT", "TRACKING", "ON", "REDIRECT",
		id); err != nil {
		return false
	}
	if _, err := redis.DoWithTimeout(listener, Patience, "SUBSCRIBE", "__redis__:invalidate"); err != nil {
		return false
	}
	redis.DoWithTimeout(reader, Patience, "GET", "tracked")
	redis.DoWithTimeout(writer, Patience, "SET", "tracked", "1")
	said, err := redis.Values(redis.ReceiveWithTimeout(listener, Patience))
	return err == nil && len(said) == 3
}

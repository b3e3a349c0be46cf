// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Kill ends the server at once, as a crash does, and returns when the process
// has ended.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.Process.Kill() // also ends a paused process
	<-s.ended
}

// Start starts a killed server again at the same address. It is empty unless
// Options.Persist is set.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.launch(); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// Restart is Kill, then Start. Scripts are lost, and keys too unless
// Options.Persist is set.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Start()
}

// Pause stops the process: the kernel still accepts connections for it, but the
// server does not answer. Its clock runs on.
func (s *Server) Pause() {
	s.t.Helper()
	if err := stop(s.proc.Process); err != nil {
		s.t.Fatalf("redistest: pause: %v", err)
	}
}

// Continue ends a Pause.
func (s *Server) Continue() {
	s.t.Helper()
	if err := cont(s.proc.Process); err != nil {
		s.t.Fatalf("redistest: continue: %v", err)
	}
}

// StartReplica starts a read-only replica of the server, from the same binary,
// and returns when the replica has all data. The server must listen on a plain
// TCP port.
func (s *Server) StartReplica() *Server {
	s.t.Helper()
	host, port, _ := strings.Cut(s.addr, ":")
	// Older servers lack this setting and do not need it.
	c := s.Pool().Get()
	defer c.Close()
	_, _ = c.Do("CONFIG", "SET", "repl-diskless-sync-delay", "0")
	o := Options{Path: s.o.Path, Password: s.o.Password, Args: []string{"--slaveof", host, port}}
	if s.o.Password != "" {
		o.Args = append(o.Args, "--masterauth", s.o.Password)
	}
	r := Real(s.t, o)
	r.awaitInfo("replication", "master_link_status:up")
	return r
}

// User creates an ACL user, such as User("app", "secret", "~*", "+@all",
// "-del"), and returns its URL. It fails the test on a server without ACLs.
func (s *Server) User(name, password string, rules ...string) string {
	s.t.Helper()
	args := redis.Args{"SETUSER", name, "reset", "on", ">" + password}.AddFlat(rules)
	s.Do("ACL", args...)
	return s.URLFor(name, password)
}

// awaitInfo asks for INFO until it contains the line.
func (s *Server) awaitInfo(section, line string) {
	s.t.Helper()
	end := time.Now().Add(2 * Patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		text, err := redis.String(s.Do("INFO", section), nil)
		if err == nil && strings.Contains(text, line) {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("redistest: INFO %s never contained %s:\n%s", section, line, text)
		}
		<-time.After(wait)
	}
}

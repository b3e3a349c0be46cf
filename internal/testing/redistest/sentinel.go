// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// StartSentinel starts a Redis Sentinel that knows the server as the master
// "m", and returns when it answers. Of o it takes TLS, Certs and Password: its
// own password. TLS needs a server with TLS, whose authority it shares.
func (s *Server) StartSentinel(o Options) *Server {
	s.t.Helper()
	o.Path = s.o.Path
	w := &Server{t: s.t, o: o, ca: s.ca}
	w.begin(func(port string) []string { return w.watching(s, port) })
	return w
}

// watching writes the configuration of a sentinel, which rewrites it while it
// runs.
func (s *Server) watching(master *Server, port string) []string {
	s.t.Helper()
	_, watched, _ := strings.Cut(master.addr, ":")
	lines := []string{"dir " + s.dir, "bind 127.0.0.1", "sentinel monitor m 127.0.0.1 " + watched + " 1"}
	if s.o.TLS {
		lines = append(lines, "port 0", "tls-port "+port, "tls-auth-clients "+s.demand())
	} else {
		lines = append(lines, "port "+port)
	}
	if s.ca != nil {
		lines = append(lines, "tls-replication yes")
		for file := range slices.Chunk(s.ca.arguments(), 2) {
			lines = append(lines, strings.TrimPrefix(file[0], "--")+" "+file[1])
		}
	}
	if s.o.Password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", s.o.Password))
	}
	if master.o.Password != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass m %q", master.o.Password))
	}
	conf := filepath.Join(s.dir, "sentinel.conf")
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	return []string{conf, "--sentinel"}
}

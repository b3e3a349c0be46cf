// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// StartSentinel starts a Redis Sentinel that knows the server as the master
// "m", and returns when it answers. Of o it takes TLS, Certs and Password: its
// own password. TLS needs a server with TLS, whose authority it shares.
func (s *Server) StartSentinel(o Options) *Server {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	o.Path = s.o.Path
	w := &Server{t: s.t, o: o, dir: dir, ca: s.ca}
	s.t.Cleanup(w.Kill)
	for range 5 { // another program may take the port first
		if err = w.placeSentinel(s); err == nil {
			err = w.launch()
		}
		if err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	return w
}

// placeSentinel chooses the sentinel's address and writes its configuration,
// which it rewrites while it runs.
func (s *Server) placeSentinel(master *Server) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(s.addr)
	_, watched, _ := net.SplitHostPort(master.addr)
	lines := []string{"dir " + s.dir, "bind 127.0.0.1", "sentinel monitor m 127.0.0.1 " + watched + " 1"}
	if s.o.TLS {
		lines = append(lines, "port 0", "tls-port "+port, "tls-auth-clients "+s.demand())
	} else {
		lines = append(lines, "port "+port)
	}
	if s.ca != nil {
		lines = append(lines, "tls-replication yes", "tls-cert-file "+s.ca.cert, "tls-key-file "+s.ca.key,
			"tls-ca-cert-file "+s.ca.root)
	}
	if s.o.Password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", s.o.Password))
	}
	if master.o.Password != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass m %q", master.o.Password))
	}
	conf := filepath.Join(s.dir, "sentinel.conf")
	s.args = []string{conf, "--sentinel"}
	return os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

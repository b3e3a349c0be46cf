// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/program"
)

// Options says how to start a real server. The zero value starts redis-server
// from PATH on a loopback port, empty and without persistence.
type Options struct {
	Path     string   // path of the binary. Defaults to redis-server, as found in PATH
	Unix     bool     // listen on a unix socket only
	TLS      bool     // listen with TLS only, with a certificate made for this server
	Certs    bool     // with TLS: demand certificates of clients
	Password string   // password of the default user
	Persist  bool     // keep every write on disk, so that it survives Restart and Start
	Args     []string // further arguments, such as "--maxmemory", "2mb"
	Env      []string // further environment variables of the process
}

// Server is a real server process. It listens on the loopback interface or on a
// socket, and works in a directory of its own. It ends with the test, or, on
// Linux, with the process that runs the test.
type Server struct {
	t     testing.TB
	o     Options
	dir   string
	addr  string // host:port, or the socket's path
	ca    *authority
	args  []string
	proc  *exec.Cmd
	ended chan struct{} // closed when proc has ended
}

// Real starts a server and returns when it answers. If the server cannot start,
// Real fails the test and shows the end of its log.
func Real(t testing.TB, o Options) *Server {
	t.Helper()
	o.Path = cmp.Or(o.Path, "redis-server")
	s := &Server{t: t, o: o}
	s.begin(s.arguments)
	return s
}

// begin starts the program with the arguments for a port, and returns when it
// answers.
func (s *Server) begin(arguments func(port string) []string) {
	s.t.Helper()
	// t.TempDir can be too long a path for a unix socket.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	s.dir = dir
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	if s.o.TLS && s.ca == nil {
		s.ca = newAuthority(s.t, dir)
	}
	s.t.Cleanup(s.Kill)
	// Another program may take the port between choosing it and listening on
	// it.
	for range 5 {
		port := program.Port(s.t)
		s.addr = "127.0.0.1:" + port
		s.args = arguments(port)
		if err = s.launch(); err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
}

// arguments are those of a server on the port, or on a socket in its place.
func (s *Server) arguments(port string) []string {
	args := []string{"--dir", s.dir, "--save", "", "--bind", "127.0.0.1", "--daemonize", "no"}
	switch {
	case s.o.Unix:
		s.addr = filepath.Join(s.dir, "redis.sock")
		args = append(args, "--port", "0", "--unixsocket", s.addr)
	case s.o.TLS:
		args = append(args, "--port", "0", "--tls-port", port, "--tls-auth-clients", s.demand())
		args = append(args, s.ca.arguments()...)
	default:
		args = append(args, "--port", port)
	}
	if s.o.Password != "" {
		args = append(args, "--requirepass", s.o.Password)
	}
	if s.o.Persist {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	return append(args, s.o.Args...)
}

// launch starts the process and waits until it answers or ends.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	proc := exec.Command(s.o.Path, s.args...)
	proc.Stdout, proc.Stderr = log, log
	proc.Env = append(os.Environ(), s.o.Env...)
	program.Tie(proc)
	if err := proc.Start(); err != nil {
		return fmt.Errorf("%s doesn't start: %w; `make prepare` fetches the servers that tests need",
			s.o.Path, err)
	}
	ended := make(chan struct{})
	go func() { proc.Wait(); close(ended) }()
	s.proc, s.ended = proc, ended
	return s.awaitAnswer()
}

// awaitAnswer asks until the server answers and is no longer loading.
func (s *Server) awaitAnswer() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	var last error
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if last = s.ask(ctx); last == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended: %v\n%s", s.o.Path, s.proc.ProcessState, s.Log())
		case <-ctx.Done():
			return fmt.Errorf("%s doesn't answer on %s: %v\n%s", s.o.Path, s.addr, last, s.Log())
		case <-time.After(wait):
		}
	}
}

func (s *Server) ask(ctx context.Context) error {
	c, err := redis.DialContext(ctx, "tcp", "redistest",
		append(s.dialOptions(), redis.DialReadTimeout(time.Second))...)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.Do("PING"); err != nil {
		return err
	}
	return s.ours(c)
}

// ours returns an error if another process answers. A parallel test may have
// been given the same free port, and its server may have listened first.
func (s *Server) ours(c redis.Conn) error {
	info, err := redis.String(c.Do("INFO", "server"))
	if err != nil {
		return err
	}
	if own := fmt.Sprintf("process_id:%d\r\n", s.PID()); !strings.Contains(info, own) {
		return errors.New("another server answers at this address")
	}
	return nil
}

func (s *Server) dialOptions() []redis.DialOption {
	return []redis.DialOption{
		redis.DialPassword(s.o.Password),
		redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.Dial(ctx)
		}),
	}
}

// Dial connects to the server, TLS included, without authentication.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	switch {
	case s.o.Unix:
		return new(net.Dialer).DialContext(ctx, "unix", s.addr)
	case s.o.TLS:
		return (&tls.Dialer{Config: s.ca.client}).DialContext(ctx, "tcp", s.addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", s.addr)
}

// Addr returns host and port, or the path of the socket.
func (s *Server) Addr() string { return s.addr }

// URL returns the server's URL as the command takes it, password included. With
// TLS, clients need CACert too.
func (s *Server) URL() string { return s.URLFor("", s.o.Password) }

// URLFor is URL for another user.
func (s *Server) URLFor(user, password string) string {
	u := url.URL{Scheme: "redis", Host: s.addr}
	switch {
	case s.o.Unix:
		u = url.URL{Scheme: "unix", Path: s.addr}
	case s.o.TLS:
		u.Scheme = "rediss"
	}
	if password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// demand is the value of tls-auth-clients.
func (s *Server) demand() string {
	if s.o.Certs {
		return "yes"
	}
	return "no"
}

// ClientCert writes a certificate that the server accepts, and its key, to
// files in dir. It is valid for this long from now; negative: it has expired
// since. It replaces files of the same name.
func (s *Server) ClientCert(dir, name string, left time.Duration) (cert, key string) {
	s.t.Helper()
	return s.ca.issue(s.t, dir, name, left)
}

// CACert returns the file with the certificate of the server's authority; ""
// without TLS.
func (s *Server) CACert() string {
	if s.ca == nil {
		return ""
	}
	return s.ca.root
}

// Pool returns a pool of connections to the server, as the default user and
// without deadlines. It is closed with the test.
func (s *Server) Pool(options ...redis.DialOption) *redis.Pool {
	return newPool(s.t, s.Dial, append([]redis.DialOption{redis.DialPassword(s.o.Password)}, options...))
}

// Wire returns a wire to the server with these rules.
func (s *Server) Wire(rules ...Rule) *Wire { return newWire(s.t, s.Dial, false, rules) }

// FaultyPool is Wire(rules...).Pool(), as the default user.
func (s *Server) FaultyPool(rules ...Rule) *redis.Pool {
	return s.Wire(rules...).Pool(redis.DialPassword(s.o.Password))
}

// PID returns the id of the server's process.
func (s *Server) PID() int { return s.proc.Process.Pid }

// Log returns the last lines of the server's log.
func (s *Server) Log() string {
	text, _ := os.ReadFile(s.logFile())
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Do runs one command as the default user and fails the test on an error.
func (s *Server) Do(command string, args ...any) any {
	s.t.Helper()
	c, err := redis.Dial("tcp", "redistest", append(s.dialOptions(), redis.DialReadTimeout(Patience))...)
	if err != nil {
		s.t.Fatalf("redistest: %v", err)
	}
	defer c.Close()
	v, err := c.Do(command, args...)
	if err != nil {
		s.t.Fatalf("redistest: %s: %v", command, err)
	}
	return v
}

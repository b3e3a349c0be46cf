package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Options say how a real server is started. The zero value is redis-server from PATH on a loopback
// port, empty, keeping nothing on disk.
type Options struct {
	Path     string   // of the binary. Defaults to redis-server, as found in PATH
	Unix     bool     // listen on a unix socket only
	TLS      bool     // listen with TLS only, under a certificate made for this server
	Password string   // of the default user
	Persist  bool     // keep every write on disk, so that Restart and Start find it again
	Args     []string // further arguments, such as "--maxmemory", "2mb"
	Env      []string // further environment of the process
}

// Server is a real server process of ours. It listens where no other host can reach it, works in a
// directory of its own, and ends with the test, or, on Linux, with the process that runs the test.
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

// Real starts a server and returns when it answers. It fails the test, with what the server last
// said, where that can't be had.
func Real(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Path == "" {
		o.Path = "redis-server"
	}
	// t.TempDir can be too long a path for a unix socket.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, o: o, dir: dir}
	if o.TLS {
		s.ca = newAuthority(t, dir)
	}
	t.Cleanup(s.Kill)
	// Between choosing a free port and listening on it somebody else may take it.
	for range 5 {
		if err = s.place(); err == nil {
			err = s.launch()
		}
		if err == nil || !strings.Contains(err.Error(), "in use") {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// place chooses where the server listens and writes its arguments.
func (s *Server) place() error {
	port := "0"
	if s.o.Unix {
		s.addr = filepath.Join(s.dir, "redis.sock")
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.addr = l.Addr().String()
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		l.Close()
	}
	s.args = []string{"--dir", s.dir, "--save", "", "--bind", "127.0.0.1", "--daemonize", "no"}
	switch {
	case s.o.Unix:
		s.args = append(s.args, "--port", "0", "--unixsocket", s.addr)
	case s.o.TLS:
		s.args = append(s.args, "--port", "0", "--tls-port", port, "--tls-auth-clients", "no")
		s.args = append(s.args, "--tls-cert-file", s.ca.cert, "--tls-key-file", s.ca.key, "--tls-ca-cert-file", s.ca.root)
	default:
		s.args = append(s.args, "--port", port)
	}
	if s.o.Password != "" {
		s.args = append(s.args, "--requirepass", s.o.Password)
	}
	if s.o.Persist {
		s.args = append(s.args, "--appendonly", "yes", "--appendfsync", "always")
	}
	s.args = append(s.args, s.o.Args...)
	return nil
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
	tie(proc)
	if err := proc.Start(); err != nil {
		return fmt.Errorf("%s doesn't start: %w; `make prepare` fetches the servers that tests need", s.o.Path, err)
	}
	ended := make(chan struct{})
	go func() { proc.Wait(); close(ended) }()
	s.proc, s.ended = proc, ended
	return s.awaitAnswer()
}

// awaitAnswer asks until the server says something other than that it is loading.
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
	c, err := redis.DialContext(ctx, "tcp", "redistest", append(s.dialOptions(), redis.DialReadTimeout(time.Second))...)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.Do("PING"); err != nil {
		return err
	}
	return s.ours(c)
}

// ours sees to it that our process is the one that answers. A test beside this one may have been given the same
// free port, and its server have been the first to listen.
func (s *Server) ours(c redis.Conn) error {
	info, err := redis.String(c.Do("INFO", "server"))
	if err != nil {
		return err
	}
	if own := fmt.Sprintf("process_id:%d\r\n", s.PID()); !strings.Contains(info, own) {
		return errors.New("another server answers there")
	}
	return nil
}

func (s *Server) dialOptions() []redis.DialOption {
	return []redis.DialOption{
		redis.DialPassword(s.o.Password),
		redis.DialContextFunc(func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx) }),
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

// Addr is host and port, or the path of the socket.
func (s *Server) Addr() string { return s.addr }

// URL is where the command finds the server, password included. With TLS it needs CACert too.
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

// CACert is the file with the certificate of the authority that vouches for the server; "" without
// TLS.
func (s *Server) CACert() string {
	if s.ca == nil {
		return ""
	}
	return s.ca.root
}

// Pool is a pool onto the server, as the default user, with no deadlines, closed with the test.
func (s *Server) Pool(options ...redis.DialOption) *redis.Pool {
	return newPool(s.t, s.Dial, append([]redis.DialOption{redis.DialPassword(s.o.Password)}, options...))
}

// Wire is a wire to the server on which the rules hold.
func (s *Server) Wire(rules ...Rule) *Wire { return newWire(s.t, s.Dial, false, rules) }

// FaultyPool is Wire(rules...).Pool(), as the default user.
func (s *Server) FaultyPool(rules ...Rule) *redis.Pool {
	return s.Wire(rules...).Pool(redis.DialPassword(s.o.Password))
}

// PID is the process.
func (s *Server) PID() int { return s.proc.Process.Pid }

// Log is the end of what the server has said.
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

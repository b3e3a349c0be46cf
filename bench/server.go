package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// server is a redis-server that this program starts; it stores nothing on disk
// and ends with the program.
type server struct {
	addr    string
	version string
	cmd     *exec.Cmd
	dir     string
}

func startServer(ctx context.Context) (*server, error) {
	path, err := lookServer()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{addr: l.Addr().String()}
	l.Close()
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.addr)
	s.cmd = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--maxclients", "10000", "--dir", s.dir)
	var said bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &said, &said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 2400 {
		if s.version, err = s.ask(); err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.stop()
	return nil, fmt.Errorf("%s did not answer: %w\n%s", path, err, said.String())
}

// ask returns the server's name and version.
func (s *server) ask() (string, error) {
	conn, err := redis.Dial("tcp", s.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO", "server"))
	if err != nil {
		return "", err
	}
	name := "Redis "
	version := ""
	for line := range strings.Lines(info) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "valkey_version":
			return "Valkey " + value, nil
		case "redis_version":
			version = value
		}
	}
	return name + version, nil
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

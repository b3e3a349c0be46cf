// SPDX-License-Identifier: Apache-2.0

//go:build real

package lead_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lead"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestLeadAsAProcess is the process of the tests below: it leads, and answers
// each line of its input with what its context says.
func TestLeadAsAProcess(t *testing.T) {
	addr := os.Getenv("LEAD_ADDR")
	if addr == "" {
		return // not started by a test below
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	b, err := modern.New(pool, modern.Config{Note: "the process"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := lock.New(b, lock.Config{TTL: realTTL})
	if err != nil {
		t.Fatal(err)
	}
	err = lead.Run(context.Background(), c, "k", func(ctx context.Context) error {
		fmt.Println("ok leads")
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Println("ok context:", ctx.Err())
		}
		os.Exit(0)
		return nil
	})
	t.Fatal(err)
}

// realTTL is longer than the pauses of a busy machine.
const realTTL = 5 * time.Second

// process is another process that leads.
type process struct {
	*program.Peer
	t   *testing.T
	cmd *exec.Cmd
}

// leader starts a process and returns when it leads.
func leader(t *testing.T, s *redistest.Server) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeadAsAProcess$")
	cmd.Env = append(os.Environ(), "LEAD_ADDR="+s.Addr())
	p := &process{program.Start(t, cmd), t, cmd}
	p.says("leads")
	return p
}

func (p *process) says(want string) {
	p.t.Helper()
	if got, err := p.Answer(); err != nil || got != want {
		p.t.Fatalf("the process says %q, %v; want %q", got, err, want)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) asks() {
	p.t.Helper()
	if err := p.Send(); err != nil {
		p.t.Error(err)
	}
}

// Another process leads while it stands still. It is asked as soon as it goes
// on. How soon another leads, TestAnotherLeadsWithinATTLOfACrash says.
func TestLeaderThatWasStoppedIsToldAtItsFirstCheck(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Options{})
	p := leader(t, s)
	p.asks()
	p.says("context: <nil>")
	b, err := modern.New(s.Pool(), modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := &lead.Elector{Client: client(t, b, lock.Config{}), Key: "k"}
	if name, err := e.Leader(t.Context()); name != "the process" || err != nil {
		t.Errorf("the leader is %q, %v", name, err)
	}
	p.signal(syscall.SIGSTOP)
	err = e.Run(t.Context(), func(context.Context) error {
		p.asks()
		p.signal(syscall.SIGCONT)
		p.says("context: context canceled")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

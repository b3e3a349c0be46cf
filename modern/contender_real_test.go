// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/history"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func contenderConfig() lock.Config {
	return lock.Config{TTL: contendedTTL, Margin: contendedTTL / 5, ReleaseWait: 500 * time.Millisecond}
}

const contendedTTL = time.Second

func init() { roles["contender"] = playContender }

// playContender runs a contender in another process, which ends when its input
// does. It writes its steps to its output.
func playContender() {
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", os.Getenv("ADDR")) }}
	b, err := modern.New(pool, modern.Config{
		Fence: os.Getenv("FENCE") == "true", Fair: os.Getenv("FAIR") == "true",
		Timeout: 300 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	client, err := lock.New(b, contenderConfig())
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	out := json.NewEncoder(os.Stdout)
	note := func(s history.Step) {
		if err := out.Encode(s); err != nil {
			log.Fatal(err)
		}
	}
	c := &history.Contender{Client: client, ID: 100, Rand: rand.New(rand.NewPCG(seed, 100)), Note: note}
	c.Run(ctx)
	if err := client.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// process is a contender in a process of its own, which can be stopped and
// continued.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	wg    sync.WaitGroup
}

func startContender(t *testing.T, addr string, seed uint64, cfg modern.Config,
	note func(history.Step)) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), "MODERN_TEST_ROLE=contender", "ADDR="+addr,
		"SEED="+strconv.FormatUint(seed, 10), "FAIR="+strconv.FormatBool(cfg.Fair),
		"FENCE="+strconv.FormatBool(cfg.Fence))
	p.cmd.Stderr = os.Stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.wg.Go(func() {
		in := json.NewDecoder(stdout)
		for {
			var s history.Step
			if err := in.Decode(&s); err != nil {
				return
			}
			note(s)
		}
	})
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Error(err)
	}
}

func (p *process) end(t *testing.T) {
	t.Helper()
	p.stdin.Close()
	p.wg.Wait()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

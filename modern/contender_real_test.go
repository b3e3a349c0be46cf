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

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// step is one event that a contender caused or saw, between two readings of the
// machine's clock, which all processes of the test share.
type step struct {
	Client   int
	Kind     string // "acquired", "trusted", "ended"
	From, To int64
	Fence    int64 // fencing number of "acquired"
}

// contender takes one key again and again, for random times, and records what
// it believed.
type contender struct {
	client *lock.Client
	id     int
	rng    *rand.Rand
	note   func(step)
}

const contendedKey = "contended"

func now() int64 { return time.Now().UnixNano() }

func (c *contender) run(ctx context.Context) {
	for ctx.Err() == nil {
		// An acquisition that is cancelled at a random instant leaves no
		// belief.
		attempt, cancel := context.WithTimeout(ctx, time.Duration(1+c.rng.IntN(3000))*time.Millisecond)
		from := now()
		l, err := c.client.Acquire(attempt, contendedKey)
		if err == nil {
			c.hold(l, from)
		}
		cancel()
	}
}

// hold keeps the lease for a while and checks it now and then. What it does not
// see may have happened at any time since the last check.
func (c *contender) hold(l *lock.Lease, asked int64) {
	fence, _ := l.Fence()
	c.note(step{Client: c.id, Kind: "acquired", From: asked, To: now(), Fence: fence})
	seen := now()
	looks := c.rng.IntN(6)
	if c.rng.IntN(20) == 0 {
		looks = 200 // longer than a lease lives without renewals
	}
	for range looks {
		select {
		case <-time.After(time.Duration(c.rng.IntN(15)) * time.Millisecond):
		case <-l.Done():
		}
		from := now()
		if l.Err() != nil {
			break
		}
		c.note(step{Client: c.id, Kind: "trusted", From: from, To: now()})
		seen = now()
	}
	_ = l.Release() // whatever it returns, the contender no longer trusts the lease
	c.note(step{Client: c.id, Kind: "ended", From: seen, To: now()})
}

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
	c := &contender{client: client, id: 100, rng: rand.New(rand.NewPCG(seed, 100)), note: func(s step) {
		if err := out.Encode(s); err != nil {
			log.Fatal(err)
		}
	}}
	c.run(ctx)
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

func startContender(t *testing.T, addr string, seed uint64, cfg modern.Config, note func(step)) *process {
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
			var s step
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

//go:build real

package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// counting is a lock on three servers, under which its clients add 1 to the
// number in a file. Without mutual exclusion, updates are lost.
type counting struct {
	t       *testing.T
	key     string
	file    string
	servers []*redistest.Server
	over    atomic.Bool
	counted chan string // receives the client's name after each update

	work sync.WaitGroup
	stop []func()
}

// countingTTL is longer than the test: a lease that expires early in a
// suspended process would lose an update.
const countingTTL = time.Minute

func newCounting(t *testing.T) *counting {
	c := &counting{t: t, key: "count", file: filepath.Join(t.TempDir(), "count"), counted: make(chan string)}
	if err := os.WriteFile(c.file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.servers = append(c.servers, redistest.Real(t, redistest.Options{}))
	}
	var names []string
	for _, s := range c.servers {
		names = append(names, s.Addr())
	}
	for _, s := range c.servers {
		conn := s.Pool().Get()
		if err := redistest.Seat(conn.Do, s.Addr(), names, countingTTL); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	return c
}

// process runs a driver. It returns when the driver is connected, and start
// lets it count.
func (c *counting) process(name string, env []string, command ...string) (start func()) {
	c.t.Helper()
	args := append(command[1:], c.key, c.file, strconv.FormatInt(countingTTL.Milliseconds(), 10))
	for _, s := range c.servers {
		args = append(args, s.Addr())
	}
	cmd := exec.Command(command[0], args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("%s does not start; run: make prepare: %v", name, err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill() })
	out := bufio.NewScanner(pipe)
	if !out.Scan() || out.Text() != "ready" {
		c.t.Fatalf("%s says %q instead of ready (make prepare downloads its libraries): %v", name, out.Text(),
			cmd.Wait())
	}
	c.stop = append(c.stop, func() { fmt.Fprintln(in) })
	return func() {
		c.work.Go(func() {
			fmt.Fprintln(in)
			for out.Scan() {
				c.counted <- name
			}
			if err := cmd.Wait(); err != nil {
				c.t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// client lets a lock of this process count.
func (c *counting) client(name string, lock func() (unlock func() error, err error)) (start func()) {
	return func() {
		c.work.Go(func() {
			for !c.over.Load() {
				unlock, err := lock()
				if err == nil {
					err = errors.Join(c.increment(), unlock())
				}
				if err != nil {
					c.t.Errorf("%s: %v", name, err)
					return
				}
				c.counted <- name
				<-time.After(rand.N(20 * time.Millisecond))
			}
		})
	}
}

func (c *counting) read() int {
	text, err := os.ReadFile(c.file)
	if err != nil {
		c.t.Error(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		c.t.Error(err)
	}
	return n
}

func (c *counting) increment() error {
	n := c.read()
	<-time.After(time.Millisecond)
	return os.WriteFile(c.file, []byte(strconv.Itoa(n+1)), 0o600)
}

// run lets all count until each has counted to enough at least.
func (c *counting) run(enough int, starts map[string]func()) {
	c.t.Helper()
	for _, start := range starts {
		start()
	}
	ended := make(chan struct{})
	go func() { c.work.Wait(); close(ended) }()
	total, each := 0, map[string]int{}
	patience := time.After(redistest.Patience)
	for going := true; going; {
		select {
		case name := <-c.counted:
			total++
			each[name]++
			c.end(len(each) == len(starts) && least(each) >= enough)
		case <-patience:
			c.t.Errorf("after %v not every client counted to %d: %v", redistest.Patience, enough, each)
			c.end(true)
			patience = nil
		case <-ended:
			going = false
		}
	}
	c.t.Logf("%v", each)
	if got := c.read(); got != total {
		c.t.Errorf("the clients counted to %d together, and the file says %d", total, got)
	}
	for i, s := range c.servers { // a minority is released in the background
		for end := time.Now().Add(redistest.Patience); s.Do("EXISTS", c.key) != int64(0); {
			if time.Now().After(end) {
				c.t.Fatalf("the key is left on server %d", i)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

func least(each map[string]int) int {
	n := -1
	for _, m := range each {
		if n < 0 || m < n {
			n = m
		}
	}
	return n
}

// end lets every client finish what it does.
func (c *counting) end(now bool) {
	if now && !c.over.Swap(true) {
		for _, stop := range c.stop {
			stop()
		}
	}
}

// cached returns the folder into which scripts/redlock.sh put the libraries of
// npm or pypi. Its name holds the checksum of their pins.
func cached(t *testing.T, origin string, pins ...string) string {
	t.Helper()
	cache, err := redistest.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, name := range pins {
		text, err := os.ReadFile(filepath.Join("..", "scripts", "redlock", name))
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	folder := filepath.Join(cache, "redlock", fmt.Sprintf("%s-%.6x", origin, sum.Sum(nil)))
	if _, err := os.Stat(folder); err != nil {
		t.Fatalf("redlock from %s is missing; run: make prepare: %v", origin, err)
	}
	return folder
}

func (c *counting) node() (start func()) {
	return c.process("npm's redlock",
		[]string{"NODE_PATH=" + cached(c.t, "npm", "package.json", "package-lock.json")},
		"node", filepath.Join("redlock", "count.js"))
}

func (c *counting) python() (start func()) {
	return c.process("PyPI's redlock-py",
		[]string{"PYTHONPATH=" + cached(c.t, "pypi", "requirements.txt")},
		"python3", filepath.Join("redlock", "count.py"))
}

func (c *counting) redsync() (start func()) {
	var pools []redsyncredis.Pool
	for _, s := range c.servers {
		pools = append(pools, redsyncredigo.NewPool(s.Pool()))
	}
	m := redsync.New(pools...).NewMutex(c.key, redsync.WithExpiry(countingTTL), redsync.WithTries(1<<30),
		redsync.WithRetryDelayFunc(func(int) time.Duration {
			return 10*time.Millisecond + rand.N(10*time.Millisecond)
		}))
	return c.client("redsync", func() (unlock func() error, err error) {
		return func() error { _, err := m.Unlock(); return err }, m.LockContext(context.Background())
	})
}

// own returns a client of package quorum.
func (c *counting) own(name string, fences bool) (start func()) {
	var members []quorum.Member
	for _, s := range c.servers {
		m, err := modern.New(s.Pool(), modern.Config{Name: s.Addr(), Fence: fences})
		if err != nil {
			c.t.Fatal(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, quorum.Config{GreatestTTL: countingTTL, Fences: fences})
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := lock.New(b, lock.Config{TTL: countingTTL})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := errors.Join(client.Close(context.Background()), b.Close()); err != nil {
			c.t.Errorf("Close: %v", err)
		}
	})
	return c.client(name, func() (unlock func() error, err error) {
		l, err := client.Acquire(context.Background(), c.key)
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	})
}

// Two getsetlock processes and three other libraries count until each of them
// has counted enough.
func TestRedlocksOfAllLanguagesLoseNoUpdate(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t)
			c.run(15, map[string]func(){
				"own 1": c.own("own 1", fences), "own 2": c.own("own 2", fences),
				"redsync": c.redsync(), "npm": c.node(), "pypi": c.python(),
			})
		})
	}
}

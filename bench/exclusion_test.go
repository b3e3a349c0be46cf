// SPDX-License-Identifier: Apache-2.0

//go:build real

package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/program"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// counting is a lock under which its clients add 1 to the number in a file.
// Without mutual exclusion, updates are lost.
type counting struct {
	t       *testing.T
	servers []*redistest.Server
	setup   Setup
	file    string
	counted chan string // receives the client's name after each update
	over    atomic.Bool
	clients map[string]func() // each counts until over
}

const counter = "count"

func newCounting(t *testing.T, servers int) *counting {
	// The TTL is longer than the test: a lease that expires early in a
	// suspended process would lose an update.
	c := &counting{t: t, setup: Setup{TTL: time.Minute, Goroutines: 1},
		file:    filepath.Join(t.TempDir(), "count"),
		counted: make(chan string), clients: map[string]func(){}}
	if err := os.WriteFile(c.file, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range servers {
		s := redistest.Real(t, redistest.Options{})
		c.servers, c.setup.Addrs = append(c.servers, s), append(c.setup.Addrs, s.Addr())
	}
	return c
}

func (c *counting) open(open func(Setup) (Locker, error)) Locker {
	l, err := open(c.setup)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			c.t.Errorf("Close: %v", err)
		}
	})
	return l
}

// add adds a client of this process.
func (c *counting) add(name string, open func(Setup) (Locker, error)) {
	l := c.open(open)
	c.clients[name] = func() {
		for !c.over.Load() {
			held, err := l.Lock(context.Background(), counter)
			if err == nil {
				err = errors.Join(c.increment(), held.Release())
			}
			if err != nil {
				c.t.Errorf("%s: %v", name, err)
				return
			}
			c.counted <- name
			<-time.After(rand.N(20 * time.Millisecond))
		}
	}
}

// drive adds a client of another language. Its driver counts from the first
// line of its input until the second one, and says "did" after each update.
func (c *counting) drive(name, env string, command ...string) {
	args := []string{counter, c.file, strconv.FormatInt(c.setup.TTL.Milliseconds(), 10)}
	p := start(c.t, env, append(append(command, args...), c.setup.Addrs...)...)
	c.clients[name] = func() {
		p.tell()
		for told := false; ; {
			if _, err := p.out.ReadString('\n'); err != nil {
				break
			}
			if c.counted <- name; c.over.Load() && !told {
				p.tell()
				told = true
			}
		}
		if err := p.cmd.Wait(); err != nil {
			c.t.Errorf("%s: %v, %s", name, err, &p.noise)
		}
	}
}

func (c *counting) read() int {
	text, err := os.ReadFile(c.file)
	n, numberErr := strconv.Atoi(string(text))
	if err := errors.Join(err, numberErr); err != nil {
		c.t.Error(err)
	}
	return n
}

func (c *counting) increment() error {
	n := c.read()
	<-time.After(time.Millisecond)
	return os.WriteFile(c.file, []byte(strconv.Itoa(n+1)), 0o600)
}

// run lets all clients count until each has counted to enough at least.
func (c *counting) run(enough int) {
	c.t.Helper()
	var work sync.WaitGroup
	for _, count := range c.clients {
		work.Go(count)
	}
	ended := make(chan struct{})
	go func() { work.Wait(); close(ended) }()
	total, each := 0, map[string]int{}
	patience := time.After(redistest.Patience)
	for going := true; going; {
		select {
		case name := <-c.counted:
			total++
			each[name]++
			if len(each) == len(c.clients) && slices.Min(slices.Collect(maps.Values(each))) >= enough {
				c.over.Store(true)
			}
		case <-patience:
			c.t.Errorf("after %v not every client counted to %d: %v", redistest.Patience, enough, each)
			c.over.Store(true)
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
		for end := time.Now().Add(redistest.Patience); s.Do("EXISTS", counter) != int64(0); {
			if time.Now().After(end) {
				c.t.Fatalf("the key is left on server %d", i)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// cached returns the folder into which scripts/redlock.sh put the libraries of
// npm or pypi. Its name holds the checksum of their pins.
func cached(t *testing.T, origin string, pins ...string) string {
	t.Helper()
	cache, err := program.CacheDir()
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
	return filepath.Join(cache, "redlock", fmt.Sprintf("%s-%.6x", origin, sum.Sum(nil)))
}

// Two getsetlock processes and three other libraries count on three servers.
func TestRedlocksOfAllLanguagesLoseNoUpdate(t *testing.T) {
	for name, own := range map[string]string{"plain": "quorum", "fences": "quorum, fenced"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCounting(t, 3)
			for _, s := range c.servers {
				seat(t, s.Addr(), c.setup)
			}
			c.add("own 1", locks[own])
			c.add("own 2", locks[own])
			c.add("redsync", locks["redsync, every 1 ms"])
			c.drive("npm's redlock", "NODE_PATH="+cached(t, "npm", "package.json", "package-lock.json"),
				"node", filepath.Join("redlock", "count.js"))
			c.drive("PyPI's redlock-py", "PYTHONPATH="+cached(t, "pypi", "requirements.txt"),
				"python3", filepath.Join("redlock", "count.py"))
			c.run(15)
		})
	}
}

// oneServer are libraries that share a key on one server. getsetlock comes
// twice: with a fencing number a script takes the key, and with a note the
// value is longer.
func oneServer() map[string]func(Setup) (Locker, error) {
	noted := modern.Config{Fence: true, Note: "host-7 pid 12"}
	return map[string]func(Setup) (Locker, error){
		"getsetlock":                   locks["modern"],
		"getsetlock, fenced and noted": opens(onOne(noted), lock.Config{}),
		"redsync":                      locks["redsync"],
		"redislock":                    locks["redislock"],
	}
}

func TestLibrariesExcludeEachOtherOnOneKey(t *testing.T) {
	c := newCounting(t, 1)
	for name, open := range oneServer() {
		c.add(name, open)
	}
	c.run(15)
}

// A library holds a key that expires, and the next library takes it. The late
// release of the first must leave the key alone.
func TestLateReleaseLeavesTheNextHolderAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()
	c := newCounting(t, 1)
	all := oneServer()
	names := slices.Sorted(maps.Keys(all))
	take := func(name string) Held {
		held, err := c.open(all[name]).Lock(ctx, counter)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return held
	}
	for i, late := range names {
		next := names[(i+1)%len(names)]
		lateHeld := take(late)
		c.servers[0].Do("DEL", counter) // as if it had expired
		held := take(next)
		if lateHeld.Release() == nil {
			t.Errorf("%s did not say that it had lost the key", late)
		}
		if err := held.Release(); err != nil {
			t.Errorf("%s lost its key to the late release of %s: %v", next, late, err)
		}
	}
}

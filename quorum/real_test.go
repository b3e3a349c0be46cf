// SPDX-License-Identifier: Apache-2.0

//go:build real

package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// realTTL is longer than a test takes, except where the test says so.
const realTTL = 30 * time.Second

// start starts servers that vote at once.
func start(t *testing.T, n int, options ...redistest.Options) (servers []*redistest.Server) {
	t.Helper()
	for i := range n {
		o := redistest.Options{}
		if i < len(options) {
			o = options[i]
		}
		servers = append(servers, redistest.Real(t, o))
	}
	seat(t, servers, realTTL)
	return servers
}

func seat(t *testing.T, servers []*redistest.Server, greatest time.Duration) {
	t.Helper()
	var names []string
	for _, s := range servers {
		names = append(names, s.Addr())
	}
	for _, s := range servers {
		c := s.Pool().Get()
		if err := redistest.Seat(c.Do, s.Addr(), names, greatest); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// process returns the backend of one process.
func process(t *testing.T, servers []*redistest.Server, cfg quorum.Config) *quorum.Backend {
	t.Helper()
	var members []quorum.Member
	for _, s := range servers {
		m, err := modern.New(s.Pool(), modern.Config{Name: s.Addr(), Fence: cfg.Fences})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// locks returns the lock client of one process.
func locks(t *testing.T, servers []*redistest.Server, cfg quorum.Config, times lock.Config) *lock.Client {
	t.Helper()
	c, err := lock.New(process(t, servers, cfg), times)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// with returns on how many servers the key carries the token.
func with(servers []*redistest.Server, token string) (n int) {
	for _, s := range servers {
		if v, err := redis.String(s.Do("GET", "k"), nil); err == nil && v == token {
			n++
		}
	}
	return n
}

func await(t *testing.T, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); !met(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", redistest.Patience, what)
		}
	}
}

// TestServersOfAllAgesVote starts servers of different versions.
func TestServersOfAllAgesVote(t *testing.T) {
	t.Parallel()
	var options []redistest.Options
	for _, s := range redistest.Servers(t)[:3] {
		options = append(options, redistest.Options{Path: s.Path})
	}
	servers := start(t, 3, options...)
	c := locks(t, servers, quorum.Config{Fences: true}, lock.Config{TTL: realTTL})
	var last int64
	for range 3 {
		l, err := c.Acquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		number, _ := l.Fence()
		if number <= last {
			t.Errorf("number %d after %d", number, last)
		}
		last = number
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	servers[0].Restart()
	b := process(t, servers, quorum.Config{Fences: true})
	await(t, "the restarted server rests", func() bool { return !b.Check(bg)[0].VotesAt.IsZero() })
}

// TestWhatRealServersSayIsRefused asks servers that evict keys, or that have
// replicas or are one.
func TestWhatRealServersSayIsRefused(t *testing.T) {
	t.Parallel()
	for _, bin := range redistest.Servers(t) {
		t.Run(bin.Name, func(t *testing.T) {
			t.Parallel()
			var others []*redistest.Server
			for range 2 {
				others = append(others, redistest.Real(t, redistest.Options{}))
			}
			unfit := func(s *redistest.Server, want string) {
				t.Helper()
				got := process(t, append([]*redistest.Server{s}, others...), quorum.Config{}).Check(bg)[0]
				if got.Err == nil || !got.Refused || !strings.Contains(got.Err.Error(), want) {
					t.Errorf("%+v; it should say %q", got, want)
				}
			}
			evicts := redistest.Real(t, redistest.Options{Path: bin.Path,
				Args: []string{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"}})
			unfit(evicts, "may evict")
			evicts.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			replica := evicts.StartReplica()
			unfit(evicts, "has replicas")
			unfit(replica, "is a replica")
			if bin.Name == "redis-2.8.19" {
				return // it does not say that it was a replica
			}
			replica.Do("REPLICAOF", "NO", "ONE")
			unfit(replica, "was a replica")
		})
	}
}

// A Redlock client of another library writes the same bytes: SET NX PX with one
// token, and a delete that compares it.
func TestForeignClientAndQuorumExcludeEachOther(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	b := process(t, servers, quorum.Config{}).Contract()
	for _, s := range servers[:2] {
		s.Do("SET", "k", "redsync-token", "NX", "PX", 30000)
	}
	if _, err := b.Try(bg, "k", realTTL); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a foreign client holds: %v", err)
	}
	left := func() bool { return servers[2].Do("EXISTS", "k") != int64(0) }
	await(t, "the refused attempt left nothing", func() bool { return !left() })
	for _, s := range servers {
		s.Do("DEL", "k")
	}
	g, err := b.Try(bg, "k", realTTL)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "all votes", func() bool { return with(servers, g.Token()) == 3 })
	for _, s := range servers {
		if s.Do("SET", "k", "redsync-token", "NX", "PX", 30000) != nil {
			t.Error("a foreign client got a vote that was given")
		}
	}
	if err := g.Release(bg); err != nil {
		t.Error(err)
	}
}

// A holder hears at once that it lost its majority, and a waiter of a release.
func TestReleaseAndLossAreHeard(t *testing.T) {
	t.Parallel()
	servers := start(t, 3)
	one := locks(t, servers, quorum.Config{}, lock.Config{TTL: realTTL, RetryEvery: time.Hour})
	two := locks(t, servers, quorum.Config{}, lock.Config{TTL: realTTL, RetryEvery: time.Hour})
	l, err := one.Acquire(bg, "k")
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *lock.Lease)
	go func() {
		l, err := two.Acquire(bg, "k")
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	await(t, "the waiter asks", func() bool {
		return strings.Contains(fmt.Sprintf("%s", servers[0].Do("INFO", "commandstats")), "cmdstat_exists")
	})
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if l = <-got; l == nil {
		t.Fatal("the waiter got nothing")
	}
	for _, s := range servers[:2] {
		s.Do("DEL", "k")
	}
	select {
	case <-l.Done():
	case <-time.After(redistest.Patience):
		t.Error("the holder did not hear of the loss")
	}
	_ = l.Release()
}

// SPDX-License-Identifier: Apache-2.0

// Package bench compares the locks of this repository with bare redigo and with
// other libraries. Each Benchmark function asks one question, and each of its
// sub-benchmarks answers it for one lock:
//
//	go test -run '^$' -bench 'OneKey/lock=modern' -benchtime 1x .
//
// scripts/bench.sh runs them in rounds, with client and server on one CPU, and
// makes tables of the figures; docs/internals/performance.md explains them. The
// package is in a module of its own, so that users of the lock do not depend on
// the other libraries. It promises:
//
//   - Locks take turns within a round, and each round begins with another one.
//   - Every measurement runs in new processes.
//
// It does not promise that a figure means anything elsewhere: microseconds
// depend on the machine and on its other work. Ratios carry over to other
// machines only if client and server shared one CPU that did nothing else.
//
// Throughput alone makes barging look like speed. So every benchmark with
// waiters also reports the longest wait, how many waiters got nothing, and how
// even the shares were.
//
// HAZARD: gaps between processes are differences of readings of the wall clock,
// which they share. If it is set meanwhile, gaps become negative; those are
// reported as overlaps.
package bench

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// locks are the libraries and their configurations, by the names of the tables.
var locks = map[string]func(Setup) (Locker, error){
	"bare":                       openBare,
	"modern":                     opens(onOne(modern.Config{}), lock.Config{}),
	"modern, cluster":            opens(onCluster, lock.Config{}),
	"modern, no hand-over":       opens(onOne(modern.Config{}), lock.Config{LocalHandOvers: -1}),
	"modern, fenced":             opens(onOne(modern.Config{Fence: true}), lock.Config{}),
	"modern, fair":               opens(onOne(modern.Config{Fair: true}), lock.Config{}),
	"legacy, verbatim":           opens(shared(legacy.Verbatim), lock.Config{}),
	"legacy, hardened":           opens(shared(legacy.Hardened), lock.Config{}),
	"legacy, hardened, impolite": opens(shared(legacy.Hardened), lock.Config{Politeness: -1}),
	"quorum":                     opens(onMost(false), lock.Config{}),
	"quorum, fenced":             opens(onMost(true), lock.Config{}),

	"redsync":             openRedsync(),
	"redsync, every 1 ms": openRedsync(redsync.WithTries(1<<30), redsync.WithRetryDelay(time.Millisecond)),
	// redislock does not retry by default; the interval of its own example
	// stands for its default.
	"redislock":             openRedislock(100 * time.Millisecond),
	"redislock, every 1 ms": openRedislock(time.Millisecond),
	"rueidislock":           openRueidis(false),
	"rueidislock, one key":  openRueidis(true),
}

// Locker takes locks. Its methods may be called from any goroutine.
type Locker interface {
	// Lock waits for the lock until ctx ends.
	Lock(ctx context.Context, key string) (Held, error)
	Close() error
}

// Held is a lock that is held.
type Held interface {
	// Release returns an error if the lock had been lost.
	Release() error
}

// Extender is implemented by Held values of libraries that leave renewal to
// their users. The other libraries renew by themselves.
type Extender interface {
	Extend(ctx context.Context) error
}

// Setup says to which servers, and how, an adapter connects.
type Setup struct {
	Addrs      []string      // host:port of every server
	TTL        time.Duration // of the locks
	Goroutines int           // number of goroutines that use the Locker at the same time
	Away       time.Duration // additional round trip to the servers
}

// Pools returns a redigo pool for each server, with room for every goroutine's
// connection.
func (s Setup) Pools() (pools []*redis.Pool) {
	for _, addr := range s.Addrs {
		pools = append(pools, s.pool(addr))
	}
	return pools
}

func (s Setup) pool(addr string) *redis.Pool {
	return &redis.Pool{MaxIdle: s.Goroutines + 1, DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", addr, redis.DialContextFunc(s.Dial))
	}}
}

// Dial connects to a server at the setup's distance, and counts the messages
// sent. Every lock uses it, so the counting costs all of them the same.
func (s Setup) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near := counted{conn.(*net.TCPConn)}
	if s.Away == 0 {
		return near, nil
	}
	f := far{Conn: near, away: s.Away, sent: make(chan letter, 1<<12)}
	go f.deliver()
	return f, nil
}

// messages is the number of commands that this process has sent, and writes is
// in how many calls: a pipeline is one.
var messages, writes atomic.Int64

// counted counts asterisks: every command begins with one, and only the text of
// a script, sent once per process, contains others. It embeds the concrete
// type, so that a library that looks for its system calls finds them.
type counted struct{ *net.TCPConn }

func (c counted) Write(p []byte) (int, error) {
	messages.Add(int64(bytes.Count(p, asterisk)))
	writes.Add(1)
	return c.TCPConn.Write(p)
}

var asterisk = []byte{'*'}

// far is a connection on which everything arrives at the server later, at the
// same rate. It does not offer system calls, which would not be late.
type far struct {
	net.Conn
	away time.Duration
	sent chan letter
}

type letter struct {
	arrives time.Time
	text    []byte
}

func (f far) Write(p []byte) (int, error) {
	f.sent <- letter{time.Now().Add(f.away), bytes.Clone(p)}
	return len(p), nil
}

// deliver writes until the connection ends.
func (f far) deliver() {
	for l := range f.sent {
		time.Sleep(time.Until(l.arrives))
		if _, err := f.Conn.Write(l.text); err != nil {
			return
		}
	}
}

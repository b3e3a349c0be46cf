// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// Opening is the true time, and the server's, at which a run begins.
var Opening = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// Lease is the lease of all clients of the fleet.
const Lease = 10 * time.Second

// Gap is longer than any client's attempt takes, from the clock reading to the
// GETSET.
const Gap = 10 * time.Millisecond

// Member is one process of the fleet.
type Member struct {
	Addr    string // address as the server sees it; two processes may share one
	Name    string // name of the connection
	Library string
	Dialect dialect.Dialect
	Key     string
	// Offset is the clock's offset to the server's. From StepAt on, counted
	// from the opening, it is Offset + Step. Zero StepAt: no step.
	Offset, Step, StepAt time.Duration
	// Job is the range of the job's length, drawn evenly.
	Job [2]time.Duration
	// Rest is the range of the pause after a job, drawn evenly.
	Rest [2]time.Duration
	// DiesAt is the time, since the opening, in whose next job the process dies
	// without a release. Zero: never.
	DiesAt time.Duration
}

// offset returns the clock's offset at an instant after the opening.
func (m Member) offset(at time.Duration) time.Duration {
	if m.StepAt > 0 && at >= m.StepAt {
		return m.Offset + m.Step
	}
	return m.Offset
}

func span(a, b time.Duration) [2]time.Duration { return [2]time.Duration{a, b} }

// Members returns the processes of the fleet.
func Members() []Member {
	const jedis, php = "jedis 2.9.3", "phpredis 5.3"
	stock := func(host int, offset time.Duration) Member {
		return Member{
			Addr: fmt.Sprintf("10.0.0.%d:4010%d", host, host), Name: fmt.Sprintf("stock-%d", host),
			Library: jedis, Dialect: dialect.Jedis(),
			Key: "lock:stock", Offset: offset, Job: span(1*time.Second, 4*time.Second),
			Rest: span(500*time.Millisecond, 2*time.Second),
		}
	}
	ahead := stock(3, 7*time.Second+300*time.Millisecond)
	stepped := stock(4, -40*time.Millisecond)
	stepped.Step, stepped.StepAt = -1500*time.Millisecond, 45*time.Second
	long := stock(2, 120*time.Millisecond)
	long.Job = span(3*time.Second, 8*time.Second)
	mail := func(offset time.Duration) Member {
		m := stock(5, offset)
		m.Name, m.Key = "", "lock:mail"
		m.Job = span(200*time.Millisecond, time.Second)
		return m
	}
	report := stock(6, 15*time.Millisecond)
	report.Name, report.Key = "report-java", "lock:report"
	cron := report
	cron.Addr, cron.Name, cron.Library, cron.Dialect, cron.Offset = "10.0.0.7:40107", "report-cron", php,
		dialect.Page(), -210*time.Millisecond
	crashed := stock(8, 30*time.Millisecond)
	crashed.Name, crashed.Key, crashed.DiesAt = "backup-8", "lock:backup", 20*time.Second
	return []Member{stock(1, 2*time.Millisecond), long, ahead, stepped, mail(-3 * time.Millisecond),
		mail(2200 * time.Millisecond), report, cron, crashed}
}

// Fleet is the members and their server.
type Fleet struct {
	mini    *miniredis.Miniredis
	random  *rand.Rand
	clients []*client
	now     time.Duration // since the opening
	each    func(offset.Observed)
	current *client // client whose command the server is executing
}

// New starts the server, which no other process can reach, and connects the
// members.
func New(seed uint64) (*Fleet, error) {
	f := &Fleet{mini: miniredis.NewMiniRedis(), random: rand.New(rand.NewPCG(seed, 1)),
		each: func(offset.Observed) {}}
	f.mini.SetTime(Opening)
	for n, m := range Members() {
		conn, err := f.dial()
		if err != nil {
			f.Close()
			return nil, err
		}
		f.clients = append(f.clients,
			&client{Member: m, fleet: f, conn: conn,
				at: time.Duration(n)*170*time.Millisecond + f.between(span(0, time.Second))})
	}
	f.mini.Server().SetPreHook(f.tap)
	return f, nil
}

// Close ends the server and its connections.
func (f *Fleet) Close() {
	for _, c := range f.clients {
		_ = c.conn.Close()
	}
	f.mini.Close()
}

func (f *Fleet) dial() (redis.Conn, error) {
	return redis.Dial("tcp", "embedded",
		redis.DialNetDial(func(string, string) (net.Conn, error) { return f.mini.Dial() }))
}

// Pool returns a pool for the server. The server's clock stays where the run
// has come to. Commands through the pool are not reported.
func (f *Fleet) Pool() *redis.Pool { return &redis.Pool{Dial: f.dial} }

// Now returns the server's time.
func (f *Fleet) Now() time.Time { return Opening.Add(f.now) }

// tap reports a member's command before the server executes it, with the
// member's address.
func (f *Fleet) tap(_ *server.Peer, name string, args ...string) bool {
	if f.current != nil {
		f.each(offset.Observed{At: f.Now(), Kind: offset.ObservedCommand, Addr: f.current.Addr,
			Args: append([]string{name}, args...)})
	}
	return false // the server executes the command
}

// Run plays the fleet for that long by true time. It reports to each what
// MONITOR and CLIENT LIST would have shown. If ctx ends, it returns early
// without an error.
func (f *Fleet) Run(ctx context.Context, span time.Duration, each func(offset.Observed)) error {
	f.each = each
	defer func() { f.each, f.current = func(offset.Observed) {}, nil }()
	for _, c := range f.clients {
		each(offset.Observed{At: f.Now(), Kind: offset.ObservedClient, Addr: c.Addr, Name: c.Name,
			Library: c.Library})
	}
	end := f.now + span
	for ctx.Err() == nil {
		next := f.clients[0]
		for _, c := range f.clients {
			if c.at < next.at {
				next = c
			}
		}
		if next.at >= end {
			break
		}
		f.now = max(f.now, next.at).Truncate(time.Microsecond)
		f.mini.SetTime(f.Now())
		f.current = next
		if err := next.step(); err != nil {
			return fmt.Errorf("demo: %s: %w", next.Name, err)
		}
		f.current = nil
	}
	f.now = max(f.now, end)
	f.mini.SetTime(f.Now())
	return nil
}

// between draws evenly from a range.
func (f *Fleet) between(s [2]time.Duration) time.Duration {
	if s[1] <= s[0] {
		return s[0]
	}
	return s[0] + time.Duration(f.random.Int64N(int64(s[1]-s[0])))
}

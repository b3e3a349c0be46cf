// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// joined are n members, each with its own connection, that send no heartbeat
// by themselves.
func joined(b *testing.B, pool *redis.Pool, n int) []*migrate.Member {
	b.Helper()
	if _, err := Init(bg, pool, Options{}); err != nil {
		b.Fatal(err)
	}
	members := make([]*migrate.Member, n)
	for i := range members {
		m, err := migrate.Join(bg, pool, migrate.MemberConfig{
			Every: time.Hour, Name: fmt.Sprintf("stock@host-%03d.example.net", i)})
		if err != nil {
			b.Fatal(err)
		}
		members[i] = m
	}
	b.Cleanup(func() {
		var all sync.WaitGroup
		for _, m := range members {
			all.Go(func() { _ = m.Leave() })
		}
		all.Wait()
	})
	return members
}

// BenchmarkHeartbeatsOfAThousandMembers measures what share of one core the
// server spends on the heartbeats of 1,000 members at the default period, by
// its own account of its time.
//
// The rounds of one period follow each other without a pause, from few
// goroutines, each on its member's own connection. That is their cost on a
// server that is awake for other work.
//
// With -short there are a hundred members, whose period is soon over. That
// shows that the measurement works, and gives no figure.
func BenchmarkHeartbeatsOfAThousandMembers(b *testing.B) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	period := time.Duration(n) * 50 * time.Millisecond // of a fleet of n: see MemberConfig.Every
	s := redistest.Real(b, redistest.Options{})
	pool := s.Pool()
	members := joined(b, pool, n)
	cpu := serverCPU(b, pool)
	for b.Loop() {
		beatAll(b, members)
	}
	b.ReportMetric(100*(serverCPU(b, pool)-cpu)/(float64(b.N)*period.Seconds()), "%core")
}

// beatAll lets each member beat once.
func beatAll(b *testing.B, members []*migrate.Member) {
	b.Helper()
	const hands = 8
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			for i := hand; i < len(members); i += hands {
				if err := members[i].Refresh(bg); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkStatusOfAThousandMembers measures what a look at a registry of 1,000
// members costs, and how much of that is the server's.
func BenchmarkStatusOfAThousandMembers(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	pool := s.Pool()
	joined(b, pool, 1000)
	cpu := serverCPU(b, pool)
	for b.Loop() {
		r, err := Status(context.Background(), pool, Options{Claims: known})
		if err != nil {
			b.Fatal(err)
		}
		if n := len(r.Members); n != 1000 || r.Gate == nil {
			b.Fatalf("%d members", n)
		}
	}
	b.ReportMetric(1000*(serverCPU(b, pool)-cpu)/float64(b.N), "server-ms/look")
}

// serverCPU is how many seconds the server's process has worked.
func serverCPU(b *testing.B, pool *redis.Pool) float64 {
	b.Helper()
	return info(b, pool, "cpu", "used_cpu_sys:") + info(b, pool, "cpu", "used_cpu_user:")
}

// info is a number in INFO, zero if it is not there.
func info(b *testing.B, pool *redis.Pool, section, name string) (value float64) {
	b.Helper()
	c := pool.Get()
	defer c.Close()
	text, err := redis.String(c.Do("INFO", section))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(text, "\n"+name)
	if !found {
		return 0
	}
	if _, err := fmt.Sscanf(rest, "%f", &value); err != nil {
		b.Fatal(err)
	}
	return value
}

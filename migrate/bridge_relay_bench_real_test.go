// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"context"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// BenchmarkHandOver compares the cost of handing a key from one goroutine of a
// process to the next with that of package modern. 16 goroutines of each want
// one key all the time. In this dialect every acquisition is settled, here for
// 1.1 s; a guard that is handed over was settled before. One operation is 64
// acquisitions. In "ended" the hand-overs end as by default, after at most 100
// ms, and each time a settle follows. There the number of acquisitions a second
// counts.
func BenchmarkHandOver(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	for _, c := range []struct {
		name string
		cfg  lock.Config
	}{
		{"shared", lock.Config{LocalHandOvers: endless, HandOverFor: time.Hour}},
		{"ended", lock.Config{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s.Do("FLUSHALL")
			token, err := modern.New(s.Pool(), modern.Config{})
			if err != nil {
				b.Fatal(err)
			}
			bridge, err := migrate.New(s.Pool(), migrate.Config{
				Phases: migrate.Fixed(migrate.Dual), Dialect: dialect.JedisUUID(),
				Terms: dialect.Terms{Lease: time.Minute},
			})
			if err != nil {
				b.Fatal(err)
			}
			c.cfg.Politeness = -1
			turn := relay(b, bridge, "k", c.cfg)
			if c.name != "ended" {
				b.ReportMetric(redistest.Ratio(b, relay(b, token, "of-modern", c.cfg), turn), "x-modern")
				return
			}
			for b.Loop() {
				turn()
			}
			b.ReportMetric(float64(relayTurn*b.N)/b.Elapsed().Seconds(), "acquisitions/s")
		})
	}
}

const (
	endless    = 1 << 30
	relayTurn  = 64
	relayHands = 16
)

// relay lets goroutines take a key in turns, so many times at each call. In
// between the one whose turn comes next holds it, and the others wait, so that
// the key is never released.
func relay(b *testing.B, backend backend.Store, key string, cfg lock.Config) func() {
	c, err := lock.New(backend, cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	begin, done := make(chan struct{}), make(chan struct{})
	left := 0 // of this turn; the goroutine that holds the key has it
	for range relayHands {
		go func() {
			for {
				l, err := c.Acquire(ctx, key)
				if err != nil {
					return // the end of the benchmark
				}
				if left == 0 {
					select {
					case <-begin:
						left = relayTurn
					case <-ctx.Done():
						_ = l.Release()
						return
					}
				}
				if left--; left == 0 {
					done <- struct{}{}
				}
				if err := l.Release(); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	b.Cleanup(func() { cancel(); c.Close(context.Background()) })
	return func() {
		begin <- struct{}{}
		<-done
	}
}

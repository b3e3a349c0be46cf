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

// BenchmarkBridge compares an acquisition and its release with those of package
// modern. The two take turns in short rounds. It also reports the median of the
// rounds' ratios, which should be at most 1.3 in phase dual. Run it under
// taskset -c 0 where nothing else runs.
func BenchmarkBridge(b *testing.B) {
	s := redistest.Real(b, redistest.Options{})
	for _, fence := range []bool{false, true} {
		for _, p := range migrate.Phases() {
			name := p.String()
			if fence {
				name += " fenced"
			}
			b.Run(name, func(b *testing.B) {
				s.Do("FLUSHALL")
				token, err := modern.New(s.Pool(), modern.Config{Fence: fence})
				if err != nil {
					b.Fatal(err)
				}
				bridge, err := migrate.New(s.Pool(), migrate.Config{
					Phases: migrate.Fixed(p), Fence: fence, Terms: dialect.Terms{Lease: time.Minute},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ReportMetric(redistest.Ratio(b, pair(b, token, "of-modern"), pair(b, bridge, "k")),
					"x-modern")
			})
		}
	}
}

// pair is one acquisition and its release, without politeness, for which there
// is nobody here.
func pair(b *testing.B, backend backend.Store, key string) func() {
	c, err := lock.New(backend, lock.Config{Politeness: -1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(func() { cancel(); c.Close(context.Background()) })
	return func() {
		l, err := c.Acquire(ctx, key)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

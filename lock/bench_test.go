// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// BenchmarkFront measures what the Client adds to a store that answers at once:
// everything beyond the store's own time and allocations, which the "store" row
// shows.
func BenchmarkFront(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Run("store", func(b *testing.B) {
		backend := locktest.NewStore(lock.Machine).Backend()
		b.ReportAllocs()
		for b.Loop() {
			g, err := backend.Contract().Try(ctx, "k", 1<<35)
			if err != nil {
				b.Fatal(err)
			}
			if err := g.Release(ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("client", func(b *testing.B) {
		client, err := lock.New(backend.Of(prompt{locktest.NewStore(lock.Machine).Backend().Contract()}),
			lock.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			l, err := client.Acquire(ctx, "k")
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Release(); err != nil {
				b.Fatal(err)
			}
		}
		if err := client.Close(ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// prompt is a backend that bounds its own calls, as those of this module do.
type prompt struct{ backend.Backend }

func (prompt) Advise(c backend.Settings) backend.Settings { return c }
func (prompt) Fits(_, _, _ time.Duration) error           { return nil }
func (prompt) Timeout() time.Duration                     { return time.Second }

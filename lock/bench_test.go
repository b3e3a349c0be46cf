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

// BenchmarkHandOver measures what a hand-over without a message to the store
// takes, with all goroutines on one key.
func BenchmarkHandOver(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := locktest.NewStore(lock.Machine)
	client, err := lock.New(backend.Of(generous{store.Backend().Contract()}),
		lock.Config{LocalHandOvers: 1 << 30, HandOverFor: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(256)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := client.Acquire(ctx, "k")
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Release(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := client.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// generous is a backend whose grants are shared by any number of goroutines.
type generous struct{ backend.Backend }

func (b generous) Try(ctx context.Context, key string, ttl time.Duration) (backend.Grant, error) {
	g, err := b.Backend.Try(ctx, key, ttl)
	if err != nil {
		return nil, err
	}
	return &generousGrant{g}, nil
}

type generousGrant struct{ backend.Grant }

func (g *generousGrant) Share() (backend.Grant, bool) { return g, true }

// prompt is a backend that bounds its own calls, as those of this module do.
type prompt struct{ backend.Backend }

func (prompt) Advise(c backend.Settings) backend.Settings { return c }
func (prompt) Fits(_, _, _ time.Duration) error           { return nil }
func (prompt) Timeout() time.Duration                     { return time.Second }

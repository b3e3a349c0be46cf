// SPDX-License-Identifier: Apache-2.0

//go:build real

package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// busy sends 10,000 commands a second until ctx ends, a fifth of them SETNX of
// another program, in a database.
func busy(ctx context.Context, t *testing.T, pool *redis.Pool) {
	c := pool.Get()
	defer c.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for n := range 100 {
			name := "GET"
			args := []any{fmt.Sprint("session:", i, ":", n%10)}
			if n%5 == 0 {
				name, args = "SETNX", append(args, "1")
			}
			if err := c.Send(name, args...); err != nil {
				t.Error(err)
				return
			}
		}
		if _, err := c.Do("DEL", fmt.Sprint("session:", i, ":0"),
			fmt.Sprint("session:", i, ":5")); err != nil {
			t.Error(err)
			return
		}
	}
}

// walk is a fleet on its road, watched by MONITOR, and one old client.
type walk struct {
	t    *testing.T
	pool *redis.Pool
	old  *oldTries // in the watched database
	zero *oldTries // of the same name, in database 0
	m    *migrate.Member
	o    Options

	tries atomic.Bool  // the old client does, at each sighting
	tried atomic.Int64 // when it tried last, before that by the server's clock
	seen  chan Sighting
	stop  context.CancelFunc
	ended chan error
}

// watch starts a watcher.
func (w *walk) watch() {
	ctx, stop := context.WithCancel(bg)
	w.stop, w.ended = stop, make(chan error, 1)
	w.seen = make(chan Sighting, 1)
	seen := w.seen
	go func() {
		w.ended <- WatchClients(ctx, w.pool, ObserverConfig{
			Namespace: "lock", Name: "watch", Dialect: w.o.Dialect, Monitor: true,
			Every: 100 * time.Millisecond,
			Seen: func(s Sighting, r *audit.Result) {
				if w.tries.Load() {
					w.tried.Store(w.old.again().UnixNano())
				}
				w.zero.again() // at each sighting, and never seen
				w.sound(s, r)
				select {
				case <-seen:
				default:
				}
				seen <- s
			},
		})
	}()
}

// sound fails where the window holds an attempt that was made.
func (w *walk) sound(s Sighting, r *audit.Result) {
	q := s.Quiet
	from, until := s.QuietUntil.Add(-q), s.QuietUntil
	if last := time.Unix(0, w.tried.Load()); q > 0 && last.After(from) &&
		last.Before(until.Add(-100*time.Millisecond)) {
		w.t.Errorf("quiet for %v until %v, and it tried at %v: %+v", q, until, last,
			r.Evidence.Covered(census.SourceMonitor))
	}
}

// grows waits until the window is so long.
func (w *walk) grows(to time.Duration) Sighting {
	w.t.Helper()
	return w.until(fmt.Sprint("a window of ", to),
		func(s Sighting) bool { return s.Quiet >= to })
}

func (w *walk) until(what string, so func(Sighting) bool) Sighting {
	w.t.Helper()
	patience := time.After(redistest.Patience)
	for {
		select {
		case s := <-w.seen:
			if so(s) {
				return s
			}
		case err := <-w.ended:
			w.t.Fatalf("the watch ended before %s: %v", what, err)
		case <-patience:
			w.t.Fatalf("%s never came", what)
		}
	}
}

// step takes a step as soon as its gate opens, and brings the member there.
func (w *walk) step(v func(context.Context, *redis.Pool, Options) (*Report, error), to migrate.Phase) {
	w.t.Helper()
	w.until(fmt.Sprint("the gate to ", to), func(Sighting) bool {
		r, err := v(bg, w.pool, w.o)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.m.Refresh(bg); err != nil {
			w.t.Fatal(err)
		}
		return r.Moved
	})
}

// shut fails if the gate to sealed opens.
func (w *walk) shut(when string) {
	w.t.Helper()
	r, err := Advance(bg, w.pool, w.o)
	if err != nil || r.Moved {
		w.t.Fatalf("%s: moved, %v", when, err)
	}
	for _, b := range r.Gate.Blocks {
		if b.Rule == "window" || b.Rule == "old-clients" {
			return
		}
	}
	w.t.Fatalf("%s: closed by %+v", when, r.Gate.Blocks)
}

// ends ends the watch.
func (w *walk) ends() { w.stop(); <-w.ended }

// TestWholeRoadBesideOtherProgramsAndAStall goes from observe to clean in
// database 3, with keys in each spelling, once over a socket. Another program
// sends 10,000 commands a second in the same database, a fifth of them SETNX,
// and a client of the same lock tries in database 0. The server stalls for
// 0.7 s, and the watcher is restarted. The window grows while no old client
// tries, and never while one does.
func TestWholeRoadBesideOtherProgramsAndAStall(t *testing.T) {
	for _, e := range []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON} {
		t.Run(string(e), func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Options{Unix: e == dialect.JSON,
				Args: []string{"--enable-debug-command", "yes"}})
			d := spring(e)
			pool := s.Pool(redis.DialDatabase(3))
			w := &walk{t: t, pool: pool, old: newOldTries(t, pool, d), zero: newOldTries(t, s.Pool(), d),
				o: Options{Namespace: "lock", Dialect: d, Go: true, Wait: redistest.Patience}}
			w.o.Claims = Claims{
				Lease: time.Second, Greatest: time.Second, Job: 500 * time.Millisecond,
				Spread: 10 * time.Millisecond, Gap: 10 * time.Millisecond, Idle: 2 * time.Second,
			}
			ctx, stop := context.WithCancel(bg)
			var noise sync.WaitGroup
			noise.Go(func() { busy(ctx, t, pool) })
			defer noise.Wait()
			defer stop()
			var err error
			if w.m, err = migrate.Join(bg, pool,
				migrate.MemberConfig{Namespace: "lock", Dialect: d.Name, Every: time.Second}); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.m.Goodbye(bg) }()
			w.m.Attach(func(context.Context, string) error { return nil })
			if r, err := Init(bg, pool, w.o); err != nil || !r.Moved {
				t.Fatal(r, err)
			}
			if err := w.m.Refresh(bg); err != nil {
				t.Fatal(err)
			}

			w.watch()
			w.step(Advance, migrate.Dual)
			w.tries.Store(true)
			saw := w.until("an attempt that was seen",
				func(s Sighting) bool { return s.LastFailed != nil || s.LastWrite != nil })
			if last := later(saw.LastWrite, saw.LastFailed); last.Key != w.old.key || len(saw.Keys) != 1 {
				t.Errorf("seen on %q, keys %+v", last.Key, saw.Keys)
			}
			for range 10 {
				w.until("a sighting", func(Sighting) bool { return true })
				w.shut("while the old client tries")
			}
			w.tries.Store(false)
			w.grows(time.Second)

			// The server stalls. MONITOR's lines come late, and none is lost.
			before := w.grows(1500 * time.Millisecond)
			s.Do("DEBUG", "SLEEP", "0.7")
			w.until("growth after the stall", func(s Sighting) bool {
				return s.QuietUntil.Sub(before.QuietUntil) > 2*time.Second
			})

			// The watcher is started anew, and the old client tries while
			// nobody watches.
			w.ends()
			w.tried.Store(w.old.again().UnixNano())
			w.watch()
			w.until("the first word", func(Sighting) bool { return true })
			w.shut("after an attempt that nobody saw")
			w.step(Advance, migrate.Sealed)
			w.step(Advance, migrate.Modern)
			w.step(CleanUp, migrate.Clean)
			w.ends()
		})
	}
}

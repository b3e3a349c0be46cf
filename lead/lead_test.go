// SPDX-License-Identifier: Apache-2.0

package lead_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lead"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const ttl = 10 * time.Second

// client makes a Client that is closed at the end of the test.
func client(t *testing.T, s backend.Store, cfg lock.Config) *lock.Client {
	t.Helper()
	cfg.TTL, cfg.Logger = ttl, slog.New(slog.DiscardHandler)
	c, err := lock.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// tokens opens the embedded server of a bubble, as a process of this name.
func tokens(t *testing.T, w *redistest.World, name string) backend.Store {
	t.Helper()
	b, err := modern.New(w.Pool(), modern.Config{Fence: true, Note: name})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// skewed is a clock whose rate differs from the store's.
type skewed struct {
	began time.Time
	rate  float64
}

func (c skewed) Elapsed() time.Duration { return time.Duration(float64(time.Since(c.began)) * c.rate) }
func (c skewed) Now() time.Time         { return c.began.Add(c.Elapsed()) }
func (c skewed) After(d time.Duration) <-chan time.Time {
	return time.After(time.Duration(float64(d)/c.rate) + 1)
}

// judge hears of each beginning of a leadership. The contexts of all before
// must have ended by then.
type judge struct {
	t    *testing.T
	mu   sync.Mutex
	last map[string]context.Context
	led  int
}

func (j *judge) begins(name string, ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for other, before := range j.last {
		if before.Err() == nil {
			j.t.Errorf("%s leads, and %s has not been told that it does not", name, other)
		}
	}
	j.last[name] = ctx
	j.led++
}

// Five processes campaign. Leaders resign, look at their context rarely, panic
// not at all; renewals fail for longer than a TTL; replies are lost; clocks run
// apart by what Margin allows.
func TestLeaderIsToldOfItsLossBeforeAnotherBegins(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s, draw := locktest.NewStore(lock.Machine), rand.New(rand.NewPCG(seed, 34))
			j := &judge{t: t, last: map[string]context.Context{}}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			var work sync.WaitGroup
			for i := range 5 {
				name, own := fmt.Sprint("process ", i), rand.New(rand.NewPCG(seed, uint64(i)))
				cl := client(t, s.Full(), lock.Config{
					Clock: skewed{time.Now(), 0.95 + float64(own.IntN(100))/1000}})
				work.Go(func() { campaign(ctx, t, cl, name, j, own) })
			}
			work.Go(func() { disturb(ctx, s, draw) })
			work.Wait()
			if j.led < 50 {
				t.Errorf("seed %d: only %d leaderships", seed, j.led)
			}
		})
	}
}

// campaign leads again and again until ctx ends.
func campaign(ctx context.Context, t *testing.T, cl *lock.Client, name string, j *judge, draw *rand.Rand) {
	e := &lead.Elector{Client: cl, Key: "k",
		Elected: func(leading context.Context) { j.begins(name, leading) }}
	for ctx.Err() == nil {
		err := e.Run(ctx, func(leading context.Context) error {
			for range draw.IntN(5) {
				time.Sleep(time.Duration(draw.Int64N(int64(ttl)))) // it looks rarely
				if ctx.Err() == nil && e.IsLeader() != (leading.Err() == nil) {
					t.Errorf("IsLeader is %v, and the context says %v", e.IsLeader(), leading.Err())
				}
				if leading.Err() != nil {
					return leading.Err()
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, lock.ErrLost) && !errors.Is(err, errAway) && ctx.Err() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errAway = errors.New("away")

// disturb makes calls of the store fail for a while, again and again.
func disturb(ctx context.Context, s *locktest.Store, draw *rand.Rand) {
	ops := []string{"extend", "release", "try", "watch"}
	for ctx.Err() == nil {
		s.Order(locktest.Fault{Op: ops[draw.IntN(len(ops))], Err: errAway, Passes: true,
			After: draw.IntN(2) == 0})
		time.Sleep(time.Duration(draw.Int64N(int64(2 * ttl))))
		s.Mend()
		time.Sleep(time.Duration(draw.Int64N(int64(ttl))))
	}
	s.Mend()
}

func TestRunResignsWhenItsFuncReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		cl := client(t, tokens(t, w, "host 7"), lock.Config{})
		broken := errors.New("broken")
		e := &lead.Elector{Client: cl, Key: "k"}
		var said []string
		var works []context.Context
		e.Elected = func(ctx context.Context) { said = append(said, fmt.Sprint("elected ", e.IsLeader())) }
		e.Ended = func(err error) { said = append(said, fmt.Sprint("ended ", e.IsLeader(), err)) }
		for n := range 2 {
			err := e.Run(t.Context(), func(ctx context.Context) error {
				if err := e.Run(ctx, nil); err == nil {
					t.Error("Run without a func")
				}
				err := e.Run(ctx, func(context.Context) error { return nil })
				if err == nil || errors.Is(err, lock.ErrNested) {
					t.Errorf("an Elector that runs already: %v", err)
				}
				if name, err := e.Leader(ctx); name != "host 7" || err != nil {
					t.Errorf("the leader is %q, %v", name, err)
				}
				number, ok := lead.Fence(ctx)
				if !ok || number <= int64(n) {
					t.Errorf("number %d, %v", number, ok)
				}
				other, leads := e.Context(t.Context()) // of work that the func does not start
				if same, ok := lead.Fence(other); !leads || !ok || same != number {
					t.Errorf("another context of the leadership: %v, number %d", leads, same)
				}
				works = append(works, other)
				return broken
			})
			if !errors.Is(err, broken) {
				t.Errorf("Run: %v", err)
			}
		}
		if got := fmt.Sprint(said); got != "[elected true ended false <nil> elected true ended false <nil>]" {
			t.Error(got)
		}
		if name, err := e.Leader(t.Context()); name != "" || err != nil {
			t.Errorf("after it resigned, the leader is %q, %v", name, err)
		}
		for _, ctx := range works {
			if !errors.Is(context.Cause(ctx), lock.ErrReleased) {
				t.Errorf("work of a leadership ended by %v", context.Cause(ctx))
			}
		}
		ctx, leads := e.Context(t.Context())
		if _, numbered := lead.Fence(ctx); leads || numbered || ctx.Err() != nil {
			t.Error("a context of a leadership outside of one")
		}
	})
}

func TestPanicOfAFuncResigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewStore(lock.Machine)
		cl := client(t, s.Full(), lock.Config{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is swallowed")
				}
			}()
			_ = lead.Run(t.Context(), cl, "k", func(context.Context) error { panic("broken") })
		}()
		if s.Holder("k") != "" {
			t.Error("the key stays taken")
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.NewStore(lock.Machine)
		s.Seize("k", "another", time.Hour)
		over := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(over) })
		cl := client(t, s.Full(), lock.Config{Wait: time.Second}) // a campaign does not end with Wait
		err := lead.Run(ctx, cl, "k", func(context.Context) error { t.Error("it leads"); return nil })
		if !errors.Is(err, over) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A leader whose process is killed is followed within a TTL.
func TestAnotherLeadsWithinATTLOfACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		g, err := tokens(t, w, "dead").Contract().Try(t.Context(), "k", ttl)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_ = g // nobody renews it
		cl := client(t, tokens(t, w, "heir"), lock.Config{})
		err = lead.Run(t.Context(), cl, "k", func(context.Context) error {
			if d := time.Since(began); d < ttl || d > ttl+100*time.Millisecond {
				t.Errorf("the heir leads after %v", d)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A server that restarts empty forgets who leads. The leader finds
// out, and campaigns again.
func TestLeaderIsToldThatTheServerForgotIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		cl := client(t, tokens(t, w, "leader"), lock.Config{})
		var ended []error
		e := &lead.Elector{Client: cl, Key: "k", Ended: func(err error) { ended = append(ended, err) }}
		calls := 0
		err := e.Run(t.Context(), func(ctx context.Context) error {
			if calls++; calls == 2 {
				return nil
			}
			w.Mini.FlushAll()
			began := time.Now()
			<-ctx.Done()
			if d := time.Since(began); d > ttl/2 {
				t.Errorf("told after %v", d)
			}
			return ctx.Err()
		})
		if err != nil || calls != 2 || len(ended) != 2 || !errors.Is(ended[0], lock.ErrLost) ||
			ended[1] != nil {
			t.Errorf("%d leaderships, which ended by %v; Run: %v", calls, ended, err)
		}
	})
}

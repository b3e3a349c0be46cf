// SPDX-License-Identifier: Apache-2.0

//go:build real

package audit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
)

// team is a JVM with its own wall clock.
type team struct {
	jvm   *interop.JVM
	clock *wallshift.Clock
}

func newTeam(t *testing.T) team {
	t.Helper()
	clock := wallshift.New(t)
	j, err := interop.Start(t.Context(), interop.Options{Env: clock.Env()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return team{j, clock}
}

// waiter returns a client of the original jar, ready to wait for the key.
func (m team) waiter(t *testing.T, addr, key string) *interop.Client {
	t.Helper()
	c := interop.NewClient(t, m.jvm, addr)
	if err := c.Lock(t.Context(), interop.Jar, key, time.Minute, time.Minute); err != nil {
		t.Fatal(err)
	}
	return c
}

// A hundred samples of each kind: ten rounds of ten at once. Each client has
// its own clock and yields one interval.
const (
	surveyRounds = 10
	surveyWidth  = 10
)

// The observed interval holds whatever clocks do, before a step and after it.
func TestRealOffsetsLieInTheirIntervals(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	var pairs [surveyWidth]surveyPair
	for i := range pairs {
		pairs[i].steady, pairs[i].stepping = newTeam(t), newTeam(t)
	}
	random := rand.New(rand.NewPCG(6, 1))
	for round := range surveyRounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			for i := range pairs {
				pairs[i].draw(random)
			}
			surveyRound{server: s, pairs: pairs}.run(t)
		})
	}
}

// surveyPair is two JVMs, and what their clocks do in a round.
type surveyPair struct {
	steady, stepping    team
	offset, other, step time.Duration // of the stepping clock, of the steady one, and the step
}

// longestAttempt is longer than an attempt takes on a busy machine. A step more
// than twice as long cannot be taken for late writes.
const longestAttempt = 5 * time.Second

func (p *surveyPair) draw(random *rand.Rand) {
	p.offset = between(random, -5*time.Second, 5*time.Second)
	p.other = between(random, -5*time.Second, 5*time.Second)
	if p.step = between(random, 2*longestAttempt+time.Second, 20*time.Second); random.IntN(2) == 0 {
		p.step = -p.step
	}
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Int64N(int64(high-low)))).Truncate(time.Millisecond)
}

type surveyRound struct {
	server *redistest.Server
	pairs  [surveyWidth]surveyPair
}

func (r surveyRound) run(t *testing.T) {
	var clients []*interop.Client
	for i, p := range r.pairs {
		p.steady.clock.Set(p.other)
		p.stepping.clock.Set(p.offset)
		for kind, m := range map[string]team{"steady": p.steady, "stepping": p.stepping} {
			key := fmt.Sprint(kind, i)
			r.server.Do("SET", key, strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
			clients = append(clients, m.waiter(t, r.server.Addr(), key))
		}
	}
	r.check(t, r.watch(t, clients))
}

// watch watches while the clients wait, and lets one clock of each pair step in
// between.
func (r surveyRound) watch(t *testing.T, clients []*interop.Client) *Result {
	ctx, stop := context.WithCancel(t.Context())
	seen := make(chan *Result, 1)
	done := make(chan struct{})
	var result *Result
	var err error
	pool := r.server.Pool()
	defer pool.Close()
	cfg := Config{
		Config: census.Config{Dialects: []dialect.Dialect{dialect.Jedis()}, Lease: time.Minute,
			Gap: longestAttempt},
		Monitor: MonitorConfig{On: true, Burst: time.Minute, Every: time.Minute, Slower: 1000,
			Least: time.Second}, SeenEvery: 50 * time.Millisecond,
		Seen: func(r *Result) {
			select {
			case seen <- r:
			case <-ctx.Done():
			}
		},
	}
	go func() {
		defer close(done)
		result, err = Watch(ctx, pool, cfg)
	}()
	for r := range seen {
		if !r.Evidence.Covered(census.SourceMonitor).From.IsZero() {
			break
		}
	}
	for _, c := range clients {
		if _, err := c.BeginAcquire(); err != nil {
			t.Fatal(err)
		}
	}
	atLeast := func(n int64) {
		t.Helper()
		for r := range seen {
			if haveFailed(r, n) == 2*surveyWidth {
				return
			}
		}
		t.Fatal("the watch ended before all clients had polled")
	}
	// Two polls of each client are needed before and after the step.
	atLeast(5)
	for _, p := range r.pairs {
		p.stepping.clock.Set(p.offset + p.step)
	}
	atLeast(5 + 9)
	for _, c := range clients {
		if err := c.Die(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// haveFailed counts the writers whose clients have each failed at least n
// times.
func haveFailed(r *Result, n int64) int {
	count := 0
	for _, w := range r.Evidence.Writers {
		if w.Addr != "" && w.Counts.Failed >= n {
			count++
		}
	}
	return count
}

// apart returns the difference between the greatest and the smallest offset,
// before the steps or after them.
func (r surveyRound) apart() time.Duration {
	var all []time.Duration
	for _, p := range r.pairs {
		all = append(all, p.other, p.offset, p.offset+p.step)
	}
	return slices.Max(all) - slices.Min(all)
}

func (r surveyRound) check(t *testing.T, result *Result) {
	count := map[string]int{}
	for _, w := range result.Evidence.Writers {
		if w.Addr == "" || len(w.Keys) != 1 {
			continue
		}
		kind := strings.TrimRight(w.Keys[0], "0123456789")
		i, _ := strconv.Atoi(w.Keys[0][len(kind):])
		p := r.pairs[i]
		count[kind]++
		lies := func(clocks ...time.Duration) {
			for _, clock := range clocks {
				if !w.Offset.Contains(clock) || !w.Offset.Bounded() {
					t.Errorf("%s: %v is not in %v, by %d writes", w.Keys[0], clock, w.Offset.Interval,
						w.Offset.Writes)
				}
			}
		}
		switch kind {
		case "steady":
			lies(p.other)
			if len(w.Steps) > 0 {
				t.Errorf("%s: a steady clock, %v, called %v", w.Keys[0], p.other, w.Steps)
			}
		case "stepping":
			lies(p.offset, p.offset+p.step)
			if len(w.Steps) != 1 || w.Steps[0].By.Abs() > p.step.Abs() ||
				(w.Steps[0].By < 0) != (p.step < 0) {
				t.Errorf("%s: a step of %v to %v: %v", w.Keys[0], p.step, p.offset+p.step, w.Steps)
			}
		}
	}
	if s := result.Evidence.Spread; !s.Sound() || s.Guaranteed < r.apart() || s.Proved > r.apart() {
		t.Errorf("spread %+v, and the clocks were %v apart over the watch", s, r.apart())
	}
	for _, kind := range []string{"steady", "stepping"} {
		if count[kind] != surveyWidth {
			t.Errorf("%d %s clients found of %d", count[kind], kind, surveyWidth)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package audit

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
)

// shared is a proxy that sends the commands of all its clients over one server
// connection, one at a time.
type shared struct {
	listener net.Listener
	server   net.Conn
	reader   *bufio.Reader
	mu       sync.Mutex
	wg       sync.WaitGroup
	open     []net.Conn
}

func newShared(t *testing.T, addr string) *shared {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{listener: listener, server: server, reader: bufio.NewReader(server)}
	s.wg.Add(1)
	go s.accept()
	t.Cleanup(func() {
		listener.Close()
		server.Close()
		s.mu.Lock()
		for _, c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

func (s *shared) addr() string { return s.listener.Addr().String() }

func (s *shared) accept() {
	defer s.wg.Done()
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open = append(s.open, c)
		s.mu.Unlock()
		s.wg.Add(1)
		go s.serve(c)
	}
}

func (s *shared) serve(c net.Conn) {
	defer s.wg.Done()
	defer c.Close()
	from := bufio.NewReader(c)
	for {
		command, err := redistest.ReadValue(from)
		if err != nil {
			return
		}
		s.mu.Lock()
		_, err = s.server.Write(command)
		var reply []byte
		if err == nil {
			reply, err = redistest.ReadValue(s.reader)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

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

// The observed interval holds whatever clocks do: before a step and after it,
// and for both clocks that share one address.
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
	offset, other, step time.Duration // offset of the stepping clock, of the steady clock, and the step
}

// longestAttempt is longer than an attempt takes on a busy machine. A step more
// than twice as long cannot be taken for late writes.
const longestAttempt = 5 * time.Second

func (p *surveyPair) draw(random *rand.Rand) {
	p.offset = between(random, -5*time.Second, 5*time.Second)
	// If their clocks were whole seconds apart, the two would read as clients
	// with two leases.
	p.other = p.offset + notWhole(random, 3*time.Second)
	p.step = notWhole(random, 9*time.Second)
	p.step += time.Duration(cmp.Compare(p.step, 0)) * (2*longestAttempt + time.Second)
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Int64N(int64(high-low)))).Truncate(time.Millisecond)
}

// notWhole draws a duration of either sign, from half a second to most, at
// least a quarter of a second from any whole one.
func notWhole(r *rand.Rand, most time.Duration) time.Duration {
	for {
		d := between(r, -most, most)
		if rest := d.Abs() % time.Second; d.Abs() >= 500*time.Millisecond && rest > 250*time.Millisecond &&
			rest < 750*time.Millisecond {
			return d
		}
	}
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
		for _, kind := range []string{"steady", "stepping", "shared"} {
			r.server.Do("SET", fmt.Sprint(kind, i),
				strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
		}
		proxy := newShared(t, r.server.Addr()).addr()
		clients = append(clients, p.steady.waiter(t, r.server.Addr(), fmt.Sprint("steady", i)),
			p.stepping.waiter(t, r.server.Addr(), fmt.Sprint("stepping", i)),
			p.steady.waiter(t, proxy, fmt.Sprint("shared", i)),
			p.stepping.waiter(t, proxy, fmt.Sprint("shared", i)))
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
			if haveFailed(r, n) == 3*surveyWidth {
				return
			}
		}
		t.Fatal("the watch ended before all clients had polled")
	}
	// Two polls of each client are needed before and after the step, and more
	// if two clients share an address, since they need not alternate.
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
		each := n
		if len(w.Keys) > 0 && strings.HasPrefix(w.Keys[0], "shared") {
			each = 2 * n // two clients share the address
		}
		if w.Addr != "" && w.Counts.Failed >= each {
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
		case "shared":
			lies(p.other, p.offset, p.offset+p.step)
			if w.Shared == "" || len(w.Steps) > 0 {
				t.Errorf("%s: two clients behind one address: shared %q, %v", w.Keys[0], w.Shared,
					w.Steps)
			}
		}
	}
	if s := result.Evidence.Spread; !s.Sound() || s.Guaranteed < r.apart() || s.Proved > r.apart() {
		t.Errorf("spread %+v, and the clocks were %v apart over the watch", s, r.apart())
	}
	for _, kind := range []string{"steady", "stepping", "shared"} {
		if count[kind] != surveyWidth {
			t.Errorf("%d %s clients found of %d", count[kind], kind, surveyWidth)
		}
	}
}
